# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""FABRIC's answers as fixtures for tests: without secrets, names and addresses of whoever records them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from fablib_slices.redaction import without_secrets
from l4sbench.errors import TestbedError

if TYPE_CHECKING:
    from fablib_slices.actions import Ask
    from fablib_slices.answers import Slice

_UUID: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
_EMAIL: Final = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_MAC: Final = re.compile(r"\b[0-9a-f]{2}(?::[0-9a-f]{2}){5}\b", re.IGNORECASE)
_IPV4: Final = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")
_IPV6: Final = re.compile(r"(?<![\w:.])[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}(?![\w:])", re.IGNORECASE)
_KEY: Final = re.compile(r"((?:ssh-\w+|ecdsa-[\w-]+) )[A-Za-z0-9+/=]{20,}(?: [^\s\"'\\,]+)?")
_SHORTEST: Final = 3
_HOURS: Final = 2


class Scrubber:
    """Replaces what identifies a person, a project or a machine, the same by the same everywhere.

    Args:
        names: Names to replace, with what replaces them.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        kept = {name: instead for name, instead in names.items() if len(name) >= _SHORTEST}
        self._names = sorted(kept.items(), key=lambda one: -len(one[0]))
        self._seen: dict[str, dict[str, str]] = {}

    def text(self, text: str) -> str:
        """Return a text without them."""
        found = _KEY.sub(r"\1[removed]", without_secrets(text))
        found = _EMAIL.sub(lambda one: self._instead("user", one[0], "user-{}@example.org"), found)
        for name, instead in self._names:
            found = found.replace(name, instead)
        found = _UUID.sub(lambda one: self._instead("id", one[0], "00000000-0000-0000-0000-{:012}"), found)
        found = _MAC.sub(lambda one: self._instead("mac", one[0].lower(), "02:00:00:00:00:{:02x}"), found)
        found = _IPV6.sub(lambda one: self._address(one[0], "2001:db8::{:x}"), found)
        return _IPV4.sub(lambda one: self._address(one[0], "192.0.2.{}"), found)

    def plain(self, value: Any) -> Any:
        """Return plain data without them."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.plain(one) for key, one in value.items()}
        return [self.plain(one) for one in value] if isinstance(value, list | tuple) else value

    def _address(self, text: str, form: str) -> str:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:  # a time, or the release of something
            return text
        return text if address.is_unspecified or address.is_loopback else self._instead("ip", text, form)

    def _instead(self, kind: str, text: str, form: str) -> str:
        seen = self._seen.setdefault(kind, {})
        return seen.setdefault(text, form.format(len(seen) + 1))


def answers(ask: Ask, found: Slice, images: Callable[[], Any]) -> Iterator[tuple[str, Any]]:
    """Yield FABRIC's answers about a slice, by a name for each; a refusal is the text of the error.

    Asks for nothing that changes anything.
    """
    machine = next((one for one in found.machines if one.place is not None and one.place.host), None)
    start = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    calls: dict[str, Callable[[Any], Any]] = {
        "images": lambda _: dict(images()),
        "resources-summary": lambda manager: manager.resources_summary(level=2),
        "list-slices": lambda manager: manager.list_slices(slice_id=found.id, graph_format="NONE"),
        "get-slice": lambda manager: manager.get_slice(slice_id=found.id),
        "list-slivers": lambda manager: manager.list_slivers(slice_id=found.id),
        "find-resource-slot": lambda manager: manager.find_resource_slot(
            start=start,
            end=start + timedelta(days=2),
            duration=_HOURS,
            resources=[
                {"type": "compute", "site": one.site, "cores": 2, "ram": 8, "disk": 10}
                for one in found.machines[:1]
            ],
        ),
    }
    if machine is not None and machine.place is not None:
        sliver = machine.place.sliver
        for operation in ("cpuinfo", "numainfo"):
            calls[f"poa-{operation}"] = lambda manager, operation=operation: manager.poa(
                sliver_id=sliver, operation=operation
            )
    for name, call in calls.items():
        try:
            yield name, ask(name, call)
        except TestbedError as error:
            yield name, {"error": error.message}
