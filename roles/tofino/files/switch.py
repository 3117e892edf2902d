# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Build, load and end a P4 program on a switch, where the SDE is (Python 3.8, standard library only).

    switch.py put FOLDER      write the files on stdin (JSON: name -> base64) that differ
    switch.py build FOLDER    compile the program, unless these very files were compiled
    switch.py load FOLDER     load the kernel driver, and start bf_switchd with the program
    switch.py control FOLDER  start the control part, which sets up ports, queues and thresholds, and keeps on
    switch.py begin FOLDER    forget all flows, and wait until the ports are up: before a trial
    switch.py results FOLDER NODE START END  pack what was sampled between two instants (ns since 1970)
    switch.py end FOLDER      end bf_switchd and the control part

The last line on stdout is JSON: what was changed (`changed`), what runs (`facts`), results (`archive`, in
base64). A failure goes to stderr, with exit code 1. `settings.json` in the folder, one of the files, says
which commands to use.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Mapping, Sequence

DRIVER = "bf_kdrv"
SWITCHD = "bf_switchd"
HUGE_PAGES = 196  # as the SDE's run_switchd.sh sets them
HUGE_PAGES_KEY = "vm.nr_hugepages"
MOST_BYTES = 32 << 20  # of packed results
POLL_S = 0.2
QUICK_S = 30.0


class Failed(Exception):  # noqa: N818  (it names an event)
    """A failure, with a reason for the person who loads the program."""


@dataclass(frozen=True)
class Settings:
    """Settings of a switch, from `settings.json`.

    Attributes:
        program: Name of the program; its source is `<program>.p4`.
        build: Command that compiles and installs it; the source's path is appended.
        root: Command before those that need root.
        environment: Variables for the SDE's programs, beyond those that are set.
        grpc: Address of BF Runtime's server.
        build_s, load_s, control_s, end_s: Limits.
        trial_s: Limit of a step before or after a trial.
    """

    program: str
    build: List[str]
    root: List[str]
    environment: Dict[str, str]
    grpc: str
    build_s: float
    load_s: float
    control_s: float
    trial_s: float
    end_s: float


class Place:
    """The folder on the switch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            plain = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
            self.settings = Settings(**plain)
        except (OSError, ValueError, TypeError) as error:
            raise Failed(f"{folder / 'settings.json'}: {error}") from error
        self.environment = {**os.environ, **self.settings.environment}
        if not self.environment.get("SDE_INSTALL"):
            raise Failed("SDE_INSTALL is not set here: set it by tofino_environment")
        self.install = Path(self.environment["SDE_INSTALL"])
        # an SDE that may not be written to has another folder for programs
        self.programs = Path(self.environment.get("P4_INSTALL") or self.install)
        self.source = folder / f"{self.settings.program}.p4"
        self.conf = folder / f"{self.settings.program}.conf"
        self.log = folder / "control.log"
        self.switchd_log = folder / "switchd.log"

    @property
    def loaded(self) -> List[int]:
        """The bf_switchd processes with our configuration."""
        return [pid for pid, argv in processes() if is_switchd(argv) and str(self.conf) in argv]

    @property
    def controlling(self) -> List[int]:
        """The processes of our control part."""
        own = [str(self.folder / "control.py"), "run"]
        return [pid for pid, argv in processes() if argv[1:3] == own]

    def noted(self, what: str) -> str:
        """Return the digest of what was done last; empty if nothing was."""
        try:
            return (self.folder / f"{what}.digest").read_text(encoding="ascii")
        except OSError:
            return ""

    def note(self, what: str, digest: str) -> None:
        """Store the digest of what was done."""
        write_whole(self.folder / f"{what}.digest", digest.encode("ascii"))

    def run(self, argv: Sequence[str], limit_s: float) -> str:
        """Run a command to its end and return its output. Raises Failed."""
        try:
            ended = subprocess.run(
                list(argv),
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=limit_s,
                check=False,
            )
        except OSError as error:
            raise Failed(f"cannot run {argv[0]}: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{' '.join(argv)}: no end within {limit_s:g} s") from error
        said = ended.stdout.decode("utf-8", "replace").strip()
        if ended.returncode:
            raise Failed(f"{' '.join(argv)}: ended with code {ended.returncode}: {said[-1000:]}")
        return said


def processes() -> Iterator[tuple[int, List[str]]]:
    """Yield every process with its arguments."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            argv = path.read_bytes().decode("utf-8", "replace").split("\0")[:-1]
        except OSError:
            continue
        if argv:
            yield int(path.parent.name), argv


def is_switchd(argv: Sequence[str]) -> bool:
    """Return True for a bf_switchd itself, not for a sudo or a script that waits for it."""
    return any(Path(word).name == SWITCHD for word in argv[:2])


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that appears whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    partial.replace(path)


def digest_of(*paths: Path, more: str = "") -> str:
    """Return a digest of files and a text. Raises Failed."""
    total = hashlib.sha256(more.encode("utf-8"))
    for path in paths:
        try:
            total.update(f"\0{path.name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}".encode("utf-8"))
        except OSError as error:
            raise Failed(f"{path}: {error.strerror}") from error
    return total.hexdigest()


# ---- steps
def put(folder: Path) -> List[str]:
    """Write the files on stdin that differ, and return their names."""
    files: Mapping[str, str] = json.load(sys.stdin)
    folder.mkdir(parents=True, exist_ok=True)
    changed = []
    for name, encoded in sorted(files.items()):
        if Path(name).name != name or name.startswith("."):
            raise Failed(f"{name!r} is not a valid name of a file")
        path, content = folder / name, base64.b64decode(encoded)
        if not path.is_file() or path.read_bytes() != content:
            write_whole(path, content)
            changed.append(name)
    return changed


def build(place: Place) -> List[str]:
    """Compile and install the program, and write the configuration of bf_switchd."""
    settings = place.settings
    sources = sorted([*place.folder.glob("*.p4"), *place.folder.glob("*.h")])
    digest = digest_of(*sources, more=json.dumps([settings.build, str(place.install), str(place.programs)]))
    changed = []
    said = ""
    if place.noted("built") != digest or not all(path.is_file() for path in built(place)[1]):
        # the command may end with 0 and have built nothing: files of an earlier build must not pass for its
        for path in built(place)[1] + [_conf_of(place)]:
            if path.is_file():
                path.unlink()
        said = place.run([*settings.build, str(place.source)], settings.build_s)
        changed.append(settings.program)
    conf, files = built(place)
    for path in files:
        if not path.is_file() or not path.stat().st_size:
            raise Failed(f"{settings.build[0]} made no {path}: {said[-1000:]}")
    place.note("built", digest)
    text = (json.dumps(conf, indent=1) + "\n").encode("utf-8")
    if not place.conf.is_file() or place.conf.read_bytes() != text:
        # a file of our own: another build of a program of this name changes nothing about what runs
        write_whole(place.conf, text)
        changed.append(place.conf.name)
    return changed


def built(place: Place) -> tuple[Mapping[str, object], List[Path]]:
    """Return the configuration that the build made, and the files that it names; nothing before a build."""
    name, made = place.settings.program, _conf_of(place)
    try:
        conf = json.loads(made.read_text(encoding="utf-8"))
        programs = [one for device in conf["p4_devices"] for one in device["p4_programs"]]
        if [one["program-name"] for one in programs] != [name]:
            raise Failed(f"{made} is not a configuration of {name} alone")
        named = [one["bfrt-config"] for one in programs]
        for pipeline in (pipe for one in programs for pipe in one["p4_pipelines"]):
            named += [pipeline["context"], pipeline["config"]]
    except OSError:
        return {}, [made]
    except (ValueError, LookupError, TypeError) as error:
        raise Failed(f"{made}: {error!r}") from error
    return conf, [place.programs / path for path in named]


def _conf_of(place: Place) -> Path:
    """Return the file that a build leaves for bf_switchd."""
    return place.programs / "share" / "p4" / "targets" / "tofino" / f"{place.settings.program}.conf"


def load(place: Place) -> List[str]:
    """Start bf_switchd with the program, unless it runs with these very files."""
    settings = place.settings
    _, files = built(place)
    digest = digest_of(place.conf, *files)
    if place.loaded and place.noted("loaded") == digest:
        return []
    changed = end(place)
    if listens(settings.grpc):
        raise Failed(f"another {SWITCHD} serves {settings.grpc}: end it first")
    as_root = [*settings.root, "env", *(f"{name}={value}" for name, value in _of_sde(place).items())]
    if not Path("/sys/module", DRIVER).exists():
        place.run([*as_root, str(place.install / "bin" / "bf_kdrv_mod_load"), str(place.install)], QUICK_S)
        changed.append(DRIVER)
    if _huge_pages(place) < HUGE_PAGES:
        place.run([*settings.root, "sysctl", "-w", f"{HUGE_PAGES_KEY}={HUGE_PAGES}"], QUICK_S)
        if _huge_pages(place) < HUGE_PAGES:
            raise Failed(
                f"{HUGE_PAGES_KEY} stays below {HUGE_PAGES}: restart the switch, its memory is used up"
            )
    # --background turns its command line off, and leaves it in the foreground
    words = ["--install-dir", str(place.install), "--conf-file", str(place.conf), "--background"]
    process = _detached(place, [*as_root, str(place.install / "bin" / SWITCHD), *words], place.switchd_log)

    def serves() -> bool:
        if process.poll() is not None:
            raise Failed(f"{SWITCHD} ended with code {process.returncode}: {_said(place.switchd_log)}")
        return listens(settings.grpc)

    await_(serves, settings.load_s, f"{SWITCHD} does not listen at {settings.grpc}")
    if not place.loaded:
        raise Failed(f"{settings.grpc} answers, but {SWITCHD} has ended: something else listens there")
    place.note("loaded", digest)
    return [*changed, SWITCHD]


def _detached(place: Place, words: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a program that goes on when this one ends; what it prints goes into a file."""
    with log.open("wb") as out:
        return subprocess.Popen(
            words,
            cwd=place.folder,
            env=place.environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _huge_pages(place: Place) -> int:
    """Return the number of huge pages, which bf_switchd needs for the chip's memory."""
    said = place.run([*place.settings.root, "sysctl", "-n", HUGE_PAGES_KEY], QUICK_S)
    try:
        return int(said.split()[-1])
    except (IndexError, ValueError) as error:
        raise Failed(f"sysctl prints no number of huge pages: {said[-200:]}") from error


def _of_sde(place: Place) -> Dict[str, str]:
    """Return the environment of the SDE's programs, which sudo would drop."""
    found: Dict[str, str] = {"LD_LIBRARY_PATH": str(place.install / "lib")}
    for name in ("SDE", "SDE_INSTALL", *place.settings.environment):
        if name in place.environment:
            found[name] = place.environment[name]
    return found


def control(place: Place) -> List[str]:
    """Start the control part, unless it runs with these very files."""
    if not place.loaded:
        raise Failed(f"{SWITCHD} does not run: load the program first")
    if is_controlled(place):
        return []
    changed = _end(place, place.controlling, signal.SIGINT, [], "control.py")
    process = _detached(place, _control_words(place, "run"), place.log)

    def is_ready() -> bool:
        if process.poll() is not None:
            raise Failed(f"control.py ended with code {process.returncode}: {_said(place.log)}")
        return "ports are set up" in _said(place.log)

    try:
        await_(is_ready, place.settings.control_s, "control.py did not set up the ports")
    except Failed:
        process.kill()
        raise
    place.note("controlled", _control_digest(place))
    return [*changed, "control.py"]


def is_controlled(place: Place) -> bool:
    """Return True if the control part runs with these very files."""
    return bool(place.controlling) and place.noted("controlled") == _control_digest(place)


def _control_digest(place: Place) -> str:
    return digest_of(place.folder / "control.py", place.folder / "ports.json", more=place.noted("loaded"))


# ---- trials
def begin(place: Place) -> List[str]:
    """Forget all flows, and wait until the ports are up."""
    _require_control(place)
    place.run(_control_words(place, "begin"), place.settings.trial_s)
    return []


def results(place: Place, node: str, start_ns: str, end_ns: str) -> str:
    """Return the samples between two instants and the settings, packed as those of other hosts."""
    _require_control(place)
    with tempfile.TemporaryDirectory(dir=place.folder, prefix="results-") as made:
        words = ["--folder", made, "--start", start_ns, "--end", end_ns]
        place.run([*_control_words(place, "results"), *words], place.settings.trial_s)
        files = {f"raw/{node}/{path.name}": path.read_bytes() for path in sorted(Path(made).iterdir())}
    files["result.json"] = json.dumps({"nodes": {}}).encode("ascii")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    if packed.tell() > MOST_BYTES:
        raise Failed(f"the results of a trial are larger than {MOST_BYTES >> 20} MB: sample less often")
    return base64.b64encode(packed.getvalue()).decode("ascii")


def _require_control(place: Place) -> None:
    if not place.loaded:
        raise Failed(f"{SWITCHD} has ended")
    if not is_controlled(place):
        raise Failed(
            f"control.py has ended: {_said(place.log)}" if place.log.exists() else "control.py does not run"
        )


def _control_words(place: Place, command: str) -> List[str]:
    program, ports = place.folder / "control.py", place.folder / "ports.json"
    return [sys.executable, str(program), command, str(ports), "--grpc", place.settings.grpc]


def facts(place: Place) -> Dict[str, object]:
    """Return what runs here: the SDE by its folder's name and its bf_switchd, the program by its source."""
    sde = Path(place.environment.get("SDE") or place.install).resolve().name
    served = digest_of(place.install / "bin" / SWITCHD)[:12]
    return {
        "sde": f"{sde} {served}",
        "program": f"{place.settings.program} {place.noted('built')[:12]}",
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "time_s": time.time(),
    }


def _said(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace").strip()[-1000:]


def end(place: Place) -> List[str]:
    """End the control part and bf_switchd."""
    changed = _end(place, place.controlling, signal.SIGINT, [], "control.py ended")
    return changed + _end(place, place.loaded, signal.SIGTERM, place.settings.root, f"{SWITCHD} ended")


def _end(place: Place, pids: Sequence[int], number: int, root: Sequence[str], what: str) -> List[str]:
    """End processes, by force if they take too long."""
    for one in (number, signal.SIGKILL):
        for pid in pids:
            try:
                place.run([*root, "kill", f"-{int(one)}", str(pid)], QUICK_S)
            except Failed:
                if Path("/proc", str(pid)).exists() and not _is_over(pid):
                    raise
        deadline = time.monotonic() + place.settings.end_s
        while not all(_is_over(pid) for pid in pids) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        if all(_is_over(pid) for pid in pids):
            return [what] if pids else []
    raise Failed(f"process {pids[0]} does not end")


def _is_over(pid: int) -> bool:
    """Return True if a process has ended, even if nobody has waited for it."""
    try:
        return not Path("/proc", str(pid), "cmdline").read_bytes()
    except OSError:
        return True


def listens(address: str) -> bool:
    """Return True if something accepts connections at an address."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=2):
            return True
    except OSError:
        return False


def await_(is_so: Callable[[], bool], limit_s: float, otherwise: str) -> None:
    """Wait until a function returns True. Raises Failed after the limit."""
    deadline = time.monotonic() + limit_s
    while not is_so():
        if time.monotonic() > deadline:
            raise Failed(f"{otherwise} within {limit_s:g} s")
        time.sleep(POLL_S)


STEPS = {"build": build, "load": load, "control": control, "begin": begin, "end": end}
WITH_FACTS = ("control", "begin")


def main(argv: Sequence[str]) -> int:
    """Do one step in a folder; print what was changed."""
    step, folder = argv[0], Path(argv[1])
    try:
        if step == "end" and not (folder / "settings.json").exists():
            answer: Dict[str, object] = {"changed": []}
        elif step == "put":
            answer = {"changed": put(folder)}
        elif step == "results":
            answer = {"changed": [], "archive": results(Place(folder), *argv[2:])}
        else:
            place = Place(folder)
            answer = {"changed": STEPS[step](place)}
            answer.update({"facts": facts(place)} if step in WITH_FACTS else {})
    except Failed as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
