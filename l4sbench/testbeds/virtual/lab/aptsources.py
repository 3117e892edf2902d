# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The machine's own package sources, read as sources.list(5) describes them.

The lab names no mirror: its packages come from an archive that this machine already trusts, by adding suites
to the addresses and keyrings of the machine's configuration.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_OPTION_FIELDS = {
    "signed-by": "Signed-By",
    "trusted": "Trusted",
    "allow-insecure": "Allow-Insecure",
    "allow-weak": "Allow-Weak",
}
"""Options of the one-line format that name the trusted keys -> their fields in the deb822 format."""

_RELEASE = re.compile(
    r"(oldoldstable|oldstable|stable|testing|unstable|sid|bullseye|bookworm|trixie|forky|duke)"
    r"(-updates|-proposed-updates|-backports)?$"
)
"""Suites by which Debian's main archive is recognized."""


@dataclass(frozen=True)
class AptSource:
    """One suite of one archive.

    Attributes:
        uri: Address of the archive, as apt understands it (`http:`, `mirror+file:`, `file:` ...).
        suite: Suite or codename.
        components: `main` and the like.
        trust: deb822 fields that name the trusted keys, such as Signed-By; a value may be an inline key.
    """

    uri: str
    suite: str
    components: tuple[str, ...]
    trust: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Archive:
    """A Debian archive that this machine uses; it may have further suites."""

    uri: str
    trust: tuple[tuple[str, str], ...]
    suites: tuple[str, ...]

    def stanza(self, suite: str) -> str:
        """Return a deb822 stanza for one suite of this archive."""
        fields = [
            ("Types", "deb"),
            ("URIs", self.uri),
            ("Suites", suite),
            ("Components", "main"),
            *self.trust,
        ]
        return "".join(f"{name}: {value}\n" for name, value in fields)


def read_sources(etc: Path = Path("/etc/apt")) -> tuple[AptSource, ...]:
    """Read every enabled binary source below an apt configuration folder; skip unreadable files."""
    listed = [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]
    found: list[AptSource] = []
    for path in listed:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if path.suffix == ".list":
            found += _one_line(text)
        elif path.suffix == ".sources":
            found += _deb822(text)
    return tuple(found)


def debian_archives(sources: Iterable[AptSource]) -> tuple[Archive, ...]:
    """Return the archives among these sources that look like Debian's main archive, the likeliest first.

    Third parties name their suites after Debian's too, so an archive may turn out not to have a suite.
    """
    suites: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}
    for source in sources:
        if "main" in source.components and _RELEASE.match(source.suite):
            named = suites.setdefault((source.uri, source.trust), [])
            if source.suite not in named:
                named.append(source.suite)
    archives = [Archive(uri, trust, tuple(named)) for (uri, trust), named in suites.items()]
    return tuple(sorted(archives, key=lambda archive: not _official(archive)))


def _official(archive: Archive) -> bool:
    keyring = dict(archive.trust).get("Signed-By", "")
    return "debian-archive" in keyring or archive.uri.rstrip("/").endswith("/debian")


def _one_line(text: str) -> Iterator[AptSource]:
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[([^\]]*)\]\s*)?(\S+)\s+(\S+)\s*([^#]*)", line)
        if match is None or match[2].startswith("cdrom:"):
            continue
        options = dict(re.findall(r"([a-z-]+)[+-]?=(\S+)", match[1] or ""))
        yield AptSource(match[2], match[3], tuple(match[4].split()), _trust(options))


def _deb822(text: str) -> Iterator[AptSource]:
    kept = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n[ \t]*\n", kept):
        fields = {
            name.lower(): value.strip(" \t")
            for name, value in re.findall(
                r"^([A-Za-z][A-Za-z0-9-]*):((?:.*)(?:\n[ \t].*)*)", stanza, re.MULTILINE
            )
        }
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() in _NO:
            continue
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield AptSource(uri, suite, tuple(fields.get("components", "").split()), _trust(fields))


_NO = ("no", "false", "0", "off", "without", "disable")
"""Words that apt reads as no."""


def _trust(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((field, options[name]) for name, field in _OPTION_FIELDS.items() if options.get(name))
