# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Licences of data by their SPDX ids, such as CC-BY-4.0."""

from __future__ import annotations

from l4sbench.errors import BadValueError
from l4sbench.text.wording import quoted


def licence_id(text: str) -> str:
    """Return an SPDX id as SPDX spells it.

    Raises:
        BadValueError: there is no such licence.
    """
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

    try:
        found = canonicalize_license_expression(text)
    except InvalidLicenseExpression:
        found = None
    if (
        found is None
        or found.startswith("LicenseRef-")
        or not found.replace("-", "").replace(".", "").isalnum()
    ):
        raise BadValueError(f"{quoted(text)} is not the SPDX id of a licence", "such as CC-BY-4.0 or CC0-1.0")
    return str(found)


def licence_page(licence: str) -> str:
    """Return the address of a licence's text, by its SPDX id."""
    return f"https://spdx.org/licenses/{licence}.html"
