# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`send: exec` in the lab: examples/udp-l4s, and programs that fail."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from l4sbench.app import api
from l4sbench.app.finding import find_run
from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.udp import RECEIVE, SEND
from tests.lab.udp import udp_l4s as compiled_example
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.lab

HEAD = """\
matrix: m
rate: 10mbit
rtt: 20ms
trials: 1
rule: none
duration: 6s
capture: headers
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def udp_l4s(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's program, compiled."""
    return compiled_example(tmp_path_factory.mktemp("udp-l4s"))


def compiled(folder: Path, name: str, body: str) -> None:
    source = folder / f"{name}.c"
    source.write_text(f"#include <stdio.h>\n#include <unistd.h>\nint main(void) {{ {body} }}\n")
    argv = ["gcc", "-static", "-o", str(folder / name), str(source)]
    subprocess.run(argv, check=True, timeout=PATIENCE_S)


def run(folder: Path, flows: str, aqm: str = "dualpi2", **options: Any) -> api.EndedRun:
    matrix = folder / "m.yaml"
    matrix.write_text(f"{HEAD}aqm: {aqm}\nflows:\n{flows}")
    return api.run(matrix, runs=folder / "runs", trust=True, **options)


def group(sender: str, receiver: str = "", codepoint: str = "ect1") -> str:
    ends = f', exec_receiver: "{receiver}"' if receiver else ""
    return f'  l4s: {{send: exec, codepoint: {codepoint}, exec_sender: "{sender}"{ends}}}\n'


def test_a_sender_of_one_s_own_shares_a_link_and_reacts_to_marks(
    lab: Lab, tmp_path: Path, udp_l4s: Path
) -> None:
    (tmp_path / "udp-l4s").symlink_to(udp_l4s)
    ended = run(tmp_path, group(SEND, RECEIVE) + "  classic: {cc: cubic}\n")
    tables = api.load(ended)
    assert tables.trials["status"].to_list() == ["ok"], tables.trials["reasons"].to_list()
    assert tables.trials["traffic"].to_list() == ["exec, lean"]
    own = tables.flows.filter(group="l4s").row(0, named=True)
    other = tables.flows.filter(group="classic").row(0, named=True)
    assert own["goodput_mbps"] > 1
    assert other["goodput_mbps"] > 1
    assert 8 < own["goodput_mbps"] + other["goodput_mbps"] < 10
    assert own["delivered_ce_packets"] > 10
    reported = {
        key: value
        for side, key, value in tables.exec.select("side", "key", "value").iter_rows()
        if side == "sender"
    }
    packets = tables.packet_flows.filter(flow="l4s-0").row(0, named=True)
    assert 0 <= reported["packets_sent"] - packets["data_packets"] <= 20  # under way at the end
    assert 20 <= reported["rtt_ms.least"] < 25
    assert packets["sojourn_p95_ms"] < 15
    assert 0 < reported["alpha"] < 1
    left = list(ended.path.glob("cells/*/*/raw/.programs"))
    assert left == []  # the program itself is kept once, in the run directory
    assert (ended.path / "executables" / "udp-l4s").read_bytes() == udp_l4s.read_bytes()


def test_equal_trials_are_equal(lab: Lab, tmp_path: Path, udp_l4s: Path) -> None:
    (tmp_path / "udp-l4s").symlink_to(udp_l4s)
    found = []
    for _ in range(2):
        ended = run(tmp_path, group(SEND, RECEIVE) + "  classic: {cc: cubic}\n", new=True)
        (raw,) = ended.path.glob("cells/*/1-*/raw")
        names = ("tx-l4s/flow-l4s-0.sender.json", "rx-l4s/flow-l4s-0.receiver.json", "router/net-rx.pcap.gz")
        found.append([(raw / name).read_bytes() for name in names])
    assert found[0] == found[1]


def test_a_run_directory_runs_without_the_program_it_was_made_with(
    lab: Lab, tmp_path: Path, udp_l4s: Path
) -> None:
    (tmp_path / "udp-l4s").write_bytes(udp_l4s.read_bytes())
    (tmp_path / "udp-l4s").chmod(0o755)
    ended = run(tmp_path, group(SEND, RECEIVE))
    (tmp_path / "udp-l4s").unlink()
    again = api.run(find_run(ended.path) / "matrix.yaml", trials=2, runs=tmp_path / "runs")
    assert api.load(again).trials["status"].to_list() == ["ok", "ok"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('fputs("no such option: --x\\n", stderr); return 3;', "ended with code 3: no such option: --x"),
        ("sleep(100);", "was still running at the time limit"),
        ("__builtin_trap();", "ended with code 132"),
    ],
)
def test_a_sender_that_fails_makes_its_trial_fail_with_its_words(
    lab: Lab, tmp_path: Path, udp_l4s: Path, body: str, reason: str
) -> None:
    (tmp_path / "udp-l4s").symlink_to(udp_l4s)
    compiled(tmp_path, "own", body)
    ended = run(tmp_path, group("./own", RECEIVE))
    (found,) = api.load(ended).trials["reasons"].to_list()
    assert reason in found, found
    assert "on tx-l4s: /trial/.programs/own-" in found


def test_a_receiver_that_fails_makes_its_trial_fail_with_its_words(
    lab: Lab, tmp_path: Path, udp_l4s: Path
) -> None:
    (tmp_path / "udp-l4s").symlink_to(udp_l4s)
    ended = run(tmp_path, group(SEND, f"{RECEIVE} --wrong 1"))
    (found,) = api.load(ended).trials["reasons"].to_list()
    assert "ended with code 1: udp-l4s: unknown option --wrong (on rx-l4s: /trial/.programs/udp-l4s-" in found


@pytest.mark.parametrize(
    ("sender", "codepoint", "reason"),
    [
        (SEND.replace("--seconds {seconds}", "--seconds 2"), "ect1", "l4s-0: its last packet came to the"),
        (SEND.replace("{codepoint}", "not-ect"), "ect1", "l4s-0: 100% of its packets are not ect1; most are"),
        (f"{SEND} --json /dev/null", "ect1", "l4s-0: the sender's JSON (flow-l4s-0.sender.json) is missing"),
    ],
)
def test_what_a_program_did_not_do_makes_a_trial_invalid(
    lab: Lab, tmp_path: Path, udp_l4s: Path, sender: str, codepoint: str, reason: str
) -> None:
    (tmp_path / "udp-l4s").symlink_to(udp_l4s)
    tables = api.load(run(tmp_path, group(sender, RECEIVE, codepoint)))
    assert tables.trials["status"].to_list() == ["invalid"]
    assert reason in tables.trials["reasons"].item()
    assert tables.flows.filter(pl.col("send") == "exec").height == 0


HOSTILE = """\
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *what = argv[1], *json = argv[2];
    char name[4096];

    snprintf(name, sizeof(name), "%s-odd", json);
    if (!strcmp(what, "fifo"))
        return mkfifo(json, 0666) != 0;
    if (!strcmp(what, "link"))
        return symlink("/etc/passwd", json) != 0;
    if (!strcmp(what, "start")) /* a file that is written after the guest's end */
        return symlink("/trial/../../outside", "/trial/start.json") != 0;
    if (!strcmp(what, "device"))
        return mknod(name, S_IFBLK | 0666, makedev(7, 0)) != 0 && mkfifo(name, 0666) != 0;
    if (!strcmp(what, "rights"))
        return close(creat(name, 0755)) || chmod(name, 06755);
    for (int i = 0; i < 20000; i++) {
        snprintf(name, sizeof(name), "%s-%d", json, i);
        close(creat(name, 0644));
    }
    return 0;
}
"""


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("fifo", "tx-l4s/flow-l4s-0.sender.json is a FIFO"),
        ("link", "tx-l4s/flow-l4s-0.sender.json is a link"),
        ("start", "start.json is a link"),
        ("device", "tx-l4s/flow-l4s-0.sender.json-odd is a "),
        ("rights", "tx-l4s/flow-l4s-0.sender.json-odd is a file with special rights"),
        ("many", "more than 10000 files"),
    ],
)
def test_what_a_program_leaves_beside_raw_files_makes_its_trial_fail(
    lab: Lab, tmp_path: Path, udp_l4s: Path, what: str, reason: str
) -> None:
    (tmp_path / "udp-l4s").symlink_to(udp_l4s)
    (tmp_path / "own.c").write_text(HOSTILE)
    gcc = ["gcc", "-static", "-o", str(tmp_path / "own"), str(tmp_path / "own.c")]
    subprocess.run(gcc, check=True, timeout=PATIENCE_S)
    ended = run(tmp_path, group(f"./own {what} {{json}}", RECEIVE))
    (found,) = api.load(ended).trials["reasons"].to_list()
    assert reason in found
    for path in ended.path.rglob("*"):
        mode = path.lstat().st_mode
        assert path.name == "latest" or stat.S_ISDIR(mode) or stat.S_ISREG(mode), path
        assert path.is_relative_to(ended.path / "executables") or not mode & 0o7000 or stat.S_ISDIR(mode)
