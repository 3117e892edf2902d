# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Boot loader of a host on user-mode Linux: `loader.py LIMIT_S HARDWARE...` in the folder of its `disk`.

Does what GRUB does: reads the host's own /boot/grub/grub.cfg, finds the entry that is to be booted once or by
default, and starts the kernel that this entry names, with the entry's command line behind BOOT_IMAGE=. The
words before that describe the hardware. A kernel that is told to reboot starts this again, with all words.
Standard library only: it runs without l4sbench's environment. Reading a file of the disk may take LIMIT_S.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

DISK = "disk"
AGAIN = "./restart"
_MENU = "/boot/grub/grub.cfg"
_ENVIRONMENT = "/boot/grub/grubenv"
_ENVIRONMENT_BYTES = 1024
_ONCE = re.compile(r"^next_entry=(.+)$", re.MULTILINE)
_ID = re.compile(r"\$menuentry_id_option '([^']*)'")


@dataclass(frozen=True)
class Entry:
    """An entry of the menu.

    Attributes:
        path: Identities of the submenus it lies in and its own.
        kernel: File on the disk.
        words: Command line behind it.
    """

    path: tuple[str, ...]
    kernel: str
    words: tuple[str, ...]


def entries(menu: str) -> list[Entry]:
    """Return the entries of a menu, in order."""
    found: list[Entry] = []
    within: list[str] = []
    for line in menu.splitlines():
        words = line.split()
        if words[:1] in (["menuentry"], ["submenu"]):
            identity = _ID.search(line)
            within.append(identity[1] if identity else "")
        elif words == ["}"] and within:
            within.pop()
        elif words[:1] == ["linux"] and within:
            found.append(Entry(tuple(within), words[1], tuple(words[2:])))
    return found


def chosen(menu: str, once: str = "") -> Entry:
    """Return the entry to boot: `once`, the default by its identities, or like GRUB the first one."""
    (*_, default) = ["0", *re.findall(r'^\s*set default="([^"$]*)"', menu, re.MULTILINE)]
    there = entries(menu)
    wanted = tuple((once or default).split(">"))
    return next((entry for entry in there if entry.path == wanted), there[0])


def _take_once(limit_s: float) -> str:
    """Return the entry to boot once, and forget it before it boots."""
    text = _debugfs(f"cat {_ENVIRONMENT}", limit_s).decode()
    found = _ONCE.search(text)
    if found is None:
        return ""
    kept = _ONCE.sub("next_entry=", text).rstrip("#")
    written = Path("grubenv")
    written.write_text(kept.ljust(_ENVIRONMENT_BYTES, "#"))
    for request in (f"rm {_ENVIRONMENT}", f"write {written} {_ENVIRONMENT}"):
        _debugfs(request, limit_s, "-w")
    return found[1]


def _debugfs(request: str, limit_s: float, *options: str) -> bytes:
    argv = ["/sbin/debugfs", *options, "-R", request, DISK]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=True)
    return done.stdout


def main() -> None:
    """Become the kernel that the disk wants to be booted."""
    os.closerange(3, 65536)  # a kernel that reboots leaves its taps and disk open
    limit_s, given = float(sys.argv[1]), sys.argv[2:]
    entry = chosen(_debugfs(f"cat {_MENU}", limit_s).decode(), _take_once(limit_s))
    kernel = Path("vmlinuz")
    kernel.unlink(missing_ok=True)
    _debugfs(f"dump {entry.kernel} {kernel}", limit_s)
    kernel.chmod(0o700)
    hardware = given[: next((at for at, word in enumerate(given) if word.startswith("BOOT_IMAGE=")), None)]
    sys.stderr.write(f"booting {entry.kernel} by {'>'.join(entry.path)}\n")
    sys.stderr.flush()
    os.execv(kernel, [AGAIN, *hardware, f"BOOT_IMAGE={entry.kernel}", *entry.words])


if __name__ == "__main__":
    main()
