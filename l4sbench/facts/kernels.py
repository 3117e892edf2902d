# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Kernels of hosts, as an inventory or a slice's file names them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from l4sbench.errors import BadValueError
from l4sbench.text.wording import quoted

KEEP: Final = "keep"
DISTRIBUTION: Final = "distribution"
OWN: Final = "own"
CHOICES: Final = f"{KEEP}, {DISTRIBUTION}, {OWN}, images/NAME (a file of kernels/images)"

_NAMED: Final = re.compile(r"images/([a-z0-9][a-z0-9-]*)")


@dataclass(frozen=True)
class KernelWish:
    """A wish for the kernel of a host.

    Attributes:
        text: `keep`: the one that it has; `distribution`: the one that its cells need, of those in
            kernels/images that can be installed on its distribution; `own`: the one that
            `l4sbench kernel build` made; else `images/NAME`.
        entry: Name of the entry of kernels/images; None for the first two.
    """

    text: str
    entry: str | None = None

    @classmethod
    def parse(cls, text: str) -> KernelWish:
        """Parse a wish. Raises BadValueError."""
        if text in {KEEP, DISTRIBUTION}:
            return cls(text)
        if text == OWN:
            return cls(text, OWN)
        if named := _NAMED.fullmatch(text):
            return cls(text, named.group(1))
        raise BadValueError(f'"{quoted(text)}" is not a valid kernel', f"choose from {CHOICES}")
