# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""From YAML to cells: crossing, linking, parameters, exclude, include, extends."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from l4sbench.errors import InputError
from l4sbench.matrix import Axis, Matrix, Trials, load
from l4sbench.text.units import Duration, Packets, Rate, Size

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog

MATRICES = Path(__file__).parents[4] / "matrices"

HEAD = """
matrix: test
rate: 100mbit
rtt: 10ms
duration: 30s
flows:
  l4s: {cc: prague}
  classic: {cc: cubic}
"""

Make = Callable[..., Matrix]
Shuffled = Callable[[list[str], list[str]], Matrix]


@pytest.fixture
def make(tmp_path: Path, small_catalog: Catalog) -> Make:
    """Loads a matrix that consists of HEAD and the given text, or of the text alone."""

    def load_text(text: str, *, head: str = HEAD, name: str = "matrix.yaml") -> Matrix:
        return Matrix.load(write(tmp_path / name, text, head=head), small_catalog)

    return load_text


def write(file: Path, text: str, *, head: str = HEAD) -> Path:
    file.write_text(head + dedent(text), encoding="utf-8")
    return file


def table(matrix: Matrix, *names: str) -> list[tuple[str, ...]]:
    """The named factors of every cell, as text."""
    return [tuple(str(cell.canonical().get(name)) for name in names) for cell in matrix.cells]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "axes: {aqm: [fifo], seed: [1, 2]}",
            "seed: is of the whole matrix, not a factor of cells; write it at",
        ),
        ("aqm: fifo\nquick: {rule: none}", "rule: is of the whole matrix"),
        ("aqm: fifo\nexclude: [{trials: 3}]", "trials: is of the whole matrix"),
        ("axes: {queue: [fifo, codel]}", "queue: unknown key; did you mean aqm?"),
        ("aqm: fifo\nbandwidth: 10mbit", "bandwidth: unknown key; did you mean rate?"),
        ("aqm: fifo\ndelay: 10ms", "delay: unknown key; did you mean rtt?"),
        ("aqm: fifo\nrepetitions: 5", "repetitions: unknown key; did you mean trials?"),
    ],
)
def test_a_key_that_is_no_factor_is_told_where_it_belongs(make: Make, text: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        make(text)
    assert message in str(raised.value)


def test_quickstart_is_what_the_design_says() -> None:
    matrix = load(MATRICES / "quickstart.yaml")
    assert (matrix.name, matrix.trials, matrix.rule, matrix.seed) == (
        "quickstart",
        Trials(3, 3),
        "l4sbench1",
        1,
    )
    assert matrix.axes == (
        Axis("aqm", ("aqm",), 7),
        Axis("buffer_bdp", ("buffer_bdp",), 2),
        Axis("classic.ecn", ("classic.ecn",), 2),
    )
    assert len(matrix.cells) == 28
    assert matrix.notes == ()
    assert matrix.source == (MATRICES / "quickstart.yaml").read_bytes()
    first, last = matrix.cells[0], matrix.cells[-1]
    assert (first.aqm, first.buffer_bdp, first.groups[1].ecn) == ("fifo", 1.0, "off")
    assert (last.aqm, last.buffer_bdp, last.groups[1].ecn) == ("dualpi2", 4.0, "classic")
    assert [group.name for group in first.groups] == ["l4s", "classic"]
    assert first.groups[0].ecn == "accecn"
    assert len({cell.id for cell in matrix.cells}) == 28


@pytest.mark.parametrize("file", sorted(MATRICES.glob("*.yaml")), ids=lambda file: file.stem)
def test_every_shipped_matrix_loads(file: Path) -> None:
    assert load(file).cells


def test_the_first_axis_changes_slowest(make: Make) -> None:
    matrix = make("""
        axes:
          aqm: [codel, fifo]
          buffer_bdp: [4, 1, 0.5]
    """)
    assert table(matrix, "aqm", "buffer_bdp") == [
        (aqm, buffer) for aqm in ("codel", "fifo") for buffer in ("4", "1", "0.5")
    ]


def test_a_matrix_without_axes_is_one_cell(make: Make) -> None:
    (cell,) = make("aqm: codel").cells
    assert cell.rate == Rate(10**8)
    assert cell.given == {"rate", "rtt", "duration", "aqm", "l4s.cc", "classic.cc"}


def test_dotted_keys_and_nested_flow_groups_say_the_same(make: Make) -> None:
    nested = make("aqm: codel\n", head=HEAD.replace("{cc: cubic}", "{cc: cubic, count: 3, ecn: classic}"))
    dotted = make("aqm: codel\nclassic.count: 3\nclassic.ecn: classic\n")
    assert nested.cells == dotted.cells
    assert nested.cells[0].id == dotted.cells[0].id


def test_off_needs_no_quotes(make: Make) -> None:
    quoted = make('aqm: codel\naxes: {classic.ecn: ["off", classic]}')
    plain = make("aqm: codel\naxes: {classic.ecn: [off, classic]}")
    assert quoted.cells == plain.cells
    assert table(plain, "classic.ecn") == [("off",), ("classic",)]


def test_flow_groups_are_open_ended(make: Make) -> None:
    matrix = make(
        """
        aqm: codel
        flows:
          l4s: {cc: prague, fallback: "on"}
          classic: {}
          flood: {cc: cubic, count: 20, start: 5s, from: tx-classic, to: rx-classic}
        axes:
          classic.cc: [cubic, prague]
        """,
        head="matrix: test\nrate: 100mbit\nrtt: 10ms\nduration: 30s\n",
    )
    l4s, classic, flood = matrix.cells[1].groups
    assert dict(l4s.params) == {"fallback": "on", "burst": 4}
    assert (classic.cc, classic.ecn, dict(classic.params)) == (
        "prague",
        "accecn",
        {"fallback": "off", "burst": 4},
    )
    assert (flood.count, flood.start, *flood.nodes) == (
        20,
        Duration(5 * 10**9),
        "tx-classic",
        "rx-classic",
    )


def test_a_linked_axis_changes_factors_together(make: Make) -> None:
    matrix = make(
        """
        axes:
          aqm: [codel]
          pairing:
            - {classic.cc: cubic, classic.ecn: classic}
            - {classic.cc: prague, classic.count: 2}
        """,
        head=HEAD.replace("classic: {cc: cubic}", "classic: {}"),
    )
    assert table(matrix, "classic.cc", "classic.ecn", "classic.count") == [
        ("cubic", "classic", "1"),
        ("prague", "accecn", "2"),
    ]
    assert matrix.axes[1] == Axis("pairing", ("classic.cc", "classic.ecn", "classic.count"), 2)


def test_a_fixed_value_stands_in_where_a_linked_axis_is_silent(make: Make) -> None:
    matrix = make("""
        aqm: codel
        classic.ecn: classic
        axes:
          load: [{classic.count: 2}, {classic.count: 4, classic.ecn: "off"}]
    """)
    assert table(matrix, "classic.count", "classic.ecn") == [("2", "classic"), ("4", "off")]


def test_a_crossed_parameter_is_dropped_where_it_does_not_apply(make: Make) -> None:
    matrix = make("""
        axes:
          aqm: [codel, fifo]
          aqm.target: [1ms, 5ms]
    """)
    assert table(matrix, "aqm", "aqm.target") == [("codel", "1ms"), ("codel", "5ms"), ("fifo", "None")]
    assert matrix.notes == (
        "aqm.target does not apply to fifo and is dropped there",
        f"2 equal cells were merged into one cell: {matrix.cells[2].id}",
    )
    assert "aqm.target" not in matrix.cells[2].given


def test_parameters_that_depend_on_another_are_dropped_with_it(make: Make) -> None:
    matrix = make("""
        aqm: fifo-ecn
        axes:
          aqm.form: [robust, literal]
          aqm.flow_limit: [10p, 20p]
    """)
    assert table(matrix, "aqm.form", "aqm.flow_limit", "aqm.target") == [
        ("robust", "None", "10s"),
        ("literal", "10p", "None"),
        ("literal", "20p", "None"),
    ]


def test_a_parameter_may_be_of_different_kinds(make: Make) -> None:
    matrix = make("""
        axes:
          queue:
            - {aqm: fifo, aqm.limit: 30kB}
            - {aqm: codel, aqm.limit: 20p}
            - {aqm: codel, aqm.limit: default}
    """)
    assert [cell.aqm_params["limit"] for cell in matrix.cells] == [Size(30_000), Packets(20), "default"]


def test_derived_parameters_are_absent_until_stated(make: Make) -> None:
    (cell,) = make("aqm: codel").cells
    assert dict(cell.aqm_params) == {"target": Duration(5 * 10**6), "interval": Duration(10**8)}


def test_stated_defaults_do_not_change_the_id(make: Make) -> None:
    plain = make("aqm: codel").cells[0]
    stated = make("""
        aqm: codel
        aqm.target: 5000us
        buffer_bdp: 1
        l4s.ecn: accecn
        l4s.fallback: "off"
        warmup: 0s
        topology: line6
    """).cells[0]
    assert stated == plain
    assert stated.id == plain.id


def test_a_profile_of_hosts_replaces_defaults_but_not_what_is_stated(make: Make) -> None:
    hosts = "aqm: fifo\naxes:\n  host: [ideal, vm]\n"
    matrix = make(hosts)
    assert table(matrix, "host", "path.pause", "path.pause_every", "path.pause_at") == [
        ("ideal", "0s", "330ms", "delay"),
        ("vm", "4ms", "330ms", "receivers"),
    ]
    assert matrix.cells[0].id == make("aqm: fifo\n").cells[0].id
    assert "path.pause" not in matrix.cells[1].identity
    stated = make(f"{hosts}  path.pause: [0s, 2ms]\n")
    expected = [("ideal", "0s"), ("ideal", "2ms"), ("vm", "0s"), ("vm", "2ms")]
    assert table(stated, "host", "path.pause") == expected


def test_equal_cells_become_one(make: Make) -> None:
    matrix = make(
        "aqm: codel\naxes: {rate: [100mbit, 0.1gbit, 50mbit, 100000kbit]}",
        head=HEAD.replace("rate: 100mbit", ""),
    )
    assert table(matrix, "rate") == [("100mbit",), ("50mbit",)]
    assert matrix.notes == (f"3 equal cells were merged into one cell: {matrix.cells[0].id}",)


def test_two_cells_with_one_id_are_an_error(make: Make) -> None:
    """These two durations give the same ten hex digits; durations are not part of the slug."""
    head = "matrix: test\nrate: 100mbit\nrtt: 10ms\nflows: {l4s: {cc: prague}}\n"
    with pytest.raises(
        InputError, match=r"two different cells have the id .*-7d31f84e90; they differ in duration"
    ):
        make("aqm: codel\naxes: {duration: [1.057456s, 1.557105s]}", head=head)


def test_exclude_compares_like_a_filter(make: Make) -> None:
    matrix = make(
        """
        axes:
          aqm: [fifo, fifo-ecn, codel]
          rate: [10mbit, 100mbit]
          classic.ecn: ["off", classic]
        exclude:
          - {aqm: "fifo*", rate: 0.1gbit}
          - {classic.ecn: classic, rate: "10mbit"}
          - {aqm: codel, rate: "10mbit,100mbit", classic.ecn: classic}
          - {aqm: codel, aqm.target: 7ms}
        """,
        head=HEAD.replace("rate: 100mbit", ""),
    )
    assert table(matrix, "aqm", "rate", "classic.ecn") == [
        ("fifo", "10mbit", "off"),
        ("fifo-ecn", "10mbit", "off"),
        ("codel", "10mbit", "off"),
        ("codel", "100mbit", "off"),
    ]
    (note,) = matrix.notes
    assert note.endswith(":18:5 matches no cell")


def test_what_is_excluded_need_not_be_possible(make: Make) -> None:
    """Prague runs with AccECN alone; the combination is crossed and left out."""
    matrix = make(
        """
        aqm: codel
        axes:
          l4s.cc: [prague, cubic]
          l4s.ecn: [accecn, classic]
        exclude:
          - {l4s.cc: prague, l4s.ecn: classic}
          - {l4s.cc: cubic, l4s.ecn: accecn}
    """,
        head=HEAD.replace("l4s: {cc: prague}", "l4s: {}"),
    )
    assert table(matrix, "l4s.cc", "l4s.ecn") == [("prague", "accecn"), ("cubic", "classic")]


def test_include_adds_whole_cells_after_exclude(make: Make) -> None:
    matrix = make("""
        aqm: codel
        axes:
          buffer_bdp: [1, 4]
        exclude:
          - {buffer_bdp: 4}
        include:
          - {buffer_bdp: 4, aqm: fifo, classic.count: 2}
          - {buffer_bdp: 1}
    """)
    assert table(matrix, "aqm", "buffer_bdp", "classic.count") == [("codel", "1", "1"), ("fifo", "4", "2")]
    assert matrix.notes == (f"2 equal cells were merged into one cell: {matrix.cells[0].id}",)


def test_without_axes_included_cells_are_all(make: Make) -> None:
    matrix = make("include: [{aqm: codel}, {aqm: fifo, aqm.limit: 30kB}]")
    assert table(matrix, "aqm", "aqm.limit") == [("codel", "None"), ("fifo", "30kB")]


def test_an_included_cell_has_the_groups_that_it_or_the_matrix_states(make: Make) -> None:
    matrix = make(
        """
        include:
          - {aqm: codel, new.cc: prague}
          - {aqm: codel, new.cc: prague, old.cc: cubic}
          - {aqm: codel}
        """,
        head=HEAD.replace("l4s: {cc: prague}", "new: {}").replace("classic: {cc: cubic}", "old: {}")
        + "  web: {cc: cubic}\ntopology: dumbbell\n",
    )
    assert [cell.group_names for cell in matrix.cells] == [("new", "web"), ("new", "old", "web"), ("web",)]
    alone = make("aqm: codel", head=HEAD.replace("  classic: {cc: cubic}\n", "").replace("l4s", "new"))
    others = HEAD.replace("l4s: {cc: prague}", "new: {}").replace("classic: {cc: cubic}", "old: {}")
    assert make("include: [{aqm: codel, new.cc: prague}]", head=others).cells == alone.cells


@pytest.mark.parametrize(
    ("text", "trials"),
    [
        ("", Trials(3, 3)),
        ("trials: 7", Trials(7, 7)),
        ("trials: {min: 3, max: 10, until: decided}", Trials(3, 10, "decided")),
        ("trials: {min: 3, max: 10}", Trials(3, 10, "decided")),
        ("trials: {min: 3, max: 3}", Trials(3, 3)),
    ],
)
def test_trials(make: Make, text: str, trials: Trials) -> None:
    assert make(f"aqm: codel\n{text}\n").trials == trials


def test_settings(make: Make) -> None:
    matrix = make("aqm: codel\nrule: anrw24\nseed: 7\ndescription: >\n  Why\n  not?\n")
    assert (matrix.rule, matrix.seed, matrix.description) == ("anrw24", 7, "Why not?")


def test_extends_merges_maps_and_replaces_lists(make: Make, tmp_path: Path) -> None:
    write(
        tmp_path / "base.yaml",
        """
        trials: {min: 3, max: 10}
        rule: anrw24
        axes: {aqm: [codel, fifo], buffer_bdp: [1, 4], rate: [10mbit]}
        exclude: [{aqm: fifo, buffer_bdp: 4}]
        """,
        head=HEAD.replace("rate: 100mbit", ""),
    )
    matrix = make(
        """
        matrix: child
        extends: base.yaml
        trials: {max: 5}
        rate: 50mbit
        flows: {classic: {count: 2}, third: {cc: cubic, from: tx-l4s, to: rx-l4s}}
        axes: {buffer_bdp: [1, 4, 8], duration: [1s]}
        exclude: [{buffer_bdp: 8}]
        """,
        head="",
    )
    assert (matrix.name, matrix.rule, matrix.trials) == ("child", "anrw24", Trials(3, 5, "decided"))
    assert [axis.name for axis in matrix.axes] == ["aqm", "buffer_bdp", "duration"]
    assert table(matrix, "aqm", "buffer_bdp", "rate", "classic.count", "duration", "third.cc") == [
        (aqm, buffer, "50mbit", "2", "1s", "cubic") for aqm in ("codel", "fifo") for buffer in ("1", "4")
    ]
    assert matrix.cells[0].group_names == ("l4s", "classic", "third")


def test_a_later_base_wins_over_an_earlier_one(make: Make, tmp_path: Path) -> None:
    write(tmp_path / "one.yaml", "aqm: codel\nseed: 1\nrule: one")
    write(tmp_path / "two.yaml", "matrix: two\naqm: fifo\nseed: 2", head="")
    matrix = make("matrix: child\nextends: [one.yaml, two.yaml]", head="")
    assert (matrix.cells[0].aqm, matrix.seed, matrix.rule) == ("fifo", 2, "one")


def test_the_source_of_an_extended_matrix_stands_alone(make: Make, tmp_path: Path) -> None:
    write(
        tmp_path / "base.yaml",
        'aqm: codel\ntrials: {min: 2, max: 4}\nexclude: [{classic.ecn: "off", buffer_bdp: 1}]',
    )
    (tmp_path / "below").mkdir()
    matrix = make(
        """
        matrix: child
        description: "with: a colon # and a hash"
        extends: ../base.yaml
        axes:
          classic.ecn: [off, classic]
          load: [{buffer_bdp: 1}, {buffer_bdp: 4, classic.count: 2}]
        include: [{buffer_bdp: 0.5, l4s.fallback: on}]
        """,
        head="",
        name="below/child.yaml",
    )
    (tmp_path / "base.yaml").unlink()
    again = make(matrix.source.decode(), head="", name="below/again.yaml")
    assert len(again.cells) == 4
    assert again.cells == matrix.cells
    assert (again.name, again.description, again.trials) == (matrix.name, matrix.description, matrix.trials)
    assert again.source == matrix.source


def test_a_matrix_brings_its_own_catalog(tmp_path: Path) -> None:
    """A new queue is one folder and no Python."""
    folder = tmp_path / "mine" / "slowpoke"
    folder.mkdir(parents=True)
    sample = Path(__file__).parents[3] / "errors" / "catalog" / "codel" / "module.yml"
    (folder / "module.yml").write_text(
        sample.read_text(encoding="utf-8").replace("name: codel", "name: slowpoke")
    )
    text = f"{HEAD}\naqm: slowpoke\naqm.target: 7ms\n"
    (tmp_path / "a.yaml").write_text(text)
    (tmp_path / "b.yaml").write_text(f"{text}catalog: mine\n")
    assert (
        load(tmp_path / "b.yaml").cells == load(tmp_path / "a.yaml", catalog_dirs=[tmp_path / "mine"]).cells
    )
    with pytest.raises(InputError, match="the catalog has no queue slowpoke"):
        load(tmp_path / "a.yaml")
    (tmp_path / "c.yaml").write_text(f"{text}catalog: [mine, yours]\n")
    with pytest.raises(InputError, match=r"c\.yaml:12:10: catalog: folder .*yours not found"):
        load(tmp_path / "c.yaml")


AXES = {
    "aqm": "[fifo, codel, fifo-ecn]",
    "buffer_bdp": "[1, 4]",
    "classic.ecn": '["off", classic]',
    "pairing": "[{classic.cc: cubic}, {classic.cc: cubic, classic.count: 2}]",
    "aqm.limit": "[default]",
}
FIXED = [
    "rate: 100mbit",
    "rtt: 10ms",
    "duration: 30s",
    "flows: {l4s: {cc: prague}, classic: {}}",
    "l4s.burst: 5",
]


@pytest.fixture(scope="module")
def shuffled(small_catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Shuffled:
    """Loads a matrix whose keys stand in the given order."""
    folder = tmp_path_factory.mktemp("order")

    def load_in_order(axes: list[str], fixed: list[str]) -> Matrix:
        lines = ["matrix: test", *fixed, "axes:", *(f"  {name}: {AXES[name]}" for name in axes)]
        return Matrix.load(write(folder / "m.yaml", "\n".join(lines), head=""), small_catalog)

    return load_in_order


@settings(max_examples=15)
@given(axes=st.permutations(list(AXES)), fixed=st.permutations(FIXED))
def test_ids_do_not_depend_on_the_order_of_keys(
    shuffled: Shuffled, axes: list[str], fixed: list[str]
) -> None:
    matrix = shuffled(axes, fixed)
    assert {cell.id for cell in matrix.cells} == {cell.id for cell in shuffled(list(AXES), FIXED).cells}
    assert len(matrix.cells) == 24
    assert all(list(cell.factors) == sorted(cell.factors) for cell in matrix.cells)


def test_expanding_is_fast(make: Make) -> None:
    """100,000 cells take about 2 s of a CPU; a tenth of it, with room for a busy machine."""
    values = ", ".join(f"{n}ms" for n in range(1, 101))
    began = time.process_time()
    matrix = make(
        f"""
        axes:
          aqm: [codel, fifo]
          rtt: [{values}]
          buffer_bdp: [{", ".join(str(n) for n in range(1, 51))}]
        """,
        head=HEAD.replace("rtt: 10ms", ""),
    )
    assert len({cell.id for cell in matrix.cells}) == 10_000
    assert time.process_time() - began < 2.0


def test_a_matrix_has_a_largest_size(make: Make) -> None:
    many = ", ".join(str(n) for n in range(1, 1002))
    with pytest.raises(InputError, match="1002001 cells exceed the maximum"):
        make(f"aqm: codel\naxes: {{buffer_bdp: [{many}], path.noise: [{many}]}}")


def test_events_nest_and_are_factors_like_others(make: Make) -> None:
    nested = make("aqm: codel\nevents:\n  step: {at: 20s, rate: 25mbit}\n  back: {at: 25s, rate: 100mbit}")
    dotted = make(
        """
        aqm: codel
        events.step.at: 20s
        events.step.rate: 25mbit
        events: {back: {rate: 100mbit}}
        axes: {events.back.at: [25s, 26s]}
        """
    )
    assert nested.cells[0] == dotted.cells[0]
    assert nested.cells[0].id == dotted.cells[0].id
    assert [cell.events[1].at.s for cell in dotted.cells] == [25, 26]
    assert dotted.select(["events.back.at=26s"]).cells == dotted.cells[1:]


def test_an_axis_may_have_cells_without_the_event(make: Make) -> None:
    found = make("aqm: codel\naxes: {path: [{rtt: 20ms}, {events.up.at: 5s, events.up.rate: 1gbit}]}")
    assert [len(cell.events) for cell in found.cells] == [0, 1]
    assert (
        make("aqm: codel\nrtt: 20ms", head=HEAD.replace("rtt: 10ms\n", "")).cells[0].id == found.cells[0].id
    )


@pytest.mark.parametrize(
    ("path", "stated", "count"),
    [
        ("", "0.5/packet", 83),  # 100 Mbit/s for 10 ms are 83.3 packets, as is the buffer
        ("buffer_bdp: 0.5", "0.5/packet", 63),  # 62.5
        ("buffer_bdp: 1", "0.009/packet", 2),  # exactly 1.5
    ],
)
def test_flows_per_packet_of_path_and_buffer_are_a_count(
    make: Make, path: str, stated: str, count: int
) -> None:
    matrix = make(f"aqm: fifo\naxes: {{l4s.count: [{stated}]}}\n{path}\n")
    assert [cell.groups[0].count for cell in matrix.cells] == [count]
    written = make(f"aqm: fifo\n{path}\n", head=HEAD.replace("cc: prague", f"cc: prague, count: {count}"))
    assert [cell.id for cell in matrix.cells] == [cell.id for cell in written.cells]


def test_counts_follow_from_the_path_of_each_cell(make: Make) -> None:
    matrix = make(
        """
        aqm: fifo
        axes: {buffer_bdp: [1, 3]}
        include:
          - {buffer_bdp: 2, l4s.cc: prague, l4s.count: 0.1/packet}
        """,
        head=HEAD.replace("cc: prague", "cc: prague, count: 0.03/packet"),
    )
    assert [cell.groups[0].count for cell in matrix.cells] == [5, 10, 25]


def test_a_count_that_is_out_of_range_names_its_path(make: Make) -> None:
    message = (
        "l4s.count: 0.001/packet at 100mbit, 10ms and a buffer of 1 BDP: 0 is out of range; it must be at"
    )
    with pytest.raises(InputError, match=f"{message} least 1"):
        make("aqm: fifo\naxes: {l4s.count: [0.001/packet, 2]}")
