# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Installable kernels: their data is whole, inventories name them, hosts get as few as their cells allow."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from l4sbench.app.api import load_matrix
from l4sbench.errors import InputError, TestbedError
from l4sbench.matrix import Matrix
from l4sbench.testbeds.ssh.brought import brought
from l4sbench.testbeds.ssh.facts import HostFacts, HostModule
from l4sbench.testbeds.ssh.hosts import Host
from l4sbench.testbeds.ssh.images import Image, Offers, Tool, load_images
from l4sbench.testbeds.ssh.kernels import (
    Choice,
    advice,
    allowed,
    anything,
    choose,
    module_sources,
    not_installable,
    own_kernels,
    running,
    unfit_kernels,
)
from l4sbench.topology import topology

LINE6 = topology("line6")

IMAGES = load_images()
BY_NAME = {image.name: image for image in IMAGES}
HOSTS = tuple(Host(node, (node,)) for node in LINE6.by_name)
STOCK = HostFacts(
    kernel_release="7.3.4",
    distribution="debian 13",
    modules={"tcp_prague": HostModule(srcversion="A")},
    accecn=True,
)
OLD = STOCK.model_copy(update={"kernel_release": "6.12.48+deb13-amd64", "accecn": False, "modules": {}})


def image(name: str, **offers: object) -> Image:
    """An image of a test's own."""
    return Image(
        name=name,
        about="",
        rank=1,
        distributions=("debian 13",),
        release=name,
        offers=Offers.model_validate({"kernel": "7.0", "accecn": True, **offers}),
        evidence="",
    )


@pytest.fixture(scope="module")
def quickstart() -> Matrix:
    return load_matrix("quickstart")


@pytest.fixture(scope="module")
def older_queues(quickstart: Matrix) -> Matrix:
    """The cells without DualPI2, which Debian's kernels are built without."""
    return quickstart.select(["aqm=fifo*,codel*,fq*"])


def chosen(matrix: Matrix, may: Mapping[str, tuple[Image, ...]]) -> tuple[Choice, ...]:
    choices, problems = choose(matrix.cells, matrix.catalog, HOSTS, may)
    assert problems == ()
    return choices


def test_every_wanted_distribution_has_a_kernel_for_prague(quickstart: Matrix, older_queues: Matrix) -> None:
    for distribution in ("debian 12", "debian 13", "ubuntu 22.04", "ubuntu 24.04"):
        images = tuple(image for image in IMAGES if distribution in image.distributions)
        # where DKMS cannot build it, the module is brought
        brings = frozenset({"tcp_prague"} if distribution in {"debian 12", "ubuntu 22.04"} else set())
        hosts = tuple(replace(host, brings=brings) for host in HOSTS)
        may = dict.fromkeys(LINE6.by_name, images)
        matrix = older_queues if "debian" in distribution else quickstart
        (choice,), problems = choose(matrix.cells, matrix.catalog, hosts, may)
        assert (len(choice.cells), problems) == (len(matrix.cells), ())
        assert choose(matrix.cells, matrix.catalog, HOSTS, may)[1] == () or brings


def test_dualpi2_is_built_where_there_are_headers(quickstart: Matrix) -> None:
    """Debian builds its kernels without it; on Debian 12 the headers of newer ones cannot be installed."""
    router = {"router": (BY_NAME["debian-backports"],)}
    assert choose(quickstart.cells, quickstart.catalog, HOSTS, router)[1] == ()
    name = "debian12-backports"
    (problem,) = choose(quickstart.cells, quickstart.catalog, HOSTS, {"router": (BY_NAME[name],)})[1]
    assert str(problem).startswith("router.l4sbench_kernels: none of its kernels suffices for dualpi2_")
    assert f"and 3 more cells: {name} has no dualpi2" in str(problem)


def test_what_the_studies_ran_is_there_with_its_defects() -> None:
    studied = {image.name: image for image in IMAGES if image.studies}
    assert studied.keys() == {"l4steam-testing", "bbr2-study", "bbr3-study"}
    assert all(image.defects for image in studied.values())
    assert "issue 38" in " ".join(studied["l4steam-testing"].defects)


def test_what_has_no_checksum_is_not_installed() -> None:
    without = {image.name for image in IMAGES if image.not_installable == "no checksum is known"}
    assert without == {"l4steam-testing", "bbr2-study", "bbr3-study"}
    study = BY_NAME["bbr2-study"]
    said = "not installable: no checksum is known; install it by hand: https://github.com/sdatta97/"
    assert study.obstacle.startswith(said)
    assert study.variables() == {"name": study.name, "release": study.release, "obstacle": study.obstacle}
    assert "obstacle" not in BY_NAME["debian-backports"].variables()
    assert BY_NAME["own"].variables()["built"] is True
    assert "built" not in BY_NAME["debian-backports"].variables()
    # who has it can list it; who has not is told before anything runs
    may = {"tx-classic": (study, BY_NAME["debian-backports"]), "rx-classic": (study,)}
    has = {"rx-classic": STOCK.model_copy(update={"kernel_release": "5.13.12"})}
    assert list(not_installable(may, has)) == [f"tx-classic: bbr2-study is {study.obstacle}"]


def test_advice_does_not_send_a_user_to_what_cannot_be_installed(quickstart: Matrix) -> None:
    jammy = OLD.model_copy(update={"distribution": "ubuntu 22.04"})
    cells = quickstart.select(["aqm=dualpi2"]).cells
    router, facts = [Host("router", ("router",))], {"router": jammy}
    (told,) = advice(cells, quickstart.catalog, router, facts, IMAGES, {})
    assert told.endswith(
        "with `l4sbench_kernels: [own]` in the inventory a run boots a suitable one, "
        "after `l4sbench kernel build`"
    )
    others = [image for image in IMAGES if image.name != "own"]
    (told,) = advice(cells, quickstart.catalog, router, facts, others, {})
    assert "of kernels/images only ubuntu22-mainline suffices, which is not installable" in told


def test_a_host_gets_what_it_prefers_unless_its_cells_need_another(quickstart: Matrix) -> None:
    may = dict.fromkeys(LINE6.by_name, (BY_NAME["debian-stock"], image("own", builds=("tcp_prague",))))
    (choice,) = chosen(quickstart, may)
    # Prague runs at both ends of the L4S flow and DualPI2 at the router; one kernel does for all cells there
    assert {host for host, name in choice.state.items() if name == "own"} == {
        "tx-l4s",
        "rx-l4s",
        "router",
    }
    alone = choose(quickstart.select(["aqm=fifo"]).cells, quickstart.catalog, HOSTS, may)[0]
    assert alone[0].state["router"] == "debian-stock"


def test_what_runs_now_changes_no_choice(older_queues: Matrix) -> None:
    may = {"router": (BY_NAME["debian-stock"], BY_NAME["debian-backports"])}
    assert running(may, {"router": OLD}) == {"router": "debian-stock"}
    assert running(may, {"router": STOCK}) == {"router": "debian-backports"}
    assert running(may, {"router": STOCK.model_copy(update={"kernel_release": "5.4"})}) == {}
    assert chosen(older_queues, may) == chosen(older_queues, may)


def test_cells_that_no_kernel_does_for_alike_are_kept_apart(quickstart: Matrix) -> None:
    queues = ("codel", "dualpi2")
    kernels = tuple(
        image(name, builds=("tcp_prague",), not_entries=[other for other in queues if other != name])
        for name in queues
    )
    matrix = quickstart.select([f"aqm={','.join(queues)}"])
    found = chosen(matrix, {"router": kernels, "tx-l4s": kernels})
    assert [dict(choice.state) for choice in found] == [
        # the sender, for which both will do, keeps the one that it prefers
        {"router": "codel", "tx-l4s": "codel"},
        {"router": "dualpi2", "tx-l4s": "codel"},
    ]
    assert [len(choice.cells) for choice in found] == [4, 4]


def test_a_host_with_several_nodes_has_one_kernel(quickstart: Matrix) -> None:
    both = Host("senders", ("tx-l4s", "tx-classic"))
    may = {"senders": (BY_NAME["debian-stock"], BY_NAME["debian-backports"])}
    (choice,), _ = choose(quickstart.cells, quickstart.catalog, (both,), may)
    assert choice.state == {"senders": "debian-backports"}


def test_cells_for_which_a_host_has_no_kernel_are_told(quickstart: Matrix) -> None:
    may = {"tx-l4s": (BY_NAME["debian-stock"],), "router": (BY_NAME["debian-stock"],)}
    choices, problems = choose(quickstart.cells, quickstart.catalog, HOSTS, may)
    assert choices == ()
    (first, *_) = map(str, problems)
    assert first.startswith("tx-l4s.l4sbench_kernels: none of its kernels suffices for ")
    assert "and 27 more cells: debian-stock has no prague, tcp_prague" in first


def test_hosts_that_may_boot_nothing_are_told_what_would_do(quickstart: Matrix) -> None:
    facts = {**dict.fromkeys(LINE6.by_name, STOCK), "tx-l4s": OLD, "router": OLD}
    told = list(advice(quickstart.cells, quickstart.catalog, HOSTS, facts, IMAGES, {}))
    assert len(told) == 2
    assert "without prague, tcp_prague; with `l4sbench_kernels: [debian-backports]`" in told[0]
    assert "router: Linux 6.12.48+deb13-amd64 without dualpi2" in told[1]
    # headers of the kernel that Debian 12 may boot cannot be installed there
    bookworm = {node: told.model_copy(update={"distribution": "debian 12"}) for node, told in facts.items()}
    others = [image for image in IMAGES if image.name != "own"]
    ends, *_ = advice(quickstart.cells, quickstart.catalog, HOSTS, bookworm, others, {})
    assert "with `l4sbench_kernels: [debian12-backports]` and tcp_prague by `l4sbench_modules`" in ends
    allowed_all = dict.fromkeys(LINE6.by_name, (BY_NAME["debian-backports"],))
    assert not list(advice(quickstart.cells, quickstart.catalog, HOSTS, facts, IMAGES, allowed_all))
    same = dict.fromkeys(LINE6.by_name, STOCK)
    assert not list(advice(quickstart.cells, quickstart.catalog, HOSTS, same, IMAGES, {}))


def test_hosts_made_for_the_run_boot_what_they_must(quickstart: Matrix) -> None:
    facts = {**dict.fromkeys(LINE6.by_name, OLD), "rx-l4s": STOCK}
    found = own_kernels(quickstart.cells, quickstart.catalog, HOSTS, facts, IMAGES)
    assert found.keys() == {"tx-l4s", "router"}
    assert {image.name for image in found["router"]} == {"debian-backports", "debian-stock"}
    # a kernel that will do, without the module that is yet to be built for it, is among them
    bare = {**facts, "rx-l4s": STOCK.model_copy(update={"modules": {}})}
    found = own_kernels(quickstart.cells, quickstart.catalog, HOSTS, bare, IMAGES)
    assert running(found, bare)["rx-l4s"] == "debian-backports"
    strange = {node: told.model_copy(update={"distribution": "other 1"}) for node, told in facts.items()}
    assert not own_kernels(quickstart.cells, quickstart.catalog, HOSTS, strange, IMAGES)


def test_modules_are_built_from_their_oldest_kernel_on(quickstart: Matrix) -> None:
    (prague,) = module_sources(quickstart.catalog, ["tcp_prague", "tcp_cubic"])
    assert (prague.name, prague.kernel, prague.tc) == ("tcp_prague", "7.0", ())
    assert (prague.folder / "dkms.conf").is_file()


def test_a_queue_comes_with_its_part_of_tc(quickstart: Matrix) -> None:
    (ncf,) = module_sources(quickstart.catalog, ["sch_ncf"])
    assert ncf.variables()["tc"] == ["ncf"]
    assert (ncf.folder / "q_ncf.c").is_file()


def test_a_kernel_of_another_distribution_is_told() -> None:
    may = {"router": (BY_NAME["debian-backports"], BY_NAME["ubuntu24-hwe"])}
    (problem,) = unfit_kernels(may, {"router": STOCK})
    assert "ubuntu24-hwe is for ubuntu 24.04, and the host runs debian 13" in str(problem)


def test_an_inventory_names_kernels_or_holds_them_in_full() -> None:
    full = image("own").model_dump(mode="json", exclude_none=True)
    variables = {"router": {"l4sbench_kernels": ["debian-stock", full]}, "delay": {}}
    found = allowed(variables, IMAGES, HOSTS, "hosts.yml")
    assert {host: [i.name for i in images] for host, images in found.items()} == {
        "router": ["debian-stock", "own"]
    }


def test_an_inventory_names_the_only_kernel_or_lets_the_distribution_decide() -> None:
    variables: dict[str, dict[str, object]] = {
        "router": {"l4sbench_kernel": "images/debian-backports"},
        "delay": {"l4sbench_kernel": "keep"},
        "tx-l4s": {"l4sbench_kernel": "distribution"},
        "rx-l4s": {"l4sbench_kernels": ["debian-stock"]},
        "tx-classic": {"l4sbench_kernel": image("own").model_dump(mode="json")},
    }
    found = allowed(variables, IMAGES, HOSTS, "hosts.yml")
    assert {host: [i.name for i in images] for host, images in found.items()} == {
        "router": ["debian-backports"],
        "rx-l4s": ["debian-stock"],
    }
    assert anything(variables, HOSTS, own=False) == {"tx-l4s"}
    # of hosts that were made for the run, also those of which the inventory says nothing
    assert anything(variables, HOSTS, own=True) == {"tx-l4s", "rx-classic"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"l4sbench_kernels": "debian-backports"}, "must be a list of kernels"),
        (
            {"l4sbench_kernels": ["debian-backport"]},
            "kernels/images has no debian-backport; did you mean debian-backports",
        ),
        ({"l4sbench_kernels": ["zzz"]}, "kernels/images has no zzz; choose from debian-backports"),
        ({"l4sbench_kernels": [7]}, "router.l4sbench_kernels[0]: expected a map, not 7"),
        ({"l4sbench_kernels": [{"name": "x"}]}, "router.l4sbench_kernels[0].release: is missing"),
        ({"l4sbench_kernels": ["debian-stock", "debian-stock"]}, "debian-stock is listed twice"),
        ({"l4sbench_kernels": ["debian-stock"], "l4sbench_kernel": {"name": "x"}}, "set only one of them"),
        ({"l4sbench_kernel": "images/zzz"}, "router.l4sbench_kernel: kernels/images has no zzz; choose from"),
        (
            {"l4sbench_kernel": "debian-backports"},
            'router.l4sbench_kernel: "debian-backports" is not a valid kernel; choose from keep',
        ),
    ],
)
def test_wrong_kernels_in_an_inventory_are_told(given: dict[str, object], told: str) -> None:
    with pytest.raises(InputError) as caught:
        allowed({"router": given}, IMAGES, HOSTS, "hosts.yml")
    assert told in str(caught.value)


def test_an_image_is_what_the_role_takes() -> None:
    from ruamel.yaml import YAML

    spec = Path(__file__).parents[4] / "roles/kernel/meta/argument_specs.yml"
    specs = YAML(typ="safe").load(spec)["argument_specs"]
    options = specs["main"]["options"]["kernel_image"]["options"]
    for found in IMAGES:
        assert found.variables().keys() <= options.keys()
        assert {"name", "release"} <= found.variables().keys()


def test_a_tool_without_repository_is_one_that_is_brought() -> None:
    whole = {"package": "iproute2", "program": "ss", "version": "6.18"}
    with pytest.raises(ValidationError, match="ss needs a repository: only tc is brought"):
        Tool.model_validate(whole)
    assert Tool.model_validate({**whole, "program": "tc"}).repository is None


def test_a_kernel_that_is_not_built_stops_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert brought({"router": BY_NAME["debian-backports"]}) == {}
    with pytest.raises(TestbedError) as caught:
        brought({"router": BY_NAME["own"]})
    assert caught.value.message == "the kernel of our own is not built"
    assert caught.value.hint == "`l4sbench kernel build` builds it, once"
