# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""Every query of crucible that a document, a script or the page shows is one that the back end answers.

What it refuses was seen with CommonDataModel v10dev: a query without a period, begin and end ("begin is not defined or a period
ID was not defined"), and a breakout that the run was not collected by ("the breakout [cpu] was not found for [kernel::ipc]").
"""

import json
import re
import subprocess

import pytest
from conftest import REPO

DOCUMENTS = ["README.md", "examples/README.md"]
# the breakouts of perf-stat's metrics, by aggregation
PLACES = {
    "system": set(),
    "socket": {"package"},
    "die": {"package", "die"},
    "node": {"node"},
    "core": {"package", "die", "core"},
    "cpu": {"package", "die", "core", "thread", "cpu"},
}


def checked_in():
    """The files of the checkout that are text and no recorded input, by name."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPO, capture_output=True, text=True, check=False)
    names = listed.stdout.split("\0")[:-1] if listed.returncode == 0 else [
        str(path.relative_to(REPO)) for path in REPO.rglob("*") if not any(part in (".git", ".venv") for part in path.parts)
    ]
    for name in names:
        path = REPO / name
        if name.startswith(("tests/fuzz/corpus/", "tests/recordings/")) or name == "tests/test_queries.py" or not path.is_file():
            continue
        try:
            yield name, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def queries(text):
    """The options of each `crucible get metric` of a text, as a dict; a mention without any option is no query.

    A backslash at a line's end joins the next line; what is quoted in prose ends at the quotation mark.
    """
    for line in re.findall(r"crucible get metric\b([^\n`\"]*)", re.sub(r"\\\n", " ", text)):
        options = dict(re.findall(r"--([a-z-]+)(?:[ =]+([^\s-]\S*|<[^>]*>))?", line.split("  #")[0]))
        if options:
            yield options


def what_is_missing(options):
    """The options without which the back end refuses the query."""
    missing = {"source", "type"} - set(options)
    if "period" not in options:
        missing |= {"run", "begin", "end"} - set(options)
    return missing | {name for name in options if not options[name]}


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("crucible get metric --run <id> --source kernel --type ipc", {"begin", "end"}),
        ("crucible get metric --run $run --begin 1 --source kernel --type ipc  # --end is a comment", {"end"}),
        ("crucible get metric --run $run --source kernel \\\n    --type ipc", {"begin", "end"}),
        ("crucible get metric --begin=1 --end=2 --source kernel --type ipc", {"run"}),
        ("crucible get metric --period --source kernel --type ipc", {"period"}),
        ("crucible get metric --period <period-id> --type ipc", {"source"}),
        ("crucible get metric --period <period-id> --source kernel --type ipc --breakout hostname", set()),
        ("crucible get metric --run <id> --begin <ms> --end <ms> --source kernel --type toplev:mux", set()),
    ],
)
def test_a_query_that_would_be_refused_is_told_from_one_that_is_answered(line, missing):
    assert [what_is_missing(options) for options in queries(line)] == [missing]


def test_a_mention_of_the_command_is_no_query():
    assert list(queries("the answers of `crucible get metric` are means; `crucible get metric`s are many")) == []


def test_no_query_that_is_shown_is_refused_for_want_of_a_period():
    found = [(name, options) for name, text in checked_in() for options in queries(text)]
    assert len([name for name, _ in found if name in DOCUMENTS]) > 20
    assert [(name, options, what_is_missing(options)) for name, options in found if what_is_missing(options)] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_who_needs_a_period_is_told_where_its_id_comes_from(document):
    text = (REPO / document).read_text(encoding="utf-8")
    before, query = text.split("crucible get metric", 1)
    assert query
    assert "crucible get result --run" in before
    assert "primary period-id" in before


@pytest.mark.parametrize("document", DOCUMENTS)
def test_cores_of_two_packages_are_not_folded_into_one(document):
    """Numbers of cores recur in each package, those of packages and CPUs on each host."""
    for options in queries((REPO / document).read_text(encoding="utf-8")):
        named = options.get("breakout", "").split(",")
        assert not {"core", "die"} & set(named) or "package" in named, options
        assert not {"package", "cpu", "node"} & set(named) or "hostname" in named, options


def sections():
    """Of each question of examples/README.md: the parameters of its fragment, its queries, and its whole text."""
    for section in (REPO / "examples" / "README.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        fragment = re.search(r"\]\(([\w-]+\.json)\)", section)
        assert fragment, section
        params = json.loads((REPO / "examples" / fragment[1]).read_text(encoding="utf-8"))["tool-params"][0]["params"]
        yield {param["arg"]: param["val"] for param in params if param.get("enabled") != "no"}, list(queries(section)), section


def test_a_query_breaks_out_by_what_its_example_collects():
    asked = 0
    for params, wanted, _ in sections():
        for options in wanted:
            named = set(options.get("breakout", "").split(",")) - {"", "hostname"}
            kind = options["type"].split(":")[0]
            if kind == "toplev":
                allowed = set()
            elif kind == "turbostat":
                allowed = PLACES["cpu"]
            else:
                allowed = PLACES[params.get("perf-stat-aggregation", "system")]
            if options["type"] == "counter-running":
                allowed = allowed | {"counter"}
            assert named <= allowed, options
            asked += 1
    assert asked > 15


# the two header lines of an answer, and its rows
ANSWER = re.compile(r"^ +\d\d-\d\d-\d{4}\n +source +type +((?:[a-z]+ +)*)\d\d:\d\d:\d\d\n +-+\n((?: +kernel .*\n)+)", re.MULTILINE)


def test_an_answer_that_is_shown_is_that_of_a_query_beside_it():
    answers = 0
    for _, wanted, section in sections():
        asked = {(options["type"], tuple(filter(None, options.get("breakout", "").split(",")))) for options in wanted}
        for names, rows in ANSWER.findall(section):
            for row in rows.splitlines():
                assert (row.split()[1], tuple(names.split())) in asked, row
                assert len(row.split()) == 2 + len(names.split()) + 1, row
            answers += 1
    assert answers > 10
