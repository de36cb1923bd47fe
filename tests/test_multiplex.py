# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""multiplex.json: a bad run file fails before anything is deployed, a good one does not, and start thinks the same of both."""

import copy
import importlib.util
import json
import logging
import os
import random
import re
from pathlib import Path

import declared
import pytest
from conftest import REPO
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_documents import assert_valid
from test_parameters import BAD, GOOD

MULTIPLEX = json.loads((REPO / "multiplex.json").read_text(encoding="utf-8"))
RULES = {name: rule for rule in MULTIPLEX["validations"].values() for name in rule["args"]}

MORE_GOOD = {
    "subtools": ["perf,perf-record,perf", "sysfs-trace,trace-cmd"],
    "interval": ["00.01", "0.0100", "10.", "4294967", "4294967.", "4294967.000", "4294967.0004", "4294966.9999", "999999", "4200000",
                 "010"],
    "perf-stat-events": [
        "mem:0x1000/8:rw", "mem:0x1000/8:rw,cycles", " cycles , instructions ", "cpu/config=0x1,name=a{b}/", "{cycles,default:u}",
        "{ cycles , mem:0x10/4 }:S", "{cpu/event=1,umask=2/,r1}:W,default",
    ],
    "toplev-level": ["03", "000000006"],
    "record-opts": ["a\\\nb", '"a\\"b"', "'\\'", "\\'", "-g\n-F 99", " "],
    "trace-cmd-record-opts": ["-e 'sched:*'"],
    "sysfs-trace-setup": ["echo 'unclosed", "two\nlines", " "],
}  # fmt: skip
MORE_BAD = {
    "subtools": ["perf-stat\n", " perf-stat", "perf-stat,perf-stat,", "turbostat|perf", ".*"],
    "interval": ["4294967.0005", "4294967.1",
                 "4294968", "5000000", "10000000", "0.00999", ".009", ".", "1.0.", "10\n", "\u0661", "1e3", "00"],
    "perf-stat-events": ["cycles,\n", "{default}", "{cycles, default }", "{,cycles}", "{cycles}{r1}", "a{b}", "{{cycles}}",
                         "cycles/u", "}"],
    "toplev-level": ["0000000003", "00", "3\n", "6.0", "\u0663"],
    "perf-stat-aggregation": ["cpu\n", "core|cpu", "c.re"],
    "perf-gen-local-report": ["on", "ON\n", "OFFON"],
    "core-power": ["enable\n", "disabled"],
    "sysfs-trace-collection": ["system\n", "per.cpu"],
    "record-opts": ["'", '"', "\\", "a 'b' \"c", "x\\'y'"],
    "trace-cmd-record-opts": ["-f 'prev_prio < 100", "\\"],
}  # fmt: skip


def allowed(name, value):
    """multiplex's verdict: re.match with the rule's pattern, which has to hold the value from its start to its very end."""
    pattern = RULES[name]["vals"]
    verdict = re.match(pattern, value) is not None
    assert verdict == (re.fullmatch(pattern, value) is not None) == (re.search(pattern, value) is not None), "not anchored"
    return verdict


def verdicts(values):
    """[(name, value, multiplex's verdict, start's verdict)] of [(name, value)]."""
    pairs = list(values)
    started = declared.accepted([f"--{name}={value}" for name, value in pairs])
    return [(name, value, allowed(name, value), verdict) for (name, value), verdict in zip(pairs, started)]


def pairs_of(lists):
    return [(name, value) for name, values in lists.items() for value in values]


def test_multiplex_accepts_the_file(schemas):
    schema = json.loads((schemas / "multiplex-req.json").read_text())
    rule = schema["definitions"]["validation_obj"]["properties"]
    # the schema at hand is older than this key
    rule.setdefault("repeatable", {"type": "boolean"})
    assert_valid(MULTIPLEX, schema)


def test_every_parameter_has_one_rule_and_no_other_has_any():
    named = [name for rule in MULTIPLEX["validations"].values() for name in rule["args"]]
    assert sorted(named) == sorted(declared.load().parameters)


def test_only_commands_may_be_given_more_than_once():
    """Of any other parameter, start would take the last."""
    kinds = {name: parameter.kind for name, parameter in declared.load().parameters.items()}
    assert {name for name, rule in RULES.items() if rule.get("repeatable")} == {name for name, kind in kinds.items() if kind == "command"}


def test_the_preset_holds_subtools_and_interval_as_start_has_them():
    """multiplex applies it as a whole, where a run file gives no parameter: more than start's defaults would be a second opinion."""
    assert list(MULTIPLEX["presets"]) == ["defaults"]
    parameters = declared.load().parameters
    assert MULTIPLEX["presets"]["defaults"] == [{"arg": name, "vals": [parameters[name].default]} for name in ("subtools", "interval")]
    assert all(allowed(preset["arg"], value) for preset in MULTIPLEX["presets"]["defaults"] for value in preset["vals"])


def test_every_default_is_allowed():
    for parameter in declared.load().parameters.values():
        assert not parameter.default or allowed(parameter.name, parameter.default), parameter


@pytest.mark.parametrize("lists", [GOOD, MORE_GOOD], ids=["parameters", "more"])
def test_both_accept_what_is_good(lists):
    assert [verdict for verdict in verdicts(pairs_of(lists)) if verdict[2:] != (True, True)] == []


@pytest.mark.parametrize("lists", [{name: values for name, (_, values) in BAD.items()}, MORE_BAD], ids=["parameters", "more"])
def test_both_refuse_what_is_bad(lists):
    assert [verdict for verdict in verdicts(pairs_of(lists)) if verdict[2:] != (False, False)] == []


def test_every_rule_is_tried_from_both_sides():
    free = {"sysfs-trace-setup", "sysfs-trace-cleanup"}
    assert set(GOOD) == set(RULES)
    assert set(BAD) | set(MORE_BAD) == set(RULES) - free


PIECES = {
    "subtools": ["perf", "perf-stat", ",", "turbostat", "toplev", " ", "x", "\n"],
    "interval": [*"0123456789..", "00", "4294967", "4294966", ".000", "\n", "-", "e", " "],
    "toplev-level": list("0123456789 -.\n"),
    "perf-gen-local-report": ["ON", "OFF", "\n", " "],
    "perf-stat-events": ["cycles", "default", "{", "}", ",", ":u", "cpu/event=0x87,umask=0x01/", "sched:sched_switch", " ", "$x", "\n",
                         "{r1,r2}"],
    "record-opts": ["'", '"', "\\", " ", "a", "-g", "\n", "$(x)", "\t"],
}  # fmt: skip


@pytest.mark.parametrize("name", PIECES)
def test_both_agree_on_what_nobody_thought_of(name):
    draw = random.Random(name)
    values = {"".join(draw.choices(PIECES[name], k=draw.randint(1, 9))) for _ in range(1500)}
    assert [verdict for verdict in verdicts((name, value) for value in sorted(values)) if verdict[2] != verdict[3]] == []


@settings(max_examples=200, deadline=500)
@given(st.text("a'\"\\{},/ :", max_size=300), st.sampled_from(["record-opts", "perf-stat-events", "interval", "subtools"]))
@example("'" * 4001, "record-opts")
@example("a" * 5000 + '"', "record-opts")
@example("\\a" * 3000 + "'", "record-opts")
@example("cycles," * 2000, "perf-stat-events")
@example("/a,b/" * 1000 + "/", "perf-stat-events")
@example(" " * 3000 + ",", "perf-stat-events")
@example("{" + "a/b/," * 1000, "perf-stat-events")
def test_no_value_takes_long_to_judge(value, name):
    allowed(name, value)


# ---- the real multiplex


@pytest.fixture
def multiplex():
    home = os.environ.get("MULTIPLEX_HOME")
    if not home or not (Path(home) / "multiplex.py").is_file():
        pytest.skip("MULTIPLEX_HOME names no multiplex")
    pytest.importorskip("jsonschema")
    spec = importlib.util.spec_from_file_location("multiplex_under_test", Path(home) / "multiplex.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.log = logging.getLogger("multiplex")
    module.create_validation_dict(MULTIPLEX)
    module.load_presets(copy.deepcopy(MULTIPLEX))
    return module


def test_the_real_multiplex_judges_the_same(multiplex):
    bad = {name: values for name, (_, values) in BAD.items()}
    for lists, expected in ((GOOD, True), (MORE_GOOD, True), (bad, False), (MORE_BAD, False)):
        assert [pair for pair in pairs_of(lists) if multiplex.param_validated(*pair) is not expected] == []


def test_the_real_multiplex_applies_the_preset_to_an_empty_set(multiplex):
    assert multiplex.override_presets([]) == [MULTIPLEX["presets"]["defaults"]]
