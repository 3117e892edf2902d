# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A stand-in of a switch's shell: the SDE's programs, under whose names this file is linked.

Each checks its arguments, its environment and the files that it is given, notes its call in `calls.jsonl`
in its folder, and does what others rely on: files of a build, a server that listens. An argument or a file
that it does not know ends it with a message. It knows nothing of chips, of P4 or of what the real ones print.

    enter --command STRING  as `sde-env-9.13.3`: runs a string where the SDE is
    sudo, sysctl, p4_build.sh, bf_kdrv_mod_load, bf_switchd
"""

import hashlib
import json
import os
import shlex
import signal
import socket
import sys
import time
from pathlib import Path

HOME = Path(__file__).parent
"""The folder of this stand-in: `bin`, `install`, and the notes."""
INSTALL = HOME / "install"
PROGRAMS = HOME / ".bf-sde"
"""Where programs are installed, as the SDE itself cannot be written to."""
CHIP = {"id": "asic-0", "chip_family": "tofino", "instance": 0, "pcie_sysfs_prefix": "/sys/devices/none"}


def refuse(reason: str) -> None:
    sys.stderr.write(f"{sys.argv[0]}: {reason}\n")
    raise SystemExit(64)


def note(**more: object) -> None:
    with (HOME / "calls.jsonl").open("a", encoding="utf-8") as notes:
        notes.write(json.dumps({"name": Path(sys.argv[0]).name, "argv": sys.argv[1:], **more}) + "\n")


def digests(folder: Path, *suffixes: str) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.suffix in suffixes
    }


def of_the_sde() -> None:
    """Refuse an environment without the SDE's folders."""
    if os.environ.get("SDE_INSTALL") != str(INSTALL):
        refuse(f"SDE_INSTALL is {os.environ.get('SDE_INSTALL')}")


def enter() -> None:
    """Run a string where the SDE is: with its environment, which callers do not have.

    As the real one: anything but --command and one string prints the usage and ends with 0, the string is
    echoed within double quotes, input is not passed on, and a banner comes first.
    """
    if len(sys.argv) != 3 or sys.argv[1] != "--command":
        sys.stdout.write("usage: sde-env [--command STRING]\n")
        return
    string = sys.argv[2]
    if set(string) & set('"`\\'):
        refuse(f"the shell would change {string}")
    words = shlex.split(string.removesuffix("; exit $?"))
    folder = words[3]
    if words[:2] != ["python3", f"{folder}/switch.py"] or len(words) != 4 + STEPS[words[2]]:
        refuse(f"unknown command {words}")
    note(step=words[2], folder=folder, words=words[4:], argv=[])
    environment = {
        "PATH": f"{HOME / 'bin'}:{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(HOME),
        "SDE": str(HOME),
        "SDE_INSTALL": str(INSTALL),
        "P4_INSTALL": str(PROGRAMS),
        "LANG": "C.UTF-8",
        "L4SBENCH_GRPC": str((HOME / "grpc").read_text()),
    }
    sys.stdout.write("Use the command, Luke\n")
    sys.stdout.flush()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.execve("/bin/sh", ["sh", "-c", string], environment)


def sudo() -> None:
    """Run a command as itself: a test has no root."""
    if sys.argv[1] != "-n":
        refuse("a password is required")
    os.execvp(sys.argv[2], sys.argv[2:])


def sysctl() -> None:
    """Keep the number of huge pages, none at first."""
    kept = HOME / "hugepages"
    if sys.argv[1:] == ["-n", "vm.nr_hugepages"]:
        sys.stdout.write(f"{kept.read_text() if kept.exists() else 0}\n")
    elif sys.argv[1] == "-w" and sys.argv[2].startswith("vm.nr_hugepages="):
        kept.write_text(sys.argv[2].partition("=")[2])
    else:
        refuse(f"unknown arguments {sys.argv[1:]}")


STEPS = {"build": 0, "load": 0, "control": 0, "begin": 0, "results": 3, "end": 0}
"""Step -> number of its words after the folder."""


def p4_build() -> None:
    """Build as the SDE's script does: files below `share` of its install folder."""
    of_the_sde()
    if len(sys.argv) != 2:  # options that it does not know print the usage, and are no failure
        sys.stdout.write("usage: p4_build.sh [--p4-name NAME] [--p4c-flags FLAGS] PROGRAM\n")
        return
    source = Path(sys.argv[-1])
    note(files=digests(source.parent, ".p4", ".h"))
    if (HOME / "broken").exists():
        refuse("error: table classify: could not place")
    name = source.stem
    made = PROGRAMS / "share" / "tofinopd" / name
    (made / "pipe").mkdir(parents=True, exist_ok=True)
    for file in ("bf-rt.json", "pipe/context.json", "pipe/tofino.bin"):
        (made / file).write_text(hashlib.sha256(source.read_bytes()).hexdigest())
    place = str(made)
    pipeline = {
        "p4_pipeline_name": "pipe",
        "context": f"{place}/pipe/context.json",
        "config": f"{place}/pipe/tofino.bin",
        "pipe_scope": [0, 1, 2, 3],
        "path": place,
    }
    program = {"program-name": name, "bfrt-config": f"{place}/bf-rt.json", "p4_pipelines": [pipeline]}
    conf = {"chip_list": [CHIP], "p4_devices": [{"device-id": 0, "p4_programs": [program]}]}
    targets = PROGRAMS / "share" / "p4" / "targets" / "tofino"
    targets.mkdir(parents=True, exist_ok=True)
    (targets / f"{name}.conf").write_text(json.dumps(conf))


def bf_kdrv_mod_load() -> None:
    of_the_sde()
    if sys.argv[1:] != [str(INSTALL)]:
        refuse(f"unknown arguments {sys.argv[1:]}")
    note()


def bf_switchd() -> None:
    """Serve BF Runtime's port in the foreground, once all files of the configuration are there."""
    of_the_sde()
    if os.environ.get("LD_LIBRARY_PATH") != str(INSTALL / "lib"):
        refuse("libraries of the SDE are not to be found")
    known = ["--install-dir", str(INSTALL), "--conf-file"]
    if sys.argv[1:4] != known or sys.argv[5:] != ["--background"]:
        refuse(f"unknown arguments {sys.argv[1:]}")
    conf = json.loads(Path(sys.argv[4]).read_text())
    if conf["chip_list"] != [CHIP]:
        refuse("the board's chips are not those of its SDE")
    (program,) = conf["p4_devices"][0]["p4_programs"]
    (pipeline,) = program["p4_pipelines"]
    for file in (program["bfrt-config"], pipeline["context"], pipeline["config"]):
        if not Path(file).is_file():
            refuse(f"{file} is missing")
    note(program=program["program-name"], conf=conf)
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", int((HOME / "grpc").read_text())))
    if int((HOME / "hugepages").read_text()) < 196:
        refuse("not enough huge pages")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.alarm(600)  # should nobody end it
    time.sleep(0.3)  # as the real one it needs a while
    server.listen()
    while True:
        server.accept()[0].close()


if __name__ == "__main__":
    {
        "enter": enter,
        "sudo": sudo,
        "sysctl": sysctl,
        "p4_build.sh": p4_build,
        "bf_kdrv_mod_load": bf_kdrv_mod_load,
        "bf_switchd": bf_switchd,
    }[Path(sys.argv[0]).name]()
