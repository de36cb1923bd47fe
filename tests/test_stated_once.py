# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""What is stated once (a subtool's declarations, the metric catalogue) is the same everywhere that it is told again."""

import ast
import json
import re

import declared
import pytest
from conftest import REPO
from readme_tables import catalogue_rows
from test_documents import assert_valid

DECLARED = declared.load()
MULTIPLEX = json.loads((REPO / "multiplex.json").read_text(encoding="utf-8"))
METADATA = json.loads((REPO / "tool-metadata.json").read_text(encoding="utf-8"))
README = (REPO / "README.md").read_text(encoding="utf-8")
HEAD = (REPO / "kerneltools-start").read_text(encoding="utf-8").split("\nset -u", 1)[0]
TYPES = {subtool: [row[1] for row in catalogue_rows() if row[0] == subtool] for subtool in DECLARED.subtools}


def readme_section(title):
    return re.split(r"\n#+ ", README.split(f"\n## {title}\n", 1)[1], maxsplit=1)[0]


# ---- subtools


def subtools_of_the_head():
    return re.findall(r"^#\s{10,}([a-z][a-z-]+)  ", HEAD, re.MULTILINE)


def subtools_of_multiplex():
    pattern = MULTIPLEX["validations"]["subtools"]["vals"]
    first, further = re.fullmatch(r"\^\(\?:([a-z|-]+)\)\(\?:,\(\?:([a-z|-]+)\)\)\*\\Z", pattern).groups()
    assert first == further
    return [name for name in first.split("|") if name not in DECLARED.former]


def subtools_of_the_readme():
    (row,) = re.findall(r"^\| `--subtools` \| a comma list of ([a-z -]+);", README, re.MULTILINE)
    return row.split()


def subtools_of_the_metadata():
    return [entry["name"] for entry in METADATA["subtools"]]


@pytest.mark.parametrize("told", [subtools_of_the_head, subtools_of_multiplex, subtools_of_the_readme, subtools_of_the_metadata])
def test_the_list_of_subtools(told):
    assert sorted(told()) == DECLARED.subtools


def test_former_names_are_told():
    pattern = MULTIPLEX["validations"]["subtools"]["vals"]
    description = MULTIPLEX["validations"]["subtools"]["description"]
    for former, name in DECLARED.former.items():
        assert re.search(rf"[(|]{former}[|)]", pattern)
        assert f"{former} is the former name of {name}" in description
        assert f"`{former}` is the former name of `{name}`" in README
        assert re.search(rf"{name} .*\"{former}\" is its former name", HEAD)


# ---- parameters and their defaults


def test_the_list_of_parameters():
    names = set(DECLARED.parameters)
    assert set(re.findall(r"--([a-z][a-z-]+)", HEAD)) - {"help"} == names
    assert {name for rule in MULTIPLEX["validations"].values() for name in rule["args"]} == names
    assert set(re.findall(r"^\| `--([a-z-]+)` \|", readme_section("Parameters"), re.MULTILINE)) == names


def test_the_defaults():
    """In the head "(default X)", or "X (default)" after the values; a flag's OFF and the word default go without saying."""
    told = {}
    entry = re.compile(r"^#   (--[a-z].*(?:\n#(?: {15,}).*)*)", re.MULTILINE)
    for text in entry.findall(HEAD):
        names = re.findall(r"--([a-z-]+)", text.split("    ", 1)[0])
        default = re.search(r"\(default:? ([^)]+)\)|([\w-]+) \(default\)", text)
        told.update({name: default[1] or default[2] for name in names if default and default[0] != "(default: unchanged)"})
    declared_defaults = {name: parameter.default for name, parameter in DECLARED.parameters.items() if parameter.default}
    assert told == {name: default for name, default in declared_defaults.items() if default not in ("OFF", "default")}
    cells = re.findall(r"^\| `--([a-z-]+)` \| .*? \| (?:`([^`]*)` )?\|", readme_section("Parameters"), re.MULTILINE)
    assert {name: default for name, default in cells if default} == declared_defaults


def test_the_enumerations():
    for name, parameter in DECLARED.parameters.items():
        if parameter.kind.startswith("choice:"):
            rule = next(rule for rule in MULTIPLEX["validations"].values() if name in rule["args"])
            assert rule["vals"] == rf"^(?:{parameter.kind[len('choice:') :].replace(',', '|')})\Z"


def test_the_interval_that_post_processing_falls_back_on():
    tree = ast.parse((REPO / "kerneltools" / "subtools" / "turbostat.py").read_text(encoding="utf-8"))
    (value,) = (
        node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "DEFAULT_INTERVAL"
    )
    assert value == float(DECLARED.parameters["interval"].default)


# ---- types


def test_crucible_accepts_the_metadata(schemas):
    assert_valid(METADATA, json.loads((schemas / "crucible-tool-metadata.json").read_text()))


def test_the_metadata_is_of_this_tool():
    assert METADATA["tool"] == json.loads((REPO / "rickshaw.json").read_text())["tool"] == "kernel"
    assert METADATA["rickshaw-tool-metadata"]["schema"]["version"] == "2026.08.11"


@pytest.mark.parametrize("entry", METADATA["subtools"], ids=lambda entry: entry["name"])
def test_what_is_indexed_of_a_subtool(entry):
    types = TYPES[entry["name"]]
    assert entry["cdm_indexed"] == bool(types)
    assert entry.get("cdm_sources", []) == ([{"source": "kernel", "types": types}] if types else [])
    module = REPO / "kerneltools" / "subtools" / f"{entry['name'].replace('-', '_')}.py"
    assert module.is_file() == bool(types)


def test_the_types_of_the_readme():
    for subtool, types in TYPES.items():
        if types:
            table = README.split(f"<!-- {subtool} metrics: begin", 1)[1].split(f"<!-- {subtool} metrics: end", 1)[0]
            assert re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE) == types


# ---- output files


@pytest.mark.parametrize("entry", METADATA["subtools"], ids=lambda entry: entry["name"])
def test_the_files_of_a_subtool(entry):
    assert entry["output_files"] == [*DECLARED.outputs[entry["name"]], f"{entry['name']}-stderrout.txt"]


def test_what_post_processing_reads_is_what_collection_leaves():
    for subtool, types in TYPES.items():
        if types:
            text = (REPO / "kerneltools" / "subtools" / f"{subtool.replace('-', '_')}.py").read_text(encoding="utf-8")
            outputs = ast.literal_eval(re.search(r"^OUTPUTS = (\(.*?\))$", text, re.MULTILINE)[1])
            assert [f"{name}.xz" for name in outputs] == DECLARED.outputs[subtool]


def test_the_files_of_the_readme():
    first_cells = re.findall(r"^\| (`.*?) \| ", readme_section("What lies in the data directory"), re.MULTILINE)
    told = {re.sub(r"<\w+>", "*", name) for cell in first_cells for name in re.findall(r"`([^`]+)`", cell)}
    told = {name for name in told if not name.startswith(("kerneltools-", "postprocess/", "sys/"))}
    assert told == {name for names in DECLARED.outputs.values() for name in names} | {"*-stderrout.txt"}


# ---- default events


def test_the_default_events():
    script = (REPO / "kerneltools-subtools" / "perf-stat.sh").read_text(encoding="utf-8")
    counted = "".join(re.findall(r"^PERF_STAT_EVENTS\+?=(\S*)$", script, re.MULTILINE)).split(",")
    sentence = re.search(r"The default events are (.*?)\.\s", README, re.DOTALL)[1]
    assert re.split(r",\s+", sentence) == counted
