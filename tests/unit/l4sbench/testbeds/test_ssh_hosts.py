# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The ssh testbed with hosts that are not ready, are lost, and come back. No time passes."""

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from l4sbench.app import api
from l4sbench.app.api import load_matrix
from l4sbench.engine.testbed import TrialStopped
from l4sbench.errors import TestbedError, TrialFailed
from l4sbench.facts.traits import Stage
from l4sbench.matrix import Matrix
from l4sbench.program import programs
from l4sbench.program.trial import TrialSpec, draw_conditions
from l4sbench.testbeds.ssh import TRAITS, SshTestbed, ansible
from l4sbench.testbeds.ssh.ansible import HostOutcome, Played
from l4sbench.testbeds.ssh.facts import HostFacts, Interface
from l4sbench.testbeds.ssh.memory import Known, Memory
from l4sbench.testbeds.ssh.readiness import HostsState, Readiness
from tests.patience import PATIENCE_S
from tests.unit.l4sbench.testbeds.inventories import hosts_for, write_inventory
from tests.unit.l4sbench.testbeds.test_ssh_stages import LINE6, TWO, inventory
from tests.unit.l4sbench.testbeds.test_switches import MATRIX, PORTS

AWAY = HostOutcome("unreachable", "no route")
BROKEN = HostOutcome("failed", "no headers")
RESTARTED = HostOutcome("failed", "it was restarted", {"state": "lost"})
PLAY_S = 5.0


class Hosts:
    """Hosts that answer what a test says, one play after the other, and then that all is well.

    Attributes:
        answers: What each of the next plays finds on some hosts, instead of success.
        plays: The playbooks that were run, each with the interfaces' part if it had one.
        release: The router's kernel.
    """

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.answers: list[Mapping[str, HostOutcome]] = []
        self.plays: list[str] = []
        self.release = "6.12.48"
        self.stop = Stop(self)

    def play(
        self, playbook: str, _: Path, names: Sequence[str], given: Mapping[str, object], **__: object
    ) -> Played:
        self.now_s += PLAY_S
        links = playbook == "prepare.yml" and "l4sbench_trial" in given
        steps = given.get("l4sbench_switch_steps", ())
        assert isinstance(steps, Sequence)
        self.plays.append(" ".join([playbook.removesuffix(".yml"), *["links"] * links, *steps]))
        kernels = given.get("l4sbench_kernel_of")
        if isinstance(kernels, Mapping) and "router" in kernels:
            self.release = {"six": "6.12.48", "seven": "7.3.4"}[kernels["router"]["name"]]
        well = {name: HostOutcome("ok", "", self.facts(name)) for name in names}
        return Played("successful", {**well, **(self.answers.pop(0) if self.answers else {})}, "")

    def facts(self, name: str) -> dict[str, object]:
        ports = hosts_for(LINE6).get(name.removeprefix("host-"), {}).get("l4sbench_ports", {})
        assert isinstance(ports, dict)
        told = HostFacts(
            kernel_release=self.release if name == "router" else "6.12.48",
            distribution="debian 13",
            tools=dict.fromkeys(("ip", "tc", "ss", "ethtool", "iperf3"), "9"),
            ccs=("cubic",),
            interfaces=tuple(Interface(name=network, mac=mac) for network, mac in ports.items()),
        ).model_dump(mode="json")
        return {**told, "facts": {"sde": "9", "program": "ncf", "time_s": time.time()}}


class Stop(threading.Event):
    """A request to stop on which waiting takes no time."""

    def __init__(self, hosts: Hosts, after: int = 1 << 30) -> None:
        super().__init__()
        self._hosts = hosts
        self._left = after

    def wait(self, timeout: float | None = None) -> bool:
        self._hosts.now_s += timeout or 0.0
        self._left -= 1
        if self._left <= 0:
            self.set()
        return self.is_set()


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Hosts:
    made = Hosts()
    monkeypatch.setattr(ansible, "play", made.play)
    monkeypatch.setattr(time, "monotonic", lambda: made.now_s)
    return made


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    path = tmp_path_factory.mktemp("matrix") / "m.yaml"
    text = "matrix: m\nrate: 10mbit\nrtt: 10ms\nduration: 2s\nflows: {one: {cc: cubic}}\nrule: none\n"
    path.write_text(text + "axes: {aqm: [fifo, dualpi2]}\n", encoding="utf-8")
    return load_matrix(path)


@pytest.fixture
def testbed(hosts: Hosts, matrix: Matrix, tmp_path: Path) -> SshTestbed:
    """Hosts that were asked and are ready."""
    path = inventory(tmp_path, TWO)
    made = SshTestbed(path, matrix.catalog, matrix.cells, cache=tmp_path, leave=hosts.stop)
    made.identity()
    assert hosts.plays == ["prepare"]
    hosts.plays.clear()
    return made


READY, LINKED, CHANGING, LOST = HostsState.READY, HostsState.LINKED, HostsState.CHANGING, HostsState.LOST


@pytest.mark.parametrize(
    ("way", "possible"),
    [
        ([], {READY}),
        ([READY], {LINKED, CHANGING, LOST}),
        ([READY, LINKED], {READY, CHANGING, LOST}),
        ([READY, CHANGING], {CHANGING, READY, LOST}),
        ([READY, LOST], {LOST, READY}),
    ],
    ids=["unasked", "ready", "linked", "changing", "lost"],
)
def test_hosts_do_not_change_to_states_that_they_cannot_get_to(
    way: list[HostsState], possible: set[HostsState], hosts: Hosts
) -> None:
    def there() -> Readiness:
        found = Readiness()
        for state in way:
            found.transition(state)
        return found

    for state in possible:
        found = there()
        found.transition(state)
        assert found.state is state
    for state in set(HostsState) - possible:
        found = there()
        before = found.state
        with pytest.raises(ValueError, match=f"^hosts that are {before.value} cannot be {state.value} next$"):
            found.transition(state)
        assert found.state is before


def stage(testbed: SshTestbed, kernel: str) -> Stage:
    stages = testbed.stages()
    assert stages is not None
    return next(one for one in stages.all if one.state == {"router": kernel})


def trial(matrix: Matrix, limit_s: float = PATIENCE_S) -> TrialSpec:
    cell = matrix.cells[0]
    made = programs(cell, LINE6, matrix.catalog, draw_conditions(cell, 1, TRAITS))
    return TrialSpec(cell, 1, 1, made, LINE6, "digest", limit_s)


def test_hosts_that_got_no_kernel_are_waited_for_by_the_next_change(
    hosts: Hosts, testbed: SshTestbed, tmp_path: Path
) -> None:
    hosts.answers = [{"router": AWAY}]
    with pytest.raises(TrialFailed) as caught:
        testbed.enter(stage(testbed, "seven"), hosts.stop)
    assert caught.value.reason == "hosts are not ready with seven: router: cannot be reached: no route"
    assert Memory(tmp_path / "hosts.json", tmp_path).load().changing
    assert hosts.plays == ["prepare"]
    hosts.answers = [{"router": AWAY}, {"router": AWAY}]
    assert "6.12.48" in testbed.enter(stage(testbed, "six"), hosts.stop).kernel_release
    known = Memory(tmp_path / "hosts.json", tmp_path).load()
    assert (known.changing, known.change_s, len(known.stages)) == (False, None, 1)
    assert hosts.plays == ["prepare"] * 4
    testbed.enter(stage(testbed, "seven"), hosts.stop)
    assert Memory(tmp_path / "hosts.json", tmp_path).load().change_s == PLAY_S


def test_hosts_of_a_run_of_their_own_may_be_away_while_kernels_change(
    hosts: Hosts, matrix: Matrix, tmp_path: Path
) -> None:
    path = inventory(tmp_path, TWO)
    testbed = SshTestbed(path, matrix.catalog, matrix.cells, own=True, cache=tmp_path, leave=hosts.stop)
    testbed.identity()
    hosts.answers = [{"router": AWAY, "delay": AWAY}] * 4
    assert "7.3.4" in testbed.enter(stage(testbed, "seven"), hosts.stop).kernel_release
    assert hosts.plays == ["prepare"] * 6


def test_hosts_that_do_not_come_back_end_a_run(hosts: Hosts, testbed: SshTestbed) -> None:
    hosts.answers = [{"router": BROKEN}]
    with pytest.raises(TrialFailed, match=r"^hosts are not ready with seven: router: no headers$"):
        testbed.enter(stage(testbed, "seven"), hosts.stop)
    hosts.answers = [{"router": BROKEN, "delay": AWAY}, {"router": BROKEN}]
    with pytest.raises(TrialFailed, match=r"^hosts are not ready with six: router: no headers$"):
        testbed.enter(stage(testbed, "six"), hosts.stop)
    hosts.answers = [{"router": BROKEN, "delay": AWAY}] * 100
    hosts.plays.clear()
    with pytest.raises(TestbedError) as caught:
        testbed.enter(stage(testbed, "six"), hosts.stop)
    assert caught.value.message == (
        "hosts did not come back within 600 s: delay: cannot be reached: no route"
    )
    assert len(hosts.plays) == 41  # one every 15 s


def test_a_change_that_is_stopped_is_remembered(hosts: Hosts, testbed: SshTestbed, tmp_path: Path) -> None:
    stop = Stop(hosts)
    stop.set()
    with pytest.raises(TrialStopped):
        testbed.enter(stage(testbed, "seven"), stop)
    assert Memory(tmp_path / "hosts.json", tmp_path).load().changing
    testbed.enter(stage(testbed, "six"), hosts.stop)
    hosts.answers = [{"router": AWAY}]
    with pytest.raises(TrialFailed):
        testbed.enter(stage(testbed, "seven"), hosts.stop)
    hosts.answers = [{"router": AWAY}] * 9
    with pytest.raises(TrialStopped):
        testbed.enter(stage(testbed, "six"), Stop(hosts, after=3))


def test_a_trial_waits_for_lost_hosts(
    hosts: Hosts, testbed: SshTestbed, matrix: Matrix, tmp_path: Path
) -> None:
    def run(limit_s: float = PATIENCE_S, after: int = 1 << 30) -> None:
        hosts.plays.clear()
        testbed.run(trial(matrix, limit_s), tmp_path / "raw", Stop(hosts, after))

    (tmp_path / "raw").mkdir()
    run()
    assert hosts.plays == ["trial"]
    hosts.answers = [{"delay": BROKEN}]
    with pytest.raises(TrialFailed, match=r"^delay: no headers$"):
        run()
    hosts.answers = [{"delay": BROKEN, "router": RESTARTED}]
    with pytest.raises(TrialFailed, match=r"^router: it was restarted$"):
        run()
    hosts.answers = [{"router": AWAY}, {"router": BROKEN}]
    run()
    assert hosts.plays == ["prepare", "prepare", "prepare", "trial"]
    hosts.answers = [{"router": AWAY}]
    with pytest.raises(TrialFailed, match=r"^router: cannot be reached: no route$"):
        run()
    hosts.answers = [{"router": AWAY}] * 2
    with pytest.raises(TrialStopped):
        run(after=2)
    hosts.answers = [{"router": AWAY}] * 9
    with pytest.raises(TrialFailed) as failed:
        run(limit_s=50.0)  # expires: no time passes
    assert failed.value.reason == "hosts have not come back: router: cannot be reached: no route"
    assert hosts.plays == ["prepare"] * 3
    hosts.answers = [{"router": AWAY}] * 100
    with pytest.raises(TestbedError) as caught:
        run()
    assert caught.value.message == (
        "hosts did not come back within 600 s: router: cannot be reached: no route"
    )
    assert caught.value.hint == "once they are reachable, the same command resumes the run"
    hosts.answers = []
    hosts.release = "6.12.49"
    with pytest.raises(TestbedError) as caught:
        run()
    assert caught.value.message == "router came back with Linux 6.12.49, not 6.12.48"
    hosts.release = "6.12.48"
    run()
    assert hosts.plays == ["prepare", "trial"]


@pytest.mark.parametrize(
    ("changing", "own", "plays"), [(False, False, 1), (True, False, 41), (False, True, 41)]
)
def test_hosts_that_may_be_restarting_are_waited_for(
    changing: bool, own: bool, plays: int, hosts: Hosts, matrix: Matrix, tmp_path: Path
) -> None:
    path = inventory(tmp_path, None)
    facts = {node: HostFacts.model_validate(hosts.facts(node)) for node in LINE6.by_name}

    def made(cache: Path) -> SshTestbed:
        hosts.plays.clear()
        return SshTestbed(path, matrix.catalog, matrix.cells, own=own, cache=cache, leave=hosts.stop)

    for cache in (tmp_path / "away", tmp_path / "late"):
        Memory(path, cache).save(Known(facts, changing=changing))
    hosts.answers = [{"router": AWAY, "delay": BROKEN}] * plays
    with pytest.raises(TestbedError) as caught:
        made(tmp_path / "away").identity()
    assert caught.value.message == "delay: no headers\nrouter: cannot be reached: no route"
    assert caught.value.hint == f"for details: ansible -i {path} router -m ping -vvv"
    assert len(hosts.plays) == plays
    hosts.answers = [{"router": AWAY}] * (plays > 1)
    testbed = made(tmp_path / "late")
    testbed.identity()
    assert len(hosts.plays) == 1 + (plays > 1)
    assert not Memory(path, tmp_path / "late").load().changing
    with pytest.raises(TestbedError, match="another run uses the hosts of"):
        made(tmp_path / "late").identity()
    assert (testbed.stages() is not None) is own
    del testbed  # which unlocks at once
    made(tmp_path / "late").identity()


def test_a_run_that_failed_leaves_its_hosts_to_the_next(
    hosts: Hosts, own_cache: Path, tmp_path: Path
) -> None:
    """Also while something keeps its traceback, as a notebook does."""
    path = inventory(tmp_path, None)
    hosts.answers = [{"router": BROKEN}] * 2
    kept = []
    for _ in range(2):
        with pytest.raises(TestbedError) as caught:
            api.run("quickstart", on=f"ssh:{path}", runs=tmp_path)
        kept.append(caught)
    assert [one.value.message for one in kept] == ["router: no headers"] * 2


def test_interfaces_are_brought_up_for_a_switch_after_each_change(hosts: Hosts, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(MATRIX.partition("  mice:")[0], encoding="utf-8")
    matrix = load_matrix(tmp_path / "m.yaml")
    of_nodes = hosts_for(LINE6, "host-")
    del of_nodes["host-router"]
    switch = {"l4sbench_switch": {"node": "router", "ports": PORTS}}
    path = write_inventory(tmp_path, {**of_nodes, "tofino": switch})
    testbed = SshTestbed(path, matrix.catalog, matrix.cells, cache=tmp_path, leave=hosts.stop)
    hosts.answers = [{}, {"tofino": BROKEN}]
    with pytest.raises(TestbedError) as caught:
        testbed.identity()
    assert caught.value.hint == "l4sbench docs fabric a-tofino-switch"
    testbed = SshTestbed(path, matrix.catalog, matrix.cells, own=True, cache=tmp_path / "new")
    hosts.plays.clear()
    testbed.identity()
    assert hosts.plays == ["prepare", "switch load"]

    def run() -> list[str]:
        hosts.plays.clear()
        (tmp_path / "raw").mkdir(exist_ok=True)
        testbed.run(trial(matrix), tmp_path / "raw", hosts.stop)
        return hosts.plays

    assert run() == ["prepare links", "switch begin", "trial"]
    assert run() == ["switch begin", "trial"]
    hosts.answers = [{}, {"host-delay": BROKEN}]
    with pytest.raises(TrialFailed, match=r"^host-delay: no headers$"):
        run()
    hosts.answers = [{"host-delay": BROKEN}]
    with pytest.raises(TrialFailed, match=r"^host-delay: no headers$"):
        run()
    assert hosts.plays == ["prepare links"]
    assert run() == ["prepare links", "switch begin", "trial"]
    hosts.answers = [{}, {"host-delay": RESTARTED}]
    with pytest.raises(TrialFailed, match=r"^host-delay: it was restarted$"):
        run()
    assert run() == ["prepare", "prepare links", "switch begin", "trial"]


def test_hosts_that_hang_in_a_new_kernel_are_restarted_from_outside(
    hosts: Hosts, matrix: Matrix, tmp_path: Path
) -> None:
    restarted: list[str] = []
    path = inventory(tmp_path, TWO)
    testbed = SshTestbed(
        path, matrix.catalog, matrix.cells, cache=tmp_path, leave=hosts.stop, restart=restarted.extend
    )
    testbed.identity()
    found = testbed.stages()
    assert found is not None
    seven = next(stage for stage in found.all if stage.state["router"] == "seven")
    timed_out = HostOutcome("failed", "Timed out waiting for last boot time check")
    hosts.answers = [{"router": timed_out, "delay": BROKEN}, {"router": HostOutcome("failed", "timed out")}]
    with pytest.raises(TrialFailed, match=r"last boot time check; restarted router from outside$"):
        testbed.enter(seven, hosts.stop)
    assert restarted == ["router"]
    assert hosts.plays == ["prepare", "prepare", "reach"]
    # hosts that answer are left alone
    hosts.answers = [{"router": BROKEN}]
    with pytest.raises(TrialFailed, match=r"no headers$"):
        testbed.enter(seven, hosts.stop)
    assert restarted == ["router"]
