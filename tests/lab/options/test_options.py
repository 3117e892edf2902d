# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Queues and congestion controls that the lab's kernel is built without: one folder each, and one command."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from l4sbench.app import api
from l4sbench.catalog import Catalog
from l4sbench.disk.files import remove_tree, write_whole
from l4sbench.errors import TestbedError
from l4sbench.program.uses import kernel_options
from l4sbench.testbeds.virtual.lab import Lab
from l4sbench.testbeds.virtual.lab.cache import Cache, read_note
from l4sbench.testbeds.virtual.lab.inputs import Inputs
from l4sbench.testbeds.virtual.lab.kernel import Kernel, find_kernel
from l4sbench.testbeds.virtual.lab.lab import read_record
from l4sbench.testbeds.virtual.lab.linuxmodules import build_linux_modules
from l4sbench.testbeds.virtual.lab.source import Source, SourceInfo, cached, from_tarball
from l4sbench.testbeds.virtual.testbed import VirtualTestbed
from tests.patience import PATIENCE_S, ran

pytestmark = [pytest.mark.lab, pytest.mark.long]

CATALOG = Path(__file__).parent / "catalog"
ROOT = Path(__file__).parents[3]

MATRIX = """\
matrix: options
topology: line6
rate: 10mbit
rtt: 10ms
duration: 4s
trials: 1
buffer_bdp: 8
flows:
  l4s:     {cc: vegas}
  classic: {cc: yeah}
axes:
  aqm: [sfb, choke]
"""


@pytest.fixture(scope="module")
def home(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for XDG_CACHE_HOME: the lab's parts, and the part of its kernel source that modules need.

    Unpacking the whole source for every test would take longer than all else.
    """
    root, home = lab.kernel.parents[2], tmp_path_factory.mktemp("home")
    ours = lab.modules.keys() - lab.provided_by(lab.options)
    parts = [lab.kernel.parent, lab.rootfs, lab.userland, lab.tools]
    for part in (*parts, *(lab.modules[name].parent for name in ours)):
        target = home / "l4sbench" / part.relative_to(root)
        shutil.copytree(part, target, symlinks=True, copy_function=_link, dirs_exist_ok=True)
    key = Inputs.read().key
    record = read_record(Cache.open(root), key)
    assert record is not None
    # whatever options the user has added
    modules = {name: record.modules[name] for name in ours}
    record = record.model_copy(update={"options": {}, "modules": modules})
    kept = Cache.open(home / "l4sbench").record(key)
    kept.parent.mkdir()
    write_whole(kept, record.model_dump_json())
    source = cached(Cache.open(root))
    info = None if source is None else read_note(source.path.parent / "info.json", SourceInfo)
    if source is None or info is None:
        pytest.skip("the cache has no kernel source")
    small = home / "l4sbench" / "source" / source.digest
    small.mkdir(parents=True)
    read = ("--wildcards", "*/Kconfig*", "--no-wildcards-match-slash", "*/net")
    _tar("-x", "-C", str(small), "-f", str(source.path), *read)
    (top,) = (path.name for path in small.iterdir())
    _tar("-c", "-C", str(small), "-f", str(small / "small.tar"), top)
    remove_tree(small / top)
    (small / "info.json").write_text(info.model_copy(update={"file": "small.tar"}).model_dump_json())
    yield home
    remove_tree(home)


def _link(source: str, target: str) -> None:
    if not os.path.lexists(target):
        os.link(source, target, follow_symlinks=False)


def _tar(*words: str) -> None:
    subprocess.run(["tar", *words], check=True, timeout=PATIENCE_S, capture_output=True)


@pytest.fixture
def l4sbench(home: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command, with a cache and a working directory of its own."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return ran(
            [sys.executable, "-m", "l4sbench", *words],
            cwd=tmp_path,
            env=os.environ | {"XDG_CACHE_HOME": str(home), "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        )

    return run


@pytest.fixture
def kernel(home: Path, lab: Lab) -> Kernel:
    found = find_kernel(Cache.open(home / "l4sbench"), lab.kernel.parent.name)
    assert found is not None
    return found


@pytest.fixture
def source(home: Path) -> Source:
    (path,) = (home / "l4sbench" / "source").glob("*/small.tar")
    return from_tarball(path)


def test_two_queues_and_two_congestion_controls_run_after_the_command_that_plan_names(
    l4sbench: Callable[..., subprocess.CompletedProcess[str]], lab: Lab, home: Path, tmp_path: Path
) -> None:
    shutil.copytree(CATALOG, tmp_path / "mine")
    (tmp_path / "options.yaml").write_text(MATRIX, encoding="utf-8")
    named = ("options.yaml", "--catalog", "mine")
    before = l4sbench("plan", *named)
    assert len(json.loads(l4sbench("plan", *named, "--json").stdout)["problems"]) == 4
    for name, option in {
        "sfb": "NET_SCH_SFB", "choke": "NET_SCH_CHOKE", "vegas": "TCP_CONG_VEGAS", "yeah": "TCP_CONG_YEAH",
    }.items():  # fmt: skip
        message = f"{name}: needs CONFIG_{option}, which the lab's kernel lacks; (l4sbench lab build .*)"
        assert re.search(message, before.stderr), before.stderr
    refused = l4sbench("run", *named)
    assert refused.returncode == 3
    command = re.search("lab build --catalog mine", refused.stderr)
    assert command is not None, refused.stderr

    built = l4sbench(*command[0].split())
    assert built.returncode == 0, built.stderr
    assert "CONFIG_" not in l4sbench("plan", *named).stderr
    ended = l4sbench("run", *named)
    assert ended.returncode == 0, ended.stderr
    tables = api.load("options", runs=tmp_path / "runs")
    assert tables.trials["status"].to_list() == ["ok", "ok"]
    assert set(tables.trials["aqm"]) == {"sfb", "choke"}
    assert set(tables.flows["cc"]) == {"vegas", "yeah"}
    assert tables.flows["goodput_mbps"].min() > 1  # type: ignore[operator]

    # the kernel keeps its bytes, and other cells their inputs
    more = Lab.locate(home / "l4sbench")
    catalog = Catalog.load()
    assert more.options["TCP_CONG_YEAH"] == ("tcp_vegas", "tcp_yeah")
    assert VirtualTestbed(more, catalog).identity().common == VirtualTestbed(lab, catalog).identity().common
    assert not more.provided_by(kernel_options(catalog.entries))
    # building without the catalog leaves the options in place
    assert l4sbench("lab", "build").returncode == 0
    assert Lab.locate(home / "l4sbench") == more


@pytest.mark.parametrize("option", ["TCP_MD5SIG", "BLK_DEV_LOOP"])
def test_an_option_that_is_no_module_below_net_needs_another_kernel(
    option: str, kernel: Kernel, source: Source, home: Path
) -> None:
    cache = Cache.open(home / "l4sbench")
    assert build_linux_modules(cache, kernel, source, frozenset({option}), 1, lambda *_: None) is None
    assert not list((cache.root / "modules").glob("*.partial"))


def test_an_option_that_linux_does_not_have_is_an_error(kernel: Kernel, source: Source, home: Path) -> None:
    cache = Cache.open(home / "l4sbench")
    with pytest.raises(TestbedError, match=r"Linux 7\.\S+ has no option CONFIG_NET_SCH_NOSUCH"):
        build_linux_modules(cache, kernel, source, frozenset({"NET_SCH_NOSUCH"}), 1, lambda *_: None)
