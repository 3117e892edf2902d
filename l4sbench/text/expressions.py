# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Regular expressions that come from files.

They are matched by the engine inside pydantic (Rust's regex), whose time is linear in the length of the text:
it does not backtrack. In return there are no look-arounds and no back-references. Expressions that take long
to compile are rejected, too, as an entry may have a hundred of them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Final

from l4sbench.errors import BadValueError
from l4sbench.text.wording import quoted, quoted_within

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

_MOST_CHARS: Final = 300
_MOST_REPEATS: Final = 255
_SLOW: Final = re.compile(r"\\[wWpPbB]|\(\?[a-zA-Z]*i")
_REPEAT: Final = re.compile(r"\{(\d+)(?:,(\d*))?\}")


def valid_expression(text: str) -> str:
    """Return a regular expression unchanged if it is valid, for Python's engine too; for use by pydantic.

    Raises:
        BadValueError: it is not valid, too long, or cannot be matched in linear time.
    """
    from pydantic_core import SchemaError

    if len(text) > _MOST_CHARS:
        raise BadValueError(f"a regular expression has at most {_MOST_CHARS} characters, not {len(text)}")
    try:
        re.compile(text)  # its messages are better, and roles match some expressions with it
    except (re.error, RecursionError, OverflowError) as error:
        raise BadValueError(
            f"{quoted(text)!r} is not a valid regular expression: {quoted_within(str(error), text)}"
        ) from None
    if slow := _SLOW.search(text):
        hint = "list the characters, such as [A-Za-z0-9_]"
        raise BadValueError(
            f"{quoted(text)!r} is not a supported regular expression: {slow[0]} is slow", hint
        )
    if prod(max(1, int(least), int(most or 0)) for least, most in _REPEAT.findall(text)) > _MOST_REPEATS:
        reason = f"its repetitions {{...}} multiply to more than {_MOST_REPEATS}"
        raise BadValueError(f"{quoted(text)!r} is not a supported regular expression: {reason}")
    try:
        _matcher(text)
    except SchemaError as error:
        reason = str(error).strip().splitlines()[-1].rpartition("rror: ")[2].rstrip(".")
        reason = quoted_within(reason, text)
        raise BadValueError(f"{quoted(text)!r} is not a supported regular expression: {reason}") from None
    return text


def matches(text: str, expression: str) -> bool:
    """Return True if a valid regular expression matches the whole text."""
    from pydantic_core import ValidationError

    try:
        _matcher(expression).validate_python(text)
    except ValidationError:
        return False
    return True


@lru_cache(maxsize=256)
def _matcher(text: str) -> SchemaValidator:
    from pydantic_core import SchemaValidator, core_schema

    SchemaValidator(core_schema.str_schema(pattern=text))  # alone, so that its groups cannot end ours
    return SchemaValidator(core_schema.str_schema(pattern=rf"\A(?:{text})\z"))
