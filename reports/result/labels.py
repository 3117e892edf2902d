# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Where a cell stands in the decision table, and how its settings are called there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from l4sbench.factors import ECN_MODES
from reports.result.cells import factors_of, varying

if TYPE_CHECKING:
    import polars as pl

    from reports.result.load import RunTables
    from reports.result.rules import Rule


def labelled(cells: pl.DataFrame, tables: RunTables, rule: Rule) -> list[dict[str, Any]]:
    """The cells as rows with the entry they belong to and names to print, in the order of tables.

    Added are `question`, `row`, `column`, `queue` and `label`, the last with whatever else tells the cells of
    one entry apart.
    """
    catalog = {(row["kind"], row["name"]): row for row in tables.catalog.iter_rows(named=True)}
    factors = factors_of(cells)
    ecn = f"{rule.classic}.ecn"
    asked = varying(cells, _below(factors, rule.l4s), within=f"{rule.l4s}.cc")
    against = varying(cells, _below(factors, rule.classic, but=(ecn,)), within=f"{rule.classic}.cc")
    named = {*asked, *against, ecn, f"{rule.l4s}.cc", f"{rule.classic}.cc", "aqm"}
    rest = varying(cells, [name for name in factors if name not in named], within="aqm")
    rows: list[dict[str, Any]] = []
    for row in cells.iter_rows(named=True):
        queue = catalog.get(("queue", str(row["aqm"])), {})
        label = str(queue.get("label", row["aqm"]))
        together = row[ecn] in rule.columns.together
        shown = f"ECN {' or '.join(rule.columns.together)}" if together else setting("ecn", row[ecn])
        row["question"] = _flow_label(row, rule.l4s, asked, catalog)
        row["row"] = rule.row_of(str(row["aqm"]), queue.get("family"))
        row["column"] = _flow_label(row, rule.classic, against, catalog, shown)
        row["queue"] = label
        settings = _settings(row, rest)
        if together:
            settings.append(setting("ecn", row[ecn]))
        row["label"] = ", ".join([label, *settings])
        rows.append(row)
    numbers = [name for name in sorted(rest) if cells[name].dtype.is_numeric()]

    def order(row: Mapping[str, Any]) -> tuple[object, ...]:
        """Questions, rows as the rule has them, competitors, queues, and then numbers as numbers."""
        settings = tuple((row[name] is not None, row[name] or 0) for name in numbers)
        place = (row["question"], rule.row_order(row["row"]), competitor_order(rule, row))
        return (*place, row["queue"], *settings, row["cell"])

    return sorted(rows, key=order)


def competitor_order(rule: Rule, row: Mapping[str, Any]) -> tuple[str, int, str]:
    """By name, and then by ECN from off upwards."""
    ecn = row[f"{rule.classic}.ecn"]
    return (row[f"{rule.classic}.cc"], ECN_MODES.index(ecn) if ecn in ECN_MODES else -1, row["column"])


def _below(factors: list[str], group: str, but: tuple[str, ...] = ()) -> list[str]:
    skipped = (f"{group}.cc", *but)
    return [name for name in factors if name.startswith(f"{group}.") and name not in skipped]


def _flow_label(
    row: Mapping[str, Any], group: str, names: list[str], catalog: Mapping[Any, Any], *first: str
) -> str:
    """`CUBIC, ECN off`: the congestion control's label, then what else tells this group's cells apart."""
    name = str(row[f"{group}.cc"])
    label = str(catalog.get(("cc", name), {}).get("label", name))
    said = [setting(column.removeprefix(f"{group}."), row[column]) for column in names]
    return ", ".join([label, *first, *(text for text in said if text)])


def _settings(row: Mapping[str, Any], names: list[str]) -> list[str]:
    ordered = sorted(names, key=lambda name: (name != "buffer_bdp", name))
    return [text for name in ordered if (text := setting(name, row[name]))]


_UNITS: Final = {"_mbps": "Mbit/s", "_ms": "ms", "_s": "s", "_bytes": "bytes", "_packets": "packets"}


def setting(name: str, value: object) -> str:
    """`2 BDP`, `rtt 10 ms`, `ECN off`: a factor in words; empty for one that the cell does not have."""
    match value:
        case None:
            return ""
        case bool():
            shown = "on" if value else "off"
        case float():
            shown = f"{value:g}"
        case _:
            shown = str(value)
    if name == "buffer_bdp":
        return f"{shown} BDP"
    if name == "ecn":
        return f"ECN {shown}"
    for suffix, unit in _UNITS.items():
        if name.endswith(suffix):
            return f"{name.removesuffix(suffix)} {shown} {unit}"
    return f"{name} {shown}"
