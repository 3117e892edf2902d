# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Inventories as data: Ansible parses them, and nothing that they contain or name is executed."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from l4sbench.errors import InputError
from l4sbench.testbeds.ssh.environment import environment, require
from l4sbench.text.wording import quoted_within

MOST_BYTES: Final = 16 << 20
"""Largest accepted file of an inventory."""
MOST_FILES: Final = 1000
"""Largest accepted number of files in an inventory that is a folder."""
LIMIT_S: Final = 60.0
CPU_LIMIT_S: Final = 6
"""Limits for Ansible to parse an inventory, as aliases and ranges make short files long. It needs half a
second for six hosts."""
_MEMORY_LIMIT_KB: Final = 800_000

_CONFINED: Final = f'ulimit -t {CPU_LIMIT_S}; ulimit -v {_MEMORY_LIMIT_KB}; exec "$@"'
_MOST_CHARS: Final = 1000
_OF_A_PLUGIN: Final = "Plugin configuration YAML file"


def read_inventory(path: Path) -> dict[str, dict[str, object]]:
    """Return the variables of all hosts of an inventory: a file in YAML, INI or TOML, or a folder of them.

    Templates in variables are returned as they are.

    Raises:
        InputError: there is no such file, it is a program or the configuration of a plugin, which would have
            to be executed, or Ansible cannot parse it.
        TestbedError: Ansible is not installed.
    """
    require()
    try:
        _refuse_all_but_data(path)
    except OSError as error:
        raise InputError(f"cannot read inventory {path}: {error.strerror}") from error
    command = [sys.executable, "-m", "ansible", "inventory", "-i", str(path.resolve()), "--list"]
    try:
        # a folder of its own, since Ansible reads settings and group_vars in the current one
        with tempfile.TemporaryDirectory(prefix="l4sbench-") as folder:
            ended = subprocess.run(
                ["sh", "-c", _CONFINED, "sh", *command],
                stdin=subprocess.DEVNULL,  # Ansible refuses a non-blocking stdin, such as a notebook's
                capture_output=True,
                text=True,
                errors="replace",
                timeout=LIMIT_S,
                check=False,
                cwd=folder,
                env={**os.environ, **environment(), "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "True"},
            )
        plain = json.loads(ended.stdout) if not ended.returncode else None
    except (OSError, subprocess.SubprocessError, ValueError, RecursionError) as error:
        raise InputError(f"cannot read inventory {path}: {error}") from error
    if not isinstance(plain, dict):
        raise _unreadable(path, ended)
    variables: dict[str, dict[str, object]] = plain.get("_meta", {}).get("hostvars", {})
    return variables


def require_inventory(path: Path) -> None:
    """Raise InputError if there is no inventory at `path`; needs no Ansible."""
    if not path.exists():
        hint = "l4sbench lab up prints the inventory of a local lab; `l4sbench docs ssh` describes the format"
        raise InputError(f"inventory {path} does not exist", hint)


def _refuse_all_but_data(path: Path) -> None:
    """Raise InputError for anything but a file or folder of data, OSError if it cannot be read."""
    require_inventory(path)
    files = list(islice(_files(path), MOST_FILES + 1))
    if len(files) > MOST_FILES:
        raise InputError(
            f"inventory {path} has more than {MOST_FILES} files",
            "pass a folder that holds only the inventory",
        )
    for file in files:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            hint = "pass a file in YAML or INI, or a folder of such files; Ansible reads it several times"
            raise InputError(f"inventory {file} is not a regular file", hint)
        if status.st_size > MOST_BYTES:
            raise InputError(f"inventory {file} is larger than {MOST_BYTES >> 20} MB")
        with file.open("rb") as opened:
            if opened.read(2) == b"#!":
                raise InputError(
                    f"inventory {file} is a program, and inventories are not executed", _once(file)
                )


def _files(path: Path) -> Iterator[Path]:
    """Yield every file that Ansible may read: of a file, also those of its variables beside it."""
    if not path.is_dir():
        yield path
    folders = [path] if path.is_dir() else [path.parent / name for name in ("group_vars", "host_vars")]
    for folder in folders:
        yield from (found for found in folder.rglob("*") if not found.is_dir())


def _once(path: Path) -> str:
    command = shlex.join(["ansible-inventory", "-i", str(path), "--list", "--yaml", "--output", "hosts.yml"])
    return f"write its hosts to a file once: {command}"


def _unreadable(path: Path, ended: subprocess.CompletedProcess[str]) -> InputError:
    if ended.returncode < 0 or "MemoryError" in ended.stderr:
        limits = f"{CPU_LIMIT_S} s of CPU time or {_MEMORY_LIMIT_KB // 1000} MB of memory"
        return InputError(
            f"inventory {path} takes more than {limits} to parse", "write fewer aliases and hosts"
        )
    if _OF_A_PLUGIN in ended.stderr:
        message = f"inventory {path} configures an inventory plugin, and plugins are not run"
        return InputError(message, _once(path))
    content = "\n".join(file.read_text(errors="replace") for file in _files(path))
    cause = quoted_within(_cause(path, ended.stderr)[:_MOST_CHARS], content)
    return InputError(f"{path}: Ansible cannot read it: {cause}")


def _cause(path: Path, stderr: str) -> str:
    """Return why Ansible cannot read an inventory. It prints an error per reader, YAML's first."""
    errors = [part.partition("\n\n")[0].strip() for part in stderr.split("<<< caused by >>>\n\n")[1:]]
    causes = [re.sub(r"\s*\nOrigin: ", " at ", text) for text in errors]
    if not causes:  # Ansible's own error, at the end of its traceback
        lines = [line for line in stderr.splitlines() if line.strip()] or ["it printed no reason"]
        return re.sub(r"^[\w.]*Error: (Unexpected Exception, this is probably a bug: )?", "", lines[-1])
    return causes[0 if path.suffix in {".yml", ".yaml", ".json"} else -1]
