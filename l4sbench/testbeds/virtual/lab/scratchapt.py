# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A private apt: one suite of an archive that the machine trusts, with all state below the cache folder.

It needs no root and changes nothing on the machine. apt itself checks signatures and checksums, and uses the
machine's proxies and credentials.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import unquote

from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab.aptsources import Archive
from l4sbench.testbeds.virtual.lab.cache import digest_of
from l4sbench.testbeds.virtual.lab.command import Commands

_UPDATE_S = 240
_RESOLVE_S = 60
_DOWNLOAD_S = 900

_REACH = re.compile(r"Acquire::(?:https?|ForceIPv[46]|Queue-Mode)\b")
"""The settings of the machine's apt for reaching archives."""


@dataclass(frozen=True)
class Package:
    """One package that an archive offers."""

    name: str
    version: str
    digest: str


@dataclass(frozen=True)
class ScratchApt:
    """apt on one suite. Make one with `open`, which fetches the package lists."""

    folder: Path
    commands: Commands

    @classmethod
    def open(cls, home: Path, archive: Archive, suite: str, log: Path) -> Self:
        """Configure apt for one suite and fetch its package lists.

        Args:
            home: Folder for the state of all scratch apts. If it is kept, a second fetch is quick.
            archive: The archive.
            suite: The suite.
            log: Log file.

        Raises:
            TestbedError: The archive has no such suite, cannot be reached, or its signature is wrong.
        """
        folder = home / f"{suite}-{digest_of([archive.uri, suite, *map(str, archive.trust)])}"
        for name in ("lists/partial", "cache/archives/partial", "dpkg"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "dpkg" / "status").write_bytes(b"")
        (folder / "archive.sources").write_text(archive.stanza(suite), encoding="utf-8")
        machine = Commands.logging_to(log).output(
            ["apt-config", "dump"], what="reading apt's configuration", timeout_s=_RESOLVE_S
        )
        config = folder / "apt.conf"
        config.write_text(_configuration(folder, machine), encoding="utf-8")
        apt = cls(folder, Commands.logging_to(log, {"APT_CONFIG": str(config)}))
        apt.commands.run(
            ["apt-get", "update", "--error-on=any"],
            what=f"fetching the package lists of {suite}",
            timeout_s=_UPDATE_S,
        )
        return apt

    def offered(self, pattern: str) -> tuple[Package, ...]:
        """Return the packages whose names match a regular expression."""
        found = self.commands.output(
            ["apt-cache", "search", "--names-only", pattern],
            what="searching packages",
            timeout_s=_RESOLVE_S,
        )
        names = [line.split(" ", 1)[0] for line in found.splitlines()]
        if not names:
            return ()
        shown = self.commands.output(
            ["apt-cache", "show", "--no-all-versions", *names],
            what="looking up versions",
            timeout_s=_RESOLVE_S,
        )
        packages = []
        for stanza in shown.split("\n\n"):
            fields = dict(re.findall(r"^(Package|Version|SHA256): (\S+)$", stanza, re.MULTILINE))
            if len(fields) == 3:
                packages.append(Package(fields["Package"], fields["Version"], fields["SHA256"]))
        return tuple(packages)

    def resolve(self, names: tuple[str, ...]) -> tuple[Package, ...]:
        """Return these packages and all that they depend on, as if none were installed; sorted by name.

        Raises:
            TestbedError: The suite lacks one of them.
        """
        text = self.commands.output(
            ["apt-get", "install", "--print-uris", "-qq", *names],
            what="resolving the guest's packages",
            timeout_s=_RESOLVE_S,
        )
        lines = re.findall(r"^'[^']*' ([^_\s]+)_([^_\s]+)_\S+\.deb \d+ (\S*)$", text, re.MULTILINE)
        packages = (Package(name, unquote(version), digest) for name, version, digest in lines)
        return tuple(sorted(packages, key=lambda package: package.name))

    def download(self, packages: Sequence[Package], to: Path) -> tuple[Path, ...]:
        """Download packages into a folder; the files, sorted by name.

        Raises:
            TestbedError: The download failed.
        """
        self.commands.run(
            ["apt-get", "download", "-q", *(f"{package.name}={package.version}" for package in packages)],
            what=f"downloading {packages[0].name if len(packages) == 1 else f'{len(packages)} packages'}",
            timeout_s=_DOWNLOAD_S,
            cwd=to,
        )
        return tuple(sorted(to.glob("*.deb")))


def why(error: TestbedError) -> str:
    """Return the line of a failed command's output with the reason, else the message's first line."""
    lines = error.message.splitlines()
    reasons = [line.strip() for line in lines if re.match(r"\s*(E:|\d{3} )", line)]
    return (reasons or lines)[-1 if reasons else 0]


def _configuration(folder: Path, machine: str) -> str:
    """Return our settings, and the machine's for reaching archives: proxies, credentials, trusted keys.

    The machine's hooks must not run: they clean caches and refresh services that belong to the machine.
    """
    kept = [line for line in machine.splitlines() if _REACH.match(line)]
    ours = {
        "Dir::Etc::main": "/dev/null",
        "Dir::Etc::parts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::Etc::sourcelist": str(folder / "archive.sources"),
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::trusted": "/etc/apt/trusted.gpg",
        "Dir::Etc::trustedparts": "/etc/apt/trusted.gpg.d",
        "Dir::Etc::netrc": "/etc/apt/auth.conf",
        "Dir::Etc::netrcparts": "/etc/apt/auth.conf.d",
        "Dir::State": str(folder),
        "Dir::State::lists": str(folder / "lists"),
        "Dir::State::status": str(folder / "dpkg" / "status"),
        "Dir::Cache": str(folder / "cache"),
        "Dir::Cache::archives": str(folder / "cache" / "archives"),
        "Dir::Log": str(folder),
        "APT::Sandbox::User": "root",  # _apt may not read a home folder
        "APT::Install-Recommends": "false",
        "APT::Get::AllowUnauthenticated": "false",
        "Acquire::ForceHash": "SHA256",
        "Acquire::Languages": "none",
        "Acquire::Check-Valid-Until": "false",  # testing's lists expire after a week; mirrors may lag
        "Acquire::Retries": "2",
        "Acquire::http::Timeout": "20",
        "Acquire::https::Timeout": "20",
    }
    return "\n".join([*kept, *(f'{key} "{value}";' for key, value in ours.items()), ""])
