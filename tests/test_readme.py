# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""What the documents say of metrics, messages, files and examples is what the program does."""

import re
import subprocess

import pytest
import readme_tables
from conftest import REPO

from kerneltools import catalogue

README = (REPO / "README.md").read_text(encoding="utf-8")
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "examples/README.md"]
SCRIPTS = [REPO / "kerneltools-start", REPO / "kerneltools-stop", *sorted((REPO / "kerneltools-subtools").glob("*.sh"))]


def text_of(document):
    return (REPO / document).read_text(encoding="utf-8")


# ---- tables


def test_the_tables_are_made_of_what_the_program_reads():
    assert readme_tables.rewritten(README) == README, "tests/readme_tables.py writes them anew"


def test_the_generator_changes_what_is_between_the_markers_and_nothing_else():
    spoilt = README.replace("| `ipc` | throughput |", "| `ipc` | latency |")
    assert spoilt != README
    assert readme_tables.rewritten(spoilt) == README
    assert readme_tables.rewritten("no table here\n") == "no table here\n"


def test_every_subtool_with_metrics_has_its_table():
    subtools = {metric.subtool for metric in catalogue.load()}
    assert set(re.findall(r"<!-- ([a-z-]+) metrics: begin", README)) == subtools
    assert set(re.findall(r"<!-- ([a-z-]+) metrics: end -->", README)) == subtools


def test_the_catalogue_loads_whole():
    assert [metric.type for metric in catalogue.load()] == [row[1] for row in readme_tables.catalogue_rows()]


# ---- troubleshooting

# a call that is given one text; what follows "$" in it varies
CALL = re.compile(r'\b(?:warn|missing|skip|give_up|die [0-9]|error) "((?:[^"\\$]|\\.|\$\((?:[^()]|\([^()]*\))*\)|\$)*)"')
VARIABLE = re.compile(r"\$\(\((?:[^()]|\([^()]*\))*\)\)|\$\((?:[^()]|\([^()]*\))*\)|\$\{[^}]*\}|\$\w+|\$[?*@#]")


def serious(path):
    """Those of a bash file that are a WARNING or an ERROR, and say something themselves."""
    text = re.sub(r"^\s*#.*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    shapes = [re.sub("…+", "…", VARIABLE.sub("…", message)) for message in CALL.findall(text)]
    return [shape for shape in shapes if re.search("[a-z]{3}", shape)]


def troubleshooting():
    """The messages that README explains: every quoted text of the first cells."""
    section = README.split("\n## Troubleshooting\n", 1)[1].split("\n## ", 1)[0]
    cells = re.findall(r"^\| (`.*?) \| ", section, re.MULTILINE)
    return [message for cell in cells for message in re.findall(r"`([^`]+)`", cell)]


def pattern_of(message):
    """A message of README as it is to be found in the program: "…" is anything."""
    return re.compile(".*".join(re.escape(part) for part in re.split("…", message)), re.DOTALL)


@pytest.fixture(scope="module")
def program():
    """The source of everything that prints, with Python's texts that are cut over lines joined."""
    python = "".join(path.read_text(encoding="utf-8") for path in sorted((REPO / "kerneltools").rglob("*.py")))
    return "".join(path.read_text(encoding="utf-8") for path in SCRIPTS) + re.sub(r'"\s*\n\s*f?"', "", python)


@pytest.mark.parametrize("message", troubleshooting())
def test_a_message_that_is_explained_is_one_that_is_printed(message, program):
    assert [part for part in re.split("…", message) if part.strip() not in program] == []


@pytest.mark.parametrize("message", sorted({message for path in SCRIPTS for message in serious(path)}))
def test_a_warning_or_error_of_the_scripts_is_explained(message):
    """What has no word of its own ("…: …") explains nothing."""
    explained = [text for text in troubleshooting() if re.search("[a-z]{4}", text)]
    assert any(pattern_of(text).search(message) for text in explained), "README.md, Troubleshooting: what is to be done then?"


# ---- the rest


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_that_a_document_names_are_there(document):
    text = text_of(document)
    folder = (REPO / document).parent
    quoted = set(re.findall(r"`((?:examples|tests|kerneltools[a-z-]*)/[\w./-]+)`", text))
    linked = set(re.findall(r"\]\(([^)#:]+)\)", text))
    assert [path for path in quoted if not (REPO / path).exists()] == []
    assert [path for path in linked if not (folder / path).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_within_a_document_lead_somewhere(document):
    text = text_of(document)
    anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= anchors


@pytest.mark.parametrize("document", DOCUMENTS)
def test_types_that_a_document_asks_for_are_in_the_catalogue(document):
    types = [row[1] for row in readme_tables.catalogue_rows()]
    patterns = [re.compile(r"[\w.-]+".join(map(re.escape, re.split(r"<\w+>", name)))) for name in types if name != "<event>"]
    events = {"page-faults", "sched:sched_switch"}
    asked = re.findall(r"--type (\S+)", text_of(document))
    assert [name for name in asked if name not in events and not any(pattern.fullmatch(name) for pattern in patterns)] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_lines_are_readable_without_a_wide_screen(document):
    assert [line for line in text_of(document).splitlines() if len(line) > 140 and not line.startswith("|")] == []


def test_what_is_to_be_read_takes_five_minutes():
    assert len(README.split("\n# Reference\n", 1)[0].split()) < 1600


def test_help_names_what_the_head_names():
    done = subprocess.run([REPO / "kerneltools-start", "--help"], stdout=subprocess.PIPE, text=True, check=True)
    head = text_of("kerneltools-start").split("\nset -u", 1)[0]
    assert set(re.findall(r"^  --(\S+)", done.stdout, re.MULTILINE)) == set(re.findall(r"--([a-z][a-z-]+)", head)) - {"help"}
