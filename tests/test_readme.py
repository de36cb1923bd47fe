# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""What the documents say of metrics, parameters and subtools is what the program does."""

import re
import subprocess

import pytest
from conftest import REPO

from kerneltools import catalogue

README = (REPO / "README.md").read_text(encoding="utf-8")
SUBTOOLS = sorted(path.stem for path in (REPO / "kerneltools-subtools").glob("*.sh") if path.stem != "common")
CATALOGUE_ROWS = [
    line.split("\t")
    for line in (REPO / "kerneltools" / "catalogue.tsv").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


def declared():
    """The parameters that the scripts declare, by name, with their defaults, from --help."""
    done = subprocess.run([REPO / "kerneltools-start", "--help"], stdout=subprocess.PIPE, text=True, check=True)
    found = {}
    for name, text in re.findall(r"^  --(\S+)\n((?:        .*\n)+)", done.stdout, re.MULTILINE):
        default = re.search(r"\(default: (.*)\)$", text, re.MULTILINE)
        found[name] = default.group(1) if default else ""
    return found


def table_between(name):
    """The rows of a table of the README between its markers, as lists of cells without back quotes."""
    section = README.split(f"<!-- {name}: begin", 1)[1].split(f"<!-- {name}: end", 1)[0]
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]] for line in section.splitlines() if line.startswith("| ")]
    return [[cell.replace("`", "").replace("\\|", "|") for cell in row] for row in rows[1:]]


@pytest.mark.parametrize("subtool", sorted({row[0] for row in CATALOGUE_ROWS}))
def test_the_metric_table_is_the_catalogue(subtool):
    expected = [
        [metric_type, metric_class, formula, "" if unit == "-" else unit, aggregation, meaning]
        for of, metric_type, metric_class, unit, aggregation, formula, meaning in CATALOGUE_ROWS
        if of == subtool
    ]
    assert table_between(f"{subtool} metrics") == expected


def test_the_catalogue_loads_whole():
    assert [metric.type for metric in catalogue.load()] == [row[1] for row in CATALOGUE_ROWS]


def test_readme_and_head_name_every_parameter_with_its_default():
    parameters = declared()
    told = {}
    for names, _, default in table_between("parameters"):
        for name in re.findall(r"--([a-z-]+)", names):
            told[name] = "" if default in ("off", "unchanged") else default
    assert {name: "" if value in ("OFF",) else value for name, value in parameters.items()} == told
    head = (REPO / "kerneltools-start").read_text(encoding="utf-8").split("\nset -u", 1)[0]
    assert set(re.findall(r"--([a-z][a-z-]+)", head)) - {"help"} == set(parameters)


def test_readme_head_and_help_name_every_subtool():
    head = (REPO / "kerneltools-start").read_text(encoding="utf-8").split("\nset -u", 1)[0]
    listed = re.findall(r"^#\s{10,}([a-z][a-z-]+)  ", head, re.MULTILINE)
    assert sorted(listed) == SUBTOOLS
    row = next(row for row in table_between("parameters") if row[0] == "--subtools")
    assert sorted(row[1].split(";")[0].replace("comma list of ", "").split()) == SUBTOOLS


def test_the_default_events_of_the_readme_are_those_that_start_counts():
    sentence = re.search(r"The default events are (.*?)\.\s", README, re.DOTALL).group(1)
    told = re.split(r",\s*", sentence.replace("\n", " "))
    script = (REPO / "kerneltools-subtools" / "perf-stat.sh").read_text(encoding="utf-8")
    counted = "".join(re.findall(r"^PERF_STAT_EVENTS\+?=(\S*)$", script, re.MULTILINE))
    assert told == counted.split(",")


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:examples|tests|kerneltools[a-z-]*)/[\w./-]+)`", README))))
def test_files_that_the_readme_names_are_there(path):
    assert (REPO / path).exists()
