# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What holds for every test."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

# where this is set, each of the commands that tests start compiles all that it imports
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# a busy machine is no failure, and fixtures of functions only make files
settings.register_profile(
    "l4sbench",
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("l4sbench")


@pytest.fixture(autouse=True)
def standard_input_keeps_blocking() -> Iterator[None]:
    """ssh makes an inherited standard input non-blocking, for all who share it; Ansible then refuses it."""
    before = os.get_blocking(0)
    yield
    after = os.get_blocking(0)
    os.set_blocking(0, before)
    assert after == before, "a command changed the standard input: give it stdin=subprocess.DEVNULL"


@pytest.fixture(autouse=True, scope="session")
def interrupts_are_heard() -> None:
    """A shell has what it starts in the background ignore interrupts, and nohup hang-ups; tests send both."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def memo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which commands of all tests keep what they parsed, which takes seconds."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "memo"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def own_cache(tmp_path_factory: pytest.TempPathFactory, memo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's cache that has nothing but what commands parsed."""
    cache = tmp_path_factory.mktemp("cache")
    (cache / "l4sbench").mkdir()
    (cache / "l4sbench" / "memo").symlink_to(memo)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return cache


REAL_TIME = ("tests/lab/ssh/", "tests/lab/nodes/")
"""Folders whose tests boot nodes, which keep to the clock and mostly wait."""

LONGEST = (*REAL_TIME, "tests/fabric/", "tests/attack/", "tests/lab/", "tests/packaging/")
"""Folders whose tests begin first, so that no worker is left with a long file at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort tests by folder, the longest first."""

    def place(item: pytest.Item) -> int:
        return next((n for n, folder in enumerate(LONGEST) if item.nodeid.startswith(folder)), len(LONGEST))

    items.sort(key=place)


class ByClock(LoadFileScheduling):  # type: ignore[misc]  # a class of no type
    """Gives out tests by file, and those of real time as one, as nodes make other nodes late."""

    def _split_scope(self, nodeid: str) -> str:
        return "real time" if nodeid.startswith(REAL_TIME) else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByClock:
    """Return the scheduler of `-n`."""
    return ByClock(config, log)
