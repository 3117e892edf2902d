# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The grammar of matrix files as pydantic models, and the JSON Schema for editors.

The models know every key of the grammar. Factors pass as scalars: the matrix defines the flow groups and the
catalog the parameters, so names and values are checked in `l4sbench.matrix.naming` and
`l4sbench.matrix.shapes`. The JSON Schema also includes the table of factors.

This module imports pydantic, so it is imported only when a file is read.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StrictInt,
    StrictStr,
    Tag,
    WithJsonSchema,
    WrapValidator,
)

from l4sbench.disk.document import unless_cut
from l4sbench.errors import BadValueError
from l4sbench.facts.factors import (
    EVENT_FACTORS,
    EVENTS,
    FACTORS,
    GROUP_FACTORS,
    GROUP_NAME,
    MAX_TRIALS,
    MEASURED,
    RESERVED,
    RTT,
)
from l4sbench.text.licences import licence_id
from l4sbench.text.parameters import Parameter, plain, shown
from l4sbench.text.units import PER_PACKET_UNITS, UNITS
from l4sbench.text.wording import quoted

Schema = dict[str, Any]

_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_PARAM: Final = r"[a-z][a-z0-9_]*"
_GROUP: Final = rf"(?!(?:{'|'.join(sorted(RESERVED))})\.){GROUP_NAME.pattern}"
_JSON_TYPES: Final = {"int": "integer", "float": "number", "bool": "boolean", "str": "string"}
_NUMBERS: Final = r"[0-9]+(\.[0-9]+)?"
_ANY_SCALAR: Final[Schema] = {"type": ["string", "number", "boolean"]}


NOT_A_MAP: Final = "expected one value, not a map"
"""Message for a map under a key that has none."""


def _scalar(raw: Any) -> Any:
    """Refuse lists, maps and null, which are never one value of one factor."""
    if raw is None:
        raise BadValueError("expected a value, not nothing")
    if isinstance(raw, list):
        raise BadValueError("expected one value, not a list", "to cross values, put the list under axes")
    if isinstance(raw, dict):
        dotted = "nest only flow groups and events; write other keys dotted, such as aqm.target"
        is_group = "cc" in raw or "send" in raw
        raise BadValueError(NOT_A_MAP, "write flow groups under flows" if is_group else dotted)
    return raw


def _name(raw: Any) -> Any:
    if not isinstance(raw, str):
        raise BadValueError(f"expected a name, not {shown(raw)}")
    if not re.fullmatch(_NAME, raw):
        raise BadValueError(f"{shown(raw)} is not a valid name", "use letters, digits, dots, - and _")
    return raw


def _group_name(raw: str) -> str:
    if raw in RESERVED:
        raise BadValueError(f"{shown(raw)} is not a valid name of a flow group", "factors begin with it")
    return _plain_name(raw, "a flow group")


def _event_name(raw: str) -> str:
    return _plain_name(raw, "an event")


def _plain_name(raw: str, of: str) -> str:
    if not GROUP_NAME.fullmatch(raw):
        raise BadValueError(
            f"{shown(raw)} is not a valid name of {of}", "use lower-case letters, digits and single -"
        )
    return raw


def _files(raw: Any) -> Any:
    return [raw] if isinstance(raw, str) else raw


def _file(raw: str) -> str:
    if not raw or "\0" in raw:
        raise BadValueError(f"expected a path, not {shown(raw)}")
    return raw


def _trials(raw: Any) -> Any:
    if isinstance(raw, int) and not isinstance(raw, bool):
        if not 1 <= raw <= MAX_TRIALS:
            limit = "at least 1" if raw < 1 else f"at most {MAX_TRIALS}"
            raise BadValueError(f"{raw} is out of range; it must be {limit}")
        return {"min": raw, "max": raw}
    if not isinstance(raw, dict):
        raise BadValueError(f"expected a number or {{min: 3, max: 10, until: decided}}, not {shown(raw)}")
    return raw


def _empty_if_none(raw: Any) -> Any:
    return {} if raw is None else raw


def _points(raw: Any) -> Any:
    if not isinstance(raw, list):
        hint = None if raw is None or isinstance(raw, dict) else f"write [{quoted(str(raw))}]"
        raise BadValueError(f"expected a list of values, not {shown(raw)}", hint)
    if not raw:
        raise BadValueError("an axis needs at least one value")
    return raw


Scalar = Annotated[Any, BeforeValidator(_scalar), WithJsonSchema(_ANY_SCALAR)]
Name = Annotated[str, BeforeValidator(_name), WithJsonSchema({"type": "string", "pattern": f"^{_NAME}$"})]
GroupName = Annotated[str, BeforeValidator(_group_name)]
EventName = Annotated[str, BeforeValidator(_event_name)]
Files = Annotated[
    list[Annotated[StrictStr, AfterValidator(_file), WrapValidator(unless_cut)]],
    BeforeValidator(_files),
    WithJsonSchema({"type": ["string", "array"], "items": {"type": "string"}}),
]


def value_schema(factor: Parameter) -> Schema:
    """Return the JSON Schema of one value of a factor."""
    schema: Schema = {"type": _JSON_TYPES.get(factor.kind, "string"), "description": factor.meaning}
    if factor.kind in UNITS:
        schema["pattern"] = rf"^{_NUMBERS}({'|'.join(UNITS[factor.kind])})$"
    if factor.scales:
        schema["type"] = ["integer", "string"]
        schema["pattern"] = rf"^{_NUMBERS}({'|'.join(PER_PACKET_UNITS)})$"
    if factor.choices:
        schema["enum"] = list(factor.choices)
    if factor.kind in {"int", "float"} and factor.minimum is not None:
        schema["minimum"] = plain(factor.minimum)
    if factor.kind in {"int", "float"} and factor.maximum is not None:
        schema["maximum"] = plain(factor.maximum)
    if factor.kind in {"int", "float"} and factor.positive:
        schema["exclusiveMinimum"] = 0
    if factor.default is not None:
        schema["default"] = plain(factor.default)
    return schema


def _core_schemas() -> Schema:
    return {name: value_schema(factor) for name, factor in FACTORS.items()}


def _dotted_schemas() -> Schema:
    """Return the schemas of names that are patterns: parameters of the queue, and all of a flow group."""
    param = {"description": "A parameter of the group's congestion control, as the catalog declares it."}
    taken = "|".join(GROUP_FACTORS)
    schemas: Schema = {
        rf"^aqm\.{_PARAM}$": _ANY_SCALAR
        | {"description": "A parameter of the queue, as the catalog declares it; not every queue has it."}
    }
    for name, factor in GROUP_FACTORS.items():
        schemas[rf"^{_GROUP}\.{name}$"] = value_schema(factor)
    schemas[rf"^{_GROUP}\.(?!(?:{taken})$){_PARAM}$"] = _ANY_SCALAR | param
    for name, factor in EVENT_FACTORS.items():
        schemas[rf"^{EVENTS}\.{GROUP_NAME.pattern}\.{re.escape(name)}$"] = value_schema(factor)
    return schemas


class TrialsRange(BaseModel):
    """Trials per cell: at least `min`, then more until the verdict is decided, at most `max`."""

    model_config = ConfigDict(extra="forbid", title="TrialsRange")
    min: StrictInt | None = Field(None, ge=1, le=MAX_TRIALS, description="Trials that every cell gets.")
    max: StrictInt | None = Field(None, ge=1, le=MAX_TRIALS, description="Trials that no cell exceeds.")
    until: Literal["decided"] | None = Field(None, description="When to stop adding trials.")


class Roles(BaseModel):
    """The flow groups that the rule compares, where they are not called `l4s` and `classic`."""

    model_config = ConfigDict(extra="forbid", title="Roles")
    l4s: GroupName | None = Field(None, description="The group that the question is about.")
    classic: GroupName | None = Field(None, description="The group that it competes with.")


class FlowGroup(BaseModel):
    """Flows that differ only in their ports."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Scalar]


class StatedEvent(BaseModel):
    """A change of the path at an instant of the trial: `at`, and the factors that change."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Scalar]


class Assignment(BaseModel):
    """Factors and the value of each."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Scalar]


class Patterns(BaseModel):
    """Factors and a pattern for each (`fq*`, or `1,4` for either); cells that match all are left out."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Scalar]


def _is_linked(raw: Any) -> str:
    return "linked" if isinstance(raw, dict | Assignment) else "value"


Point = Annotated[
    Annotated[
        Annotated[Scalar, Tag("value")] | Annotated[Assignment, Tag("linked")],
        Discriminator(_is_linked),
    ],
    WrapValidator(unless_cut),
]


class Axes(BaseModel):
    """Axes to cross: each is a list of values of one factor, or a list of maps of linked factors."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Annotated[list[Point], BeforeValidator(_points)]]


class Stated(BaseModel):
    """Statements of a matrix that its quick variant can make, too: description, trials, factors, cells."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Scalar]

    description: StrictStr | None = Field(None, description="Question of the experiment.")
    trials: Annotated[TrialsRange, BeforeValidator(_trials)] | None = None
    flows: dict[GroupName, Annotated[FlowGroup, BeforeValidator(_empty_if_none)]] | None = None
    events: dict[EventName, Annotated[StatedEvent, BeforeValidator(_empty_if_none)]] | None = None
    axes: Axes | None = None
    exclude: list[Annotated[Patterns, WrapValidator(unless_cut)]] | None = Field(
        None, description="Cells to leave out, after crossing."
    )
    include: list[Annotated[Assignment, WrapValidator(unless_cut)]] | None = Field(
        None, description="Whole cells to add, each on top of the fixed factors."
    )


class Quick(Stated):
    """The quick variant of a matrix: what it states differently."""


class Changes(Stated):
    """Statements of a matrix that a command line can make, too: all but its name and what it refers to."""

    rule: Name | None = Field(None, description="Rule for verdicts, or none. Default: l4sbench1.")
    roles: Roles | None = None
    baselines: Literal["none", "solo", "solo-and-same"] | None = Field(
        None,
        description="Cells to add for comparison: each flow group alone, and, with solo-and-same, against "
        "its own kind. Default: none.",
    )
    seed: StrictInt | None = Field(
        None, ge=0, le=2**63 - 1, description="Seed of every trial's seed. Default: 1."
    )
    spread: Annotated[list[Name], Field(min_length=1, max_length=10)] | None = Field(
        None,
        description="Factors over whose combinations a run spreads: cell after cell with all its trials, "
        "so that however far it is, all combinations have equally many.",
    )


class MatrixFile(Changes):
    """An experiment of l4sbench: fixed factors, axes, trials and a rule for verdicts."""

    model_config = ConfigDict(extra="allow", title="l4sbench matrix")

    matrix: Name = Field(description="Name of the matrix and of its run directory.")
    extends: Files | None = Field(
        None,
        description="Matrices this one builds on, each the name of one that ships with l4sbench, or a path "
        "relative to this file, with a slash or .yaml at its end: maps merge, lists replace.",
    )
    origin: StrictStr | None = Field(
        None, description="What a run's copy of a matrix was made from, which l4sbench writes."
    )
    licence: Annotated[StrictStr, AfterValidator(licence_id)] | None = Field(
        None, description="Licence of the data that a run makes, by its SPDX id, such as CC-BY-4.0."
    )
    catalog: Files | None = Field(
        None, description="Folders, relative to this file, with more queues and congestion controls."
    )
    quick: Quick | None = Field(
        None, description="Changes for `--quick`, a small variant of the matrix: maps merge, lists replace."
    )


def json_schema() -> Schema:
    """Return the grammar for editors, as JSON Schema 2020-12.

    The models accept any key as a factor; here the factors are listed and all other keys forbidden.
    """
    schema = MatrixFile.model_json_schema()
    parts = schema["$defs"]
    core, dotted = _core_schemas(), _dotted_schemas()
    own = {name: value_schema(factor) for name, factor in GROUP_FACTORS.items()}
    _close(schema, core, dotted)
    _close(parts["Assignment"], core, dotted)
    _close(parts["Patterns"], dict.fromkeys(core, _ANY_SCALAR), dict.fromkeys(dotted, _ANY_SCALAR))
    _close(parts["FlowGroup"], own, {f"^{_PARAM}$": _ANY_SCALAR})
    _close(parts["StatedEvent"], {name: value_schema(factor) for name, factor in EVENT_FACTORS.items()}, {})
    _close(
        parts["Axes"],
        {name: _values_schema(one) for name, one in core.items()},
        {pattern: _values_schema(one) for pattern, one in dotted.items()},
        others=_LINKED_SCHEMA,
    )
    _close(parts["Quick"], core, dotted)
    for stated in (schema, parts["Quick"]):
        alone = {"anyOf": [core[RTT], {"const": MEASURED}], "description": core[RTT]["description"]}
        stated["properties"] |= {RTT: alone}
        stated["properties"] |= {"trials": _TRIALS_SCHEMA, "flows": _FLOWS_SCHEMA, EVENTS: _EVENTS_SCHEMA}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


_LINKED_SCHEMA: Final[Schema] = {
    "type": "array",
    "minItems": 1,
    "items": {"$ref": "#/$defs/Assignment"},
    "description": "A linked axis: maps of factors that change together, under any name.",
}
_FLOWS_SCHEMA: Final[Schema] = {
    "type": "object",
    "patternProperties": {
        rf"^(?!(?:{'|'.join(sorted(RESERVED))})$){GROUP_NAME.pattern}$": {
            "anyOf": [{"$ref": "#/$defs/FlowGroup"}, {"type": "null"}]
        }
    },
    "additionalProperties": False,
    "description": "Flow groups by name; a group runs on its own pair of nodes.",
}
_EVENTS_SCHEMA: Final[Schema] = {
    "type": "object",
    "patternProperties": {f"^{GROUP_NAME.pattern}$": {"$ref": "#/$defs/StatedEvent"}},
    "additionalProperties": False,
    "description": "Changes of the path during the trial, by name.",
}
_TRIALS_SCHEMA: Final[Schema] = {
    "description": "Trials of every cell: a number, or a range within which the verdict decides.",
    "default": 3,
    "anyOf": [{"type": "integer", "minimum": 1, "maximum": MAX_TRIALS}, {"$ref": "#/$defs/TrialsRange"}],
}


def _values_schema(one: Schema) -> Schema:
    described = {"description": one["description"]} if "description" in one else {}
    items = {"anyOf": [one, {"$ref": "#/$defs/Assignment"}]}
    return {"type": "array", "minItems": 1, "items": items, **described}


def _close(
    schema: Schema, named: Schema, patterns: Schema, *, others: Schema | Literal[False] = False
) -> None:
    """Add the keys that a model accepts as extras, and the schema of other keys (default: forbidden)."""
    schema["properties"] = schema.get("properties", {}) | named
    schema["patternProperties"] = patterns
    schema["additionalProperties"] = others
