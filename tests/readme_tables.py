#!/usr/bin/env python3
# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""readme_tables.py - the tables of README.md, made of the metric catalogue and of what the subtools declare

USAGE: tests/readme_tables.py        writes them anew, each between its markers; everything else stays as it is

To be run after a change of kerneltools/catalogue.tsv or of a subtool's parameters. tests/test_readme.py fails until it was.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPO), str(REPO / "tests")]

import declared  # noqa: E402

from kerneltools import catalogue  # noqa: E402

README = REPO / "README.md"
MARKED = re.compile(r"(<!-- (?P<name>[a-z -]+): begin[^>]*-->\n).*?(<!-- (?P=name): end -->)", re.DOTALL)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines).replace("|  |", "| |")


def catalogue_rows() -> list[list[str]]:
    """The fields of every metric's row of the catalogue."""
    return [row for row in _rows() if row[0] != catalogue.BOUND]


def bound_rows() -> list[list[str]]:
    """The fields of every bound's row of the catalogue, without the word bound."""
    return [row[1:] for row in _rows() if row[0] == catalogue.BOUND]


def _rows() -> list[list[str]]:
    lines = catalogue.CATALOGUE.read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


def metric_table(subtool: str) -> str:
    """The metrics of one subtool, a row of the catalogue each."""
    rows = [
        [f"`{metric_type}`", metric_class, formula, "" if unit == "-" else unit, aggregation, meaning]
        for of, metric_type, metric_class, unit, aggregation, formula, meaning in catalogue_rows()
        if of == subtool
    ]
    return _table(["type", "class", "value", "unit", "over places", "what it says"], rows)


def bound_table() -> str:
    """Between which values those of a unit are published."""
    rows = [
        [subtool, f"`{of}`" if ":" in of else of, "" if unit == "-" else unit, least, greatest, why]
        for subtool, of, unit, least, greatest, why in bound_rows()
    ]
    return _table(["subtool", "kind", "unit", "least", "greatest", "why"], rows)


def parameter_table(declarations: declared.Declarations) -> str:
    """Every parameter of start and stop."""
    rows = []
    for parameter in declarations.parameters.values():
        accepted = parameter.accepted
        if parameter.kind == "subtools":
            accepted += "".join(f"; `{former}` is the former name of `{name}`" for former, name in declarations.former.items())
        default = f"`{parameter.default}`" if parameter.default else ""
        rows.append([f"`--{parameter.name}`", accepted, default, parameter.meaning, parameter.owner or "all"])
    return _table(["parameter", "value", "default", "what for", "subtool"], rows)


def rewritten(readme: str) -> str:
    """README.md's text with every marked table made anew; raises KeyError for a marker that nobody knows."""
    declarations = declared.load()
    tables = {f"{subtool} metrics": metric_table(subtool) for subtool in {row[0] for row in catalogue_rows()}}
    tables["bounds"] = bound_table()
    tables["parameters"] = parameter_table(declarations)
    return MARKED.sub(lambda found: found[1] + tables[found["name"]] + found[3], readme)


if __name__ == "__main__":
    README.write_text(rewritten(README.read_text(encoding="utf-8")), encoding="utf-8")
