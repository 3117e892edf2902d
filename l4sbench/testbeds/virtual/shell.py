# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A guest with a cell's nodes, links and queues and no flows: a shell to look around in, or one command.

In the guest a node's name is a command that runs others on the node (`router tc -s qdisc`), and it resolves.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.guest import Boot, attach_guest, run_guest
from l4sbench.testbeds.virtual.script import GuestScript, guest_script

if TYPE_CHECKING:
    from l4sbench.program import Program
    from l4sbench.testbeds.virtual.lab import Lab
    from l4sbench.topology import Topology

COMMAND_LIMIT_S: Final = 3600.0
"""Wall-clock time after which a command's guest is killed."""

_SESSION: Final = "/trial/session"
_LONG_MS: Final = 7 * 24 * 3600 * 1000

# bash sources it; files of the read-only root are replaced by copies in memory
_SETUP: Final = """\
export HOME=/root PATH=/trial/bin:/lab/bin:/usr/sbin:/usr/bin:/sbin:/bin
echo 0 >/proc/sys/kernel/printk
cp /etc/hosts /run/hosts; cat /trial/hosts >>/run/hosts; mount --bind /run/hosts /etc/hosts
cp /etc/passwd /run/passwd; echo 'tcpdump:x:0:0::/root:/bin/sh' >>/run/passwd
mount --bind /run/passwd /etc/passwd
"""
# a program and not a function, so that it works behind `timeout` and in any shell; `ip` is looked up without
# the nodes' names, because a node may have that name
_ON: Final = """\
#!/bin/bash
node=$1
shift
if [ $# -eq 0 ]; then
	set -- /bin/bash --norc
fi
ip=$(PATH=${PATH#/trial/bin:} command -v ip)
PS1="$node:\\\\w# " exec "$ip" netns exec "$node" "$@"
"""
# setsid forks, and nobody would wait, unless it is in a subshell
_INTERACTIVE: Final = """\
(exec setsid -c bash --rcfile /trial/rc -i </dev/tty0 >/dev/tty0 2>&1)
exit 0
"""
_COMMAND: Final = """\
. /trial/setup
cd /root
exec </dev/null >/trial/out 2>/trial/err
(. /trial/commands)
echo $? >/trial/code
"""


@dataclass(frozen=True)
class CommandOutput:
    """The end of commands in a guest: what they wrote, and the exit code of the last one."""

    out: bytes
    err: bytes
    code: int


def open_shell(
    lab: Lab, programs: Mapping[str, Program], topology: Topology, options: Iterable[str] = ()
) -> int:
    """Boot a guest on this terminal, on the wall clock, and connect the terminal to a shell in it.

    `options` are the kernel options, without `CONFIG_`, that the programs need. Returns the exit code.

    Raises:
        InputError: the programs cannot share one guest.
        TestbedError: the guest could not be started.
    """
    size = shutil.get_terminal_size()
    rc = f". /trial/setup\ncd /root\nstty rows {size.lines} cols {size.columns}\nPS1='lab:\\w# '\n"
    with tempfile.TemporaryDirectory(prefix="l4sbench-shell-") as folder:
        trial = Path(folder)
        _write(trial, lab, programs, topology, options, {"session": _INTERACTIVE, "rc": rc})
        return attach_guest(Boot(lab.kernel, lab.rootfs, trial, seed=1, virtual_time=False))


def run_commands(
    lab: Lab,
    programs: Mapping[str, Program],
    topology: Topology,
    commands: str,
    options: Iterable[str] = (),
) -> CommandOutput:
    """Run commands of bash in a guest, in virtual time: waiting takes no wall time.

    Raises:
        InputError: the programs cannot share one guest.
        TestbedError: the guest could not be started, or did not get as far as the commands.
        TrialFailed: they did not end within `COMMAND_LIMIT_S`.
    """
    with tempfile.TemporaryDirectory(prefix="l4sbench-shell-") as folder:
        trial = Path(folder)
        _write(trial, lab, programs, topology, options, {"session": _COMMAND, "commands": commands})
        console = trial / "console"
        run_guest(Boot(lab.kernel, lab.rootfs, trial, seed=1), console, COMMAND_LIMIT_S, threading.Event())
        code = trial / "code"
        if not code.is_file():
            said = console.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-5:]
            raise TestbedError(f"the guest ended before the commands did: {' | '.join(said)}")
        return CommandOutput(
            (trial / "out").read_bytes(), (trial / "err").read_bytes(), int(code.read_text(encoding="ascii"))
        )


def _write(
    trial: Path,
    lab: Lab,
    programs: Mapping[str, Program],
    topology: Topology,
    options: Iterable[str],
    files: Mapping[str, str],
) -> None:
    script: GuestScript = guest_script(
        programs, topology, lab.provided_by(options), session=("bash", _SESSION), session_ms=_LONG_MS
    )
    script.write(trial)
    addresses = (f"{address.ip} {node.name}\n" for node in topology.nodes for address in node.addresses)
    written = {**files, "hosts": "".join(addresses), "setup": _SETUP}
    for name, text in written.items():
        (trial / name).write_text(text, encoding="utf-8")
    words = {node: f'#!/bin/bash\nexec /trial/bin/on {node} "$@"\n' for node in programs} | {"on": _ON}
    (trial / "bin").mkdir()
    for name, text in words.items():
        (trial / "bin" / name).write_text(text, encoding="utf-8")
        (trial / "bin" / name).chmod(0o755)


def commands_of(words: Sequence[str]) -> str:
    """Return words of a command line as bash reads them back; a single word may be a whole line."""
    return f"{words[0] if len(words) == 1 else shlex.join(words)}\n"


def piped_commands() -> str:
    """Return the commands on the standard input."""
    return sys.stdin.read()
