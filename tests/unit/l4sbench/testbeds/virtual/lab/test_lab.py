# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A lab is found for the sources it was built from, and for no others."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from l4sbench.catalog import Catalog
from l4sbench.errors import TestbedError
from l4sbench.facts.factors import DEFAULT_LAB
from l4sbench.facts.traits import Needs
from l4sbench.testbeds.virtual.lab import BuildOptions, Lab, build, labs, remove_lab, status
from l4sbench.testbeds.virtual.lab.builder import compiler_version
from l4sbench.testbeds.virtual.lab.cache import Cache
from l4sbench.testbeds.virtual.lab.inputs import Inputs
from l4sbench.testbeds.virtual.lab.lab import LabRecord, ModuleRecord, record_key
from l4sbench.testbeds.virtual.lab.pruning import guests_run, remove_parts, unused_parts
from l4sbench.testbeds.virtual.testbed import VirtualTestbed


def put(path: Path, text: str) -> None:
    """Write a file, and make its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    root = tmp_path / "kernels"
    for name, text in {
        "lab/kernel.config": "CONFIG_NET=y\n",
        "lab/patches/0001-hz.patch": "--- a\n",
        "lab/guest/Makefile": "all:\n",
        "lab/guest/lab-init.c": "int main;\n",
        "tcp_prague/Kbuild": "obj-m := tcp_prague.o\n",
        "tcp_prague/tcp_prague.c": "int x;\n",
        "codel/module.yml": "name: codel\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def pretend_built(
    cache: Path,
    kernels: Path,
    kernel: str = "k",
    options: str = "",
    built_in: tuple[str, ...] = (),
    name: str = DEFAULT_LAB,
    command: str = "l4sbench lab build",
) -> None:
    """Leave what a build leaves, as far as finding it goes."""
    home, inputs = Cache.open(cache), Inputs.read(kernels)
    for part in (f"kernel/{kernel}/linux", "rootfs/r/init", "tools/t/lab-init", "userland/u/x"):
        put(home.root / part, "x")
    put(home.root / f"kernel/{kernel}/config", f"CONFIG_NET_SCH_CODEL=y\nCONFIG_IPV6_SIT=m\n{options}")
    for module in ("tcp_prague", "tcp_vegas", "tcp_yeah"):
        put(home.root / f"modules/m/{module}.ko", "x")
    record = LabRecord(
        inputs=inputs.digests,
        compiler=compiler_version() or "none",
        own_kernel=name != DEFAULT_LAB,
        source="linux-source-7.3",
        kernel=f"kernel/{kernel}",
        kernel_digest="1",
        kernel_release="7.3.4-l4sbench",
        userland="userland/u",
        userland_digest="2",
        tools="tools/t",
        tools_digest="3",
        rootfs="rootfs/r",
        modules={
            module: ModuleRecord(part="modules/m", srcversion="ABC", digest="4")
            for module in ("tcp_prague", "tcp_vegas", "tcp_yeah")
        },
        options={"TCP_CONG_VEGAS": ("tcp_vegas",), "TCP_CONG_YEAH": ("tcp_vegas", "tcp_yeah")},
        built_in=built_in,
        name=name,
        command=command,
    )
    put(home.record(record_key(inputs, built_in, name)), record.model_dump_json())


def test_without_a_build_the_hint_says_what_to_do(cache: Path, kernels: Path) -> None:
    with pytest.raises(TestbedError, match="the lab is not built; l4sbench lab build"):
        Lab.locate(cache, kernels)
    assert not cache.exists()  # looking changes nothing


def test_a_built_lab_is_found_and_building_it_again_does_nothing(cache: Path, kernels: Path) -> None:
    pretend_built(cache, kernels)
    lab = Lab.locate(cache, kernels)
    assert lab.modules["tcp_prague"] == cache / "modules/m/tcp_prague.ko"
    assert lab.srcversions["tcp_prague"] == "ABC"
    assert lab.kernel == cache / "kernel/k/linux"
    said: list[object] = []
    offered = frozenset({"NET_SCH_CODEL", "TCP_CONG_YEAH"})
    assert build(BuildOptions(cache=cache, kernels=kernels, needs=offered), said.append) == lab
    assert said == []


def test_options_come_from_the_kernel_or_from_modules_in_load_order(cache: Path, kernels: Path) -> None:
    pretend_built(cache, kernels)
    lab = Lab.locate(cache, kernels)
    assert lab.lacks({"NET_SCH_CODEL", "TCP_CONG_YEAH"}) == frozenset()
    assert lab.lacks({"NET_SCH_SFB", "IPV6_SIT"}) == {"NET_SCH_SFB", "IPV6_SIT"}  # =m, and nobody built it
    assert lab.provided_by(["TCP_CONG_YEAH", "NET_SCH_CODEL"]) == ("tcp_vegas", "tcp_yeah")
    assert lab.provided_by(["NET_SCH_CODEL"]) == ()


def test_a_lab_with_another_kernel_is_used_only_when_it_is_needed(cache: Path, kernels: Path) -> None:
    pretend_built(cache, kernels)
    pretend_built(cache, kernels, "other", "CONFIG_TCP_MD5SIG=y\n", ("TCP_MD5SIG",))
    for needs, kernel in (
        ([], "k"),
        (["TCP_CONG_YEAH"], "k"),
        (["TCP_MD5SIG", "TCP_CONG_YEAH"], "other"),
        (["TCP_MD5SIG", "NET_SCH_SFB"], "k"),  # neither has both: check() then names what is missing
    ):
        assert Lab.locate(cache, kernels, needs).kernel == cache / "kernel" / kernel / "linux"
    (cache / "kernel/other/linux").unlink()
    assert Lab.locate(cache, kernels, ["TCP_MD5SIG"]).kernel == cache / "kernel/k/linux"


def test_what_a_cell_needs_beyond_the_kernel_is_a_problem_with_its_command(
    cache: Path, kernels: Path
) -> None:
    pretend_built(cache, kernels)
    testbed = VirtualTestbed(Lab.locate(cache, kernels), Catalog({}, {}))
    options = {"codel": frozenset({"NET_SCH_CODEL"}), "sfb": frozenset({"NET_SCH_SFB", "NET_SCH_CODEL"})}
    (problem,) = testbed.check(Needs(options=options, catalog=(Path("my queues"),)))
    assert str(problem) == (
        "sfb: needs CONFIG_NET_SCH_SFB, which the lab's kernel lacks; "
        "l4sbench lab build --catalog 'my queues'"
    )


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("lab/kernel.config", "kernel configuration"),
        ("lab/patches/0001-hz.patch", "kernel patches"),
        ("lab/patches/0002-new.patch", "kernel patches"),
        ("lab/guest/new/lab.h", "guest programs"),
        ("tcp_prague/tcp_prague.c", "module tcp_prague"),
        ("sch_new/Kbuild", "module sch_new"),
    ],
)
def test_a_change_of_any_input_makes_it_another_lab(cache: Path, kernels: Path, name: str, what: str) -> None:
    pretend_built(cache, kernels)
    (kernels / name).parent.mkdir(parents=True, exist_ok=True)
    with (kernels / name).open("a") as file:
        file.write("more\n")
    with pytest.raises(TestbedError, match=f"changed since the last build: {what}"):
        Lab.locate(cache, kernels)


def test_objects_and_catalog_entries_are_no_inputs(cache: Path, kernels: Path) -> None:
    pretend_built(cache, kernels)
    for name in ("tcp_prague/tcp_prague.o", "tcp_prague/tcp_prague.ko", "codel/module.yml", "lab/README.md"):
        (kernels / name).write_text("changed")
    Lab.locate(cache, kernels)


def test_two_checkouts_share_a_cache(cache: Path, kernels: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(kernels, tmp_path / "other"))
    pretend_built(cache, kernels)
    assert Lab.locate(cache, other) == Lab.locate(cache, kernels)
    (other / "tcp_prague" / "tcp_prague.c").write_text("int y;\n")
    pretend_built(cache, other)
    for at in (kernels, other):
        Lab.locate(cache, at)


def test_a_lab_with_parts_missing_says_which(cache: Path, kernels: Path) -> None:
    pretend_built(cache, kernels)
    (cache / "modules/m/tcp_prague.ko").unlink()
    with pytest.raises(TestbedError, match=r"incomplete: .*tcp_prague\.ko is gone"):
        Lab.locate(cache, kernels)


def test_status_tells_what_is_used_and_what_is_not(cache: Path, kernels: Path) -> None:
    assert status(cache, kernels).reason == "the lab is not built"
    pretend_built(cache, kernels)
    put(cache / "tools/old/lab-init", "x")
    state = status(cache, kernels)
    assert state.lab is not None
    assert {part.path.name: part.used for part in state.parts} == {
        "k": True, "u": True, "t": True, "old": False, "m": True, "r": True,
    }  # fmt: skip


def test_parts_of_other_sources_are_unused_and_can_be_removed(cache: Path, kernels: Path) -> None:
    pretend_built(cache, kernels, kernel="old")
    (kernels / "lab" / "kernel.config").write_text("CONFIG_NET=y\n# changed\n")
    pretend_built(cache, kernels)
    pretend_built(cache, kernels, kernel="more", built_in=("SIT",))
    for name in ("tools/old/lab-init", "source/s/linux.tar.xz", "node-userland/n/init"):
        put(cache / name, "x")
    parts = unused_parts(cache, kernels)
    assert [f"{part.kind}/{part.path.name}" for part in parts] == ["kernel/old", "tools/old"]
    assert remove_parts(parts, cache, kernels) == sum(part.size_bytes for part in parts) > 0
    assert not (cache / "kernel" / "old").exists()
    assert unused_parts(cache, kernels) == ()
    assert len(list((cache / "labs").glob("*.json"))) == 2  # that of the old kernel is gone
    assert Lab.locate(cache, kernels).gone is None
    assert Lab.locate(cache, kernels, needs=["SIT"]).gone is None


def test_nothing_is_removed_while_a_guest_runs(cache: Path, kernels: Path) -> None:
    pretend_built(cache, kernels)
    put(cache / "tools/old/lab-init", "x")
    parts = unused_parts(cache, kernels)
    program = cache / "kernel" / "k" / "linux"
    shutil.copy(shutil.which("sleep") or "", program)
    program.chmod(0o755)
    with subprocess.Popen([program, "600"]) as guest:
        try:
            assert guests_run(cache)
            assert unused_parts(cache, kernels) == ()
            assert remove_parts(parts, cache, kernels) == 0
        finally:
            guest.kill()
    assert (cache / "tools" / "old").exists()
    assert remove_parts(parts, cache, kernels) > 0


def test_an_installation_without_the_labs_files_says_so(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match="the installation is damaged"):
        Lab.locate(cache, tmp_path)


def test_a_tarball_and_a_tree_at_once_are_refused(tmp_path: Path, kernels: Path) -> None:
    with pytest.raises(TestbedError, match="name one of them"):
        build(BuildOptions(tarball=tmp_path, kernel_tree=tmp_path, cache=tmp_path, kernels=kernels))


def test_the_default_lab_is_not_for_debugging(cache: Path, kernels: Path) -> None:
    with pytest.raises(TestbedError, match="not for debugging; name another lab with --name"):
        build(BuildOptions(debug=True, cache=cache, kernels=kernels))
    assert BuildOptions(debug=True, name="debug").command == "l4sbench lab build --name debug --debug"


AGAIN = "l4sbench lab build --name mine --kernel-tree /src/linux"


def test_labs_with_names_exist_side_by_side(cache: Path, kernels: Path) -> None:
    pretend_built(cache, kernels)
    pretend_built(cache, kernels, "mine", name="mine", command=AGAIN)
    assert Lab.locate(cache, kernels).kernel == cache / "kernel/k/linux"
    assert Lab.locate(cache, kernels, name="mine").kernel == cache / "kernel/mine/linux"
    assert [(lab.name, lab.problem, lab.command) for lab in labs(cache, kernels)] == [
        ("default", "", "l4sbench lab build"),
        ("mine", "", AGAIN),
    ]


def test_a_lab_that_there_is_not_comes_with_the_command_that_builds_it(cache: Path, kernels: Path) -> None:
    with pytest.raises(TestbedError, match="there is no lab mine; l4sbench lab build --name mine --k"):
        Lab.locate(cache, kernels, name="mine")
    pretend_built(cache, kernels)
    pretend_built(cache, kernels, "mine", name="mine", command=AGAIN)
    with pytest.raises(TestbedError, match=r"there is no lab min; there are mine; .* --name min "):
        Lab.locate(cache, kernels, name="min")
    (kernels / "lab/kernel.config").write_text("CONFIG_NET=n\n")
    with pytest.raises(TestbedError) as error:
        Lab.locate(cache, kernels, name="mine")
    assert str(error.value) == (
        "the lab mine is not built for the current sources; changed since the last build: "
        f"kernel configuration; {AGAIN}"
    )
    assert [lab.problem[:38] for lab in labs(cache, kernels)] == [
        "the lab is not built for the current s",
        "the lab mine is not built for the curr",
    ]


def test_a_kernel_of_one_s_own_is_not_replaced_by_another_unasked(cache: Path, kernels: Path) -> None:
    pretend_built(cache, kernels, "mine", name="mine", command=AGAIN)
    with pytest.raises(TestbedError, match=r"whose source is not named; l4sbench lab build .*remove mine"):
        build(BuildOptions(cache=cache, kernels=kernels, name="mine"))
    with pytest.raises(TestbedError, match="no kernel tree whose build could be kept"):
        build(BuildOptions(cache=cache, kernels=kernels, name="mine", keep_tree=True))


def test_a_lab_is_not_removed_while_guests_run_on_it(cache: Path, kernels: Path) -> None:
    pretend_built(cache, kernels)
    pretend_built(cache, kernels, "mine", name="mine")
    shutil.copy2(shutil.which("sleep") or "sleep", cache / "kernel/mine/linux")
    with subprocess.Popen([cache / "kernel/mine/linux", "600"]) as guest:
        try:
            with pytest.raises(TestbedError, match="guests of the lab mine run"):
                remove_lab("mine", cache=cache)
        finally:
            guest.kill()
    assert remove_lab("mine", cache=cache) > 0


def test_removing_a_lab_removes_what_it_has_alone(cache: Path, kernels: Path) -> None:
    pretend_built(cache, kernels)
    pretend_built(cache, kernels, "mine", name="mine")
    put(cache / "trees/mine/Makefile", "x")
    assert remove_lab("mine", keep_tree=True, cache=cache) > 0
    assert not (cache / "kernel/mine").exists()
    assert (cache / "trees/mine/Makefile").exists()
    assert Lab.locate(cache, kernels).gone is None  # what both have stays
    assert [lab.name for lab in labs(cache, kernels)] == ["default"]
    assert remove_lab("mine", cache=cache) > 0
    assert not (cache / "trees/mine").exists()
    with pytest.raises(TestbedError, match="there is no lab mine"):
        remove_lab("mine", cache=cache)
    with pytest.raises(TestbedError, match="the default lab stays"):
        remove_lab("default", cache=cache)


def test_parts_of_named_labs_are_in_use(cache: Path, kernels: Path) -> None:
    pretend_built(cache, kernels)
    pretend_built(cache, kernels, "mine", name="mine")
    assert unused_parts(cache, kernels) == ()


def test_every_lab_has_an_identity_of_its_own(cache: Path, kernels: Path) -> None:
    pretend_built(cache, kernels)
    pretend_built(cache, kernels, "mine", name="mine")
    lab, mine = Lab.locate(cache, kernels), Lab.locate(cache, kernels, name="mine")
    needed = {**lab.digests.modules, "wire": "5", "lab_sink": "6"}
    lab = replace(lab, digests=replace(lab.digests, modules=needed))
    mine = replace(mine, digests=replace(lab.digests, kernel="other"))
    testbed = VirtualTestbed(lab, Catalog({}, {}), labs={"mine": mine})
    identity = testbed.identity()
    assert identity.of("mine").common["kernel"] == "other"
    assert identity.of("default").common == VirtualTestbed(lab, Catalog({}, {})).identity().common
    lacking = replace(mine, modules={})
    both = VirtualTestbed(lab, Catalog({}, {}), labs={"mine": lacking})
    (problem,) = both.check(Needs(modules=frozenset({"tcp_prague"})))
    assert str(problem) == "tcp_prague: the lab mine has no such kernel module; l4sbench lab build"
