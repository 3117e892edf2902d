# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Estimates come from what trials really took."""

from pathlib import Path

import pytest

from l4sbench.app.finding import load_matrix
from l4sbench.facts.estimate import LocalMachine
from l4sbench.facts.traits import CostModel, TestbedTraits
from l4sbench.planning.cost import FILE, MOST_KINDS, CostBook, CostSums
from l4sbench.planning.estimating import Costs, carried_mbps, kind_of

FIFO, CODEL = "line6 fifo none bulk-cubic-1", "line6 codel none bulk-cubic-1"
SHAPE = CostModel(fixed_s=1.0, per_virtual_s=0.0, per_mbit_s=0.001)


def measured(*trials: tuple[float, float, float]) -> CostModel:
    sums = CostSums()
    for virtual_s, rate_mbps, cost_s in trials:
        sums = sums.with_trial(SHAPE.running_s(virtual_s, rate_mbps), cost_s)
    return sums.model(SHAPE)


def declared(book: CostBook, shape: CostModel = SHAPE) -> bool:
    """Return True if the declaration is all that a book knows."""
    costs = book.costs()
    return (costs.every, costs.kinds, costs.pace, costs.measured) == (shape, {}, 1.0, False)


def test_nothing_measured_is_what_the_testbed_states() -> None:
    assert CostSums().model(SHAPE) == SHAPE


def test_fixed_and_growing_cost_are_told_apart_by_trials_of_different_length() -> None:
    # In truth: 0.4 s and 3 ms a megabit.
    found = measured(*((s, 100.0, 0.4 + 0.3 * s) for s in (10, 30, 60)))
    assert found.fixed_s == pytest.approx(0.4)
    assert found.per_mbit_s == pytest.approx(0.003)
    assert found.cost_s(20.0, 10.0) == pytest.approx(1.0)


def test_trials_of_one_length_correct_the_growing_part() -> None:
    found = measured(*[(10.0, 100.0, 6.0)] * 5)
    assert (found.fixed_s, found.per_virtual_s) == (1.0, 0.0)
    assert found.per_mbit_s == pytest.approx(0.005)


def test_trials_shorter_than_the_stated_fixed_cost_correct_all() -> None:
    found = measured((10.0, 100.0, 0.5))
    assert found.cost_s(10.0, 100.0) == pytest.approx(0.5)
    assert found.fixed_s == pytest.approx(0.25)


def test_noise_that_would_give_a_negative_cost_gives_none() -> None:
    found = measured((10.0, 100.0, 5.0), (60.0, 100.0, 2.0))
    assert found.fixed_s >= 0
    assert found.per_mbit_s >= 0
    assert found.cost_s(35.0, 100.0) == pytest.approx(3.5)


def test_a_machine_that_got_faster_is_believed_soon() -> None:
    slow, fast = [(10.0, 100.0, 11.0)] * 400, [(10.0, 100.0, 3.0)] * 800
    assert measured(*slow, *fast).cost_s(10.0, 100.0) < 4.5


def test_books_are_kept_and_the_runs_own_is_believed_first(tmp_path: Path) -> None:
    run, cache = tmp_path / "run.json", tmp_path / "deep" / "cache.json"
    book = CostBook("small", SHAPE, (run, cache))
    assert declared(book)
    book.add(FIFO, 10.0, 100.0, 6.0)
    book.save()
    elsewhere = CostBook("small", SHAPE, (tmp_path / "other.json", cache))
    assert elsewhere.costs().trial_s(FIFO, 10.0, 100.0) == pytest.approx(6.0)
    elsewhere.add(FIFO, 10.0, 100.0, 26.0)
    elsewhere.save()
    assert CostBook("small", SHAPE, (run, cache)).costs().trial_s(FIFO, 10.0, 100.0) == pytest.approx(6.0)
    assert CostBook("small", SHAPE, (cache,)).costs().trial_s(FIFO, 10.0, 100.0) == pytest.approx(16.0)


def test_testbeds_do_not_mix_and_neither_do_shapes(tmp_path: Path) -> None:
    files = (tmp_path / "cost.json",)
    for name in ("one", "two"):
        book = CostBook(name, SHAPE, files)
        book.add(FIFO, 10.0, 100.0, 6.0 if name == "one" else 60.0)
        book.save()
    assert CostBook("one", SHAPE, files).costs().trial_s(FIFO, 10.0, 100.0) == pytest.approx(6.0)
    other = CostModel(fixed_s=2.0)
    assert declared(CostBook("one", other, files), other)


def test_a_kind_of_cell_has_a_cost_of_its_own(tmp_path: Path) -> None:
    book = CostBook("small", SHAPE, (tmp_path / "cost.json",))
    book.add(FIFO, 10.0, 100.0, 6.0)
    book.add(CODEL, 10.0, 100.0, 16.0)
    found = [book.costs().trial_s(kind, 10.0, 100.0) for kind in (FIFO, CODEL, "another")]
    assert found == [pytest.approx(6.0), pytest.approx(16.0), pytest.approx(11.0)]


def test_the_kinds_that_were_measured_last_are_remembered(tmp_path: Path) -> None:
    book = CostBook("small", SHAPE, (tmp_path / "cost.json",))
    book.add(FIFO, 10.0, 100.0, 6.0)
    book.add(CODEL, 10.0, 100.0, 6.0)
    for number in range(MOST_KINDS - 2):
        book.add(f"kind {number}", 10.0, 100.0, 6.0)
    book.add(FIFO, 10.0, 100.0, 6.0)
    book.add("one more", 10.0, 100.0, 6.0)
    assert len(book.costs().kinds) == MOST_KINDS
    assert FIFO in book.costs().kinds
    assert CODEL not in book.costs().kinds


def test_queue_senders_and_captures_make_the_kind(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(
        "matrix: m\nrate: 100mbit\nrtt: 10ms\nduration: 20s\nrule: none\nbuffer_bdp: 1\n"
        "flows:\n  own: {cc: prague}\n  other: {cc: cubic, count: 3}\naxes: {aqm: [fifo, codel]}\n"
    )
    first, second = load_matrix(file).cells
    assert kind_of(first) == "line6 fifo off bulk-cubic-3 bulk-prague-1"
    assert kind_of(second, capture=True) == "line6 codel headers bulk-cubic-3 bulk-prague-1"


def test_processor_time_is_not_read_from_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for bound in (False, True):
        traits = TestbedTraits(cost=SHAPE, processor_bound=bound)
        book = CostBook.of("small", traits, tmp_path)
        book.add(FIFO, 10.0, 100.0, 6.0)
        book.save()
        assert (tmp_path / FILE).exists() is not bound
        (tmp_path / FILE).unlink(missing_ok=True)


ERRORS = '{"n": 2, "total": -0.5, "squares": 0.3}'
SUMS = '{"n": 1, "x": 1, "y": 6, "xx": 1, "xy": 6}'
WHOLE = (
    '{"format": 3, "testbeds": {"small": {"shape": {"fixed_s": 1.0, "per_virtual_s": 0.0, '
    '"per_mbit_s": 0.001, "spread": 0.3}, "every": EVERY, "kinds": KINDS, "known": ERRORS, "new": ERRORS, '
    '"pace": ERRORS, "runs": ERRORS}}}'
)


def file_of(every: str = SUMS, kinds: str = "{}", errors: str = ERRORS) -> str:
    return WHOLE.replace("EVERY", every).replace("KINDS", kinds).replace("ERRORS", errors)


def test_a_whole_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "cost.json"
    file.write_text(file_of(kinds=f'{{"{FIFO}": {SUMS}}}'))
    found = CostBook("small", SHAPE, (file,)).costs()
    assert found.of(FIFO).cost_s(10.0, 100.0) == pytest.approx(6.0)
    assert 0.9 < found.pace < 1.0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"format": 1}',
        '{"format": 2, "testbeds": {"small": {"shape": 3}}}',
        '{"format": 3, "testbeds": {"small": 3}}',
        file_of(every="3"),
        file_of(every='{"n": 1}'),
        file_of(every=SUMS.replace("}", ', "more": 1}')),
        file_of(every=SUMS.replace("6", "-6")),
        file_of(every=SUMS.replace("6", "1e300")),
        file_of(every=SUMS.replace("6", "true")),
        file_of(every=SUMS.replace("6", '"six"')),
        file_of(every=SUMS.replace('"n": 1', '"n": 1e-300')),
        file_of(errors="3"),
        file_of(errors=ERRORS.replace("2", "1e-300")),
        file_of(errors=ERRORS.replace("-0.5", "1e9")),
        file_of(errors=ERRORS.replace("0.3", "1e9")),
        file_of(errors=ERRORS.replace("0.3", "-0.3")),
        file_of(kinds="3"),
        file_of(kinds='{"a": 3}'),
        file_of(kinds='{"a": ' + SUMS.replace("6", "0") + "}"),
    ],
)
def test_damaged_books_cost_an_estimate_and_nothing_else(tmp_path: Path, text: str) -> None:
    file = tmp_path / "cost.json"
    file.write_text(text)
    book = CostBook("small", SHAPE, (file, tmp_path))
    assert declared(book)
    book.add(FIFO, 1.0, 1.0, 1.0)
    book.save()
    assert not declared(CostBook("small", SHAPE, (file,)))


@pytest.mark.parametrize(
    ("flood", "mbps"),
    [
        ("{send: paced, rate: 100mbit, codepoint: ect0}", 100.0),
        # 20 Mbit/s for 5 of 20 s: of 54 bytes, and of 388 in all frames of a connection
        ("{send: syn-flood, rate: 20mbit, codepoint: ect0, start: 10s, stop: 15s}", 100 + 0.06 * 46296 / 4),
        ("{send: connect-flood, cc: cubic, rate: 20mbit, size: 50B, start: 15s}", 100 + 1.0 * 6443.3 / 4),
    ],
)
def test_floods_cost_what_their_packets_cost(tmp_path: Path, flood: str, mbps: float) -> None:
    file = tmp_path / "flood.yaml"
    file.write_text(
        "matrix: flood\nrate: 100mbit\nrtt: 10ms\nduration: 20s\nrule: none\nbuffer_bdp: 1\naqm: fifo\n"
        f"flows:\n  own: {{cc: prague}}\n  flood: {flood}\n"
    )
    (cell,) = load_matrix(file).cells
    assert carried_mbps(cell) == pytest.approx(mbps, rel=1e-3)


def test_the_cache_is_where_the_user_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    book = CostBook.of("small", TestbedTraits(cost=SHAPE))
    book.add(FIFO, 10.0, 100.0, 6.0)
    book.save()
    assert (tmp_path / "l4sbench" / "cost.json").is_file()


def learnt(*ratios: float, load: float = 0.0, runs: int = 1) -> Costs:
    """Return what a book knows after runs of trials of one kind whose costs have these ratios to 6 s."""
    machine = LocalMachine(2, load)
    book = CostBook("small", SHAPE, (Path("/nonexistent/cost.json"),), lambda: machine)
    for _ in range(runs):
        for ratio in ratios:
            book.add(FIFO, 10.0, 100.0, 6.0 * ratio)
        book.end_run(sum(ratios) * 6.0 * 3, 1, machine)
    return book.costs()


def test_even_costs_make_narrow_ranges_and_uneven_ones_wide_ones() -> None:
    even, uneven = learnt(*[1.0] * 40), learnt(*[0.5, 1.5] * 20)
    assert even.spreads[1] < 0.03
    assert uneven.spreads[1] > 0.3


def test_what_a_quiet_machine_adds_to_processor_time_is_learnt_and_what_load_adds_is_not() -> None:
    # every run takes three times the processor time of its trials
    assert learnt(1.0, 1.0, runs=40).pace == pytest.approx(3.0, rel=0.2)
    assert learnt(1.0, 1.0, runs=40, load=6.0).pace == 1.0


def test_runs_that_cost_other_than_estimated_widen_the_next_range(tmp_path: Path) -> None:
    files = (tmp_path / "cost.json",)
    spreads = []
    for ratio in (1.0, 1.0, 3.0, 0.3, 3.0, 0.3):
        book = CostBook("small", SHAPE, files)
        spreads.append(book.costs().spreads[2])
        book.add(FIFO, 10.0, 100.0, 6.0 * ratio)
        book.end_run(0.0, 1)
        book.save()
    assert spreads[2] < spreads[1]  # as estimated
    assert spreads[3] > spreads[2]
    assert spreads[5] > spreads[3]
