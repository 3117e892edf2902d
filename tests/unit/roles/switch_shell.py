# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A stand-in of a switch's shell: the SDE's programs, under whose names this file is linked.

Each checks its arguments, its environment and the files that it is given, notes its call in `calls.jsonl`
in its folder, and does what others rely on: files of a build, a server that listens. An argument or a file
that it does not know ends it with a message. It knows nothing of chips, of P4 or of what the real ones print.

    enter ARGUMENTS         as `docker exec`: runs the rest where the SDE is
    p4_build.sh, bf_kdrv_mod_load, bf_switchd
"""

import hashlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

HOME = Path(__file__).parent
"""The folder of this stand-in: `bin`, `install`, and the notes."""
INSTALL = HOME / "install"
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
    """Run a command where the SDE is: with its environment, which callers do not have."""
    program, *rest = sys.argv[1:]
    if program != "python3" or rest[0] != "-c" or rest[2] not in STEPS or len(rest) != 4 + STEPS[rest[2]]:
        refuse(f"unknown command {sys.argv[1:2]} {rest[2:]}")
    note(step=rest[2], folder=rest[3], words=rest[4:], argv=[])
    environment = {
        "PATH": f"{HOME / 'bin'}:/usr/bin:/bin",
        "SDE": str(HOME),
        "SDE_INSTALL": str(INSTALL),
        "LANG": "C.UTF-8",
        "L4SBENCH_GRPC": str((HOME / "grpc").read_text()),
    }
    os.execve(sys.executable, [sys.executable, *rest], environment)


STEPS = {"put": 0, "build": 0, "load": 0, "control": 0, "begin": 0, "results": 3, "end": 0}
"""Step -> number of its words after the folder."""


def p4_build() -> None:
    """Build as the SDE's script does: files below `share` of its install folder."""
    of_the_sde()
    if sys.argv[1:-1] != ["--with-p4c=bf-p4c"]:
        refuse(f"unknown options {sys.argv[1:-1]}")
    source = Path(sys.argv[-1])
    note(files=digests(source.parent, ".p4", ".h"))
    if (HOME / "broken").exists():
        refuse("error: table classify: could not place")
    name = source.stem
    made = INSTALL / "share" / "tofinopd" / name
    (made / "pipe").mkdir(parents=True, exist_ok=True)
    for file in ("bf-rt.json", "pipe/context.json", "pipe/tofino.bin"):
        (made / file).write_text(hashlib.sha256(source.read_bytes()).hexdigest())
    place = f"share/tofinopd/{name}"
    pipeline = {
        "p4_pipeline_name": "pipe",
        "context": f"{place}/pipe/context.json",
        "config": f"{place}/pipe/tofino.bin",
        "pipe_scope": [0, 1, 2, 3],
        "path": place,
    }
    program = {"program-name": name, "bfrt-config": f"{place}/bf-rt.json", "p4_pipelines": [pipeline]}
    conf = {"chip_list": [CHIP], "p4_devices": [{"device-id": 0, "p4_programs": [program]}]}
    targets = INSTALL / "share" / "p4" / "targets" / "tofino"
    targets.mkdir(parents=True, exist_ok=True)
    (targets / f"{name}.conf").write_text(json.dumps(conf))


def bf_kdrv_mod_load() -> None:
    of_the_sde()
    if sys.argv[1:] != [str(INSTALL)]:
        refuse(f"unknown arguments {sys.argv[1:]}")
    note()


def bf_switchd() -> None:
    """Serve BF Runtime's port in the background, once all files of the configuration are there."""
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
        if not (INSTALL / file).is_file():
            refuse(f"{file} is missing")
    note(program=program["program-name"], conf=conf)
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", int((HOME / "grpc").read_text())))
    if os.fork():
        return
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    signal.alarm(600)  # should nobody end it
    time.sleep(0.3)  # as the real one it needs a while
    server.listen()
    while True:
        server.accept()[0].close()


if __name__ == "__main__":
    {"enter": enter, "p4_build.sh": p4_build, "bf_kdrv_mod_load": bf_kdrv_mod_load, "bf_switchd": bf_switchd}[
        Path(sys.argv[0]).name
    ]()
