# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""What perf stat is told to count: the list tried, reduced to what the machine supports, grouped; and that each loss is said.

With real perf where it shows, with a played one where another version or machine is needed (tests/collection.py).
"""

import time
from pathlib import Path

import pytest
from collection import (
    DEFAULT_EVENTS,
    HARDWARE_EVENTS,
    counted_events,
    groups_of,
    lines_with,
    log_lines,
    played,
    recorded,
    split_list,
    wait_until,
    warnings,
    watched,
)

QUICK = ["--subtools=perf-stat", "--interval=0.02"]
HARDWARE_METRICS = [
    "ipc", "l1d-cache-miss-rate", "l1i-cache-miss-rate", "cache-miss-rate", "llc-miss-rate", "branch-miss-rate", "dtlb-miss-rate",
    "itlb-miss-rate", "backend-stall-rate", "frontend-stall-rate", "instructions-sec", "cycles-sec",
]  # fmt: skip

# the events that are divided by one another, by the design's table: each of these is counted together
GROUPS = {
    frozenset({"instructions", "cycles", "L1-icache-load-misses", "stalled-cycles-backend", "stalled-cycles-frontend"}),
    frozenset({"cache-references", "cache-misses", "L1-dcache-load-misses"}),
    frozenset({"LLC-load-misses", "LLC-loads"}),
    frozenset({"branch-misses", "branches"}),
    frozenset({"dTLB-load-misses", "dTLB-loads"}),
    frozenset({"iTLB-load-misses", "iTLB-loads"}),
    frozenset({"context-switches"}),
    frozenset({"cpu-migrations"}),
}


@pytest.fixture
def start(run_script):
    """start(*arguments): perf-stat, and its start without complaint to the caller."""

    def run(*arguments, **keywords):
        done = run_script("kerneltools-start", *QUICK, *arguments, **keywords)
        assert (done.rc, done.out, done.err) == (0, "", "")
        return done

    return run


def events(text):
    return f"--perf-stat-events={text}"


def written(directory, condition):
    """Whether perf's output comes to satisfy condition."""
    output = directory / "perf-stat-output.json"
    return wait_until(lambda: output.exists() and condition(output.read_text()), 2)


def metrics_said_lost(directory):
    """The metrics of HARDWARE_METRICS that a line of the log names, which does not hold an event list."""
    lines = [line for line in warnings(directory) if "dropped" not in line]
    return sorted(metric for metric in HARDWARE_METRICS if any(metric in line.replace(",", " ").split() for line in lines))


# ---- real perf


def test_where_all_is_supported_it_costs_one_extra_run(start, data_dir, stand_in, tmp_path, real_perf, hwshim):
    calls = watched(stand_in, tmp_path, real_perf, LD_PRELOAD=hwshim)
    start()
    assert len(calls.stat()) == 2
    assert len(calls.trials()) == 1
    assert counted_events(calls.collected_events()) == sorted(DEFAULT_EVENTS)
    assert warnings(data_dir) == []
    assert written(data_dir, lambda text: '"instructions"' in text)


def test_events_whose_ratio_is_taken_are_counted_together(start, data_dir, stand_in, tmp_path, real_perf, hwshim):
    calls = watched(stand_in, tmp_path, real_perf, LD_PRELOAD=hwshim)
    start()
    assert groups_of(calls.collected_events()) == GROUPS


def test_one_unsupported_event_costs_its_own_metric_only(start, data_dir, stand_in, tmp_path, real_perf, hwshim):
    """3:0x10002 is LLC-load-misses."""
    calls = watched(stand_in, tmp_path, real_perf, LD_PRELOAD=hwshim, HWSHIM_UNSUPPORTED="3:0x10002")
    start()
    assert groups_of(calls.collected_events()) == GROUPS - {frozenset({"LLC-load-misses", "LLC-loads"})} | {frozenset({"LLC-loads"})}
    assert [event for event in DEFAULT_EVENTS if any(event in line for line in warnings(data_dir))] == ["LLC-load-misses"]
    assert lines_with(warnings(data_dir), "perf-stat", "LLC-load-misses", "not supported")
    assert metrics_said_lost(data_dir) == ["llc-miss-rate"]
    assert written(data_dir, lambda text: '"LLC-loads"' in text)
    output = (data_dir / "perf-stat-output.json").read_text()
    assert "LLC-load-misses" not in output
    assert "not counted" not in output
    assert "not supported" not in output


def test_without_a_pmu_the_software_events_are_left_and_each_loss_is_named(start, data_dir, stand_in, tmp_path, real_perf):
    if any(device.name.startswith(("cpu", "armv")) for device in Path("/sys/bus/event_source/devices").iterdir()):
        pytest.skip("this machine has a PMU")
    calls = watched(stand_in, tmp_path, real_perf)
    start()
    assert counted_events(calls.collected_events()) == ["context-switches", "cpu-migrations"]
    (dropped,) = lines_with(warnings(data_dir), "perf-stat", "dropped", "not supported")
    assert [event for event in HARDWARE_EVENTS if event not in dropped.replace(",", " ").replace(":", " ").split()] == []
    assert metrics_said_lost(data_dir) == sorted(HARDWARE_METRICS)
    assert written(data_dir, lambda text: '"context-switches"' in text)


@pytest.mark.parametrize(
    "bad", ["nosuch-event", "nosuch_pmu/event=1/", "sched:nosuch", "cycles:nosuch"], ids=["event", "PMU", "tracepoint", "modifier"]
)
def test_an_unknown_event_is_dropped_by_name_with_perfs_reason(bad, start, data_dir, stand_in, tmp_path, real_perf):
    calls = watched(stand_in, tmp_path, real_perf)
    start(events(f"page-faults,{bad},context-switches"))
    assert split_list(calls.collected_events()) == ["page-faults", "context-switches"]
    (line,) = lines_with(warnings(data_dir), bad)
    reason = line.partition("dropped")[2]
    assert [word for word in ("unknown", "parser", "Cannot find PMU", "Bad", "not found") if word.lower() in reason.lower()], line
    assert "Usage" not in reason
    assert "perf list" not in reason


def test_a_tracepoint_is_counted(start, data_dir, stand_in, tmp_path, real_perf):
    if not any(Path(root, "events/sched/sched_switch").exists() for root in ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")):
        pytest.skip("no tracepoints can be seen here")
    calls = watched(stand_in, tmp_path, real_perf)
    start(events("sched:sched_switch,{sched:sched_wakeup,sched:sched_process_fork},context-switches"))
    group = frozenset({"sched:sched_wakeup", "sched:sched_process_fork"})
    assert groups_of(calls.collected_events()) == {frozenset({"sched:sched_switch"}), group, frozenset({"context-switches"})}
    assert warnings(data_dir) == []
    assert written(data_dir, lambda text: '"sched:sched_switch"' in text and '"sched:sched_process_fork"' in text)


@pytest.mark.parametrize("text", ["r1a8,cycles", "cycles:u,instructions:u", "{cycles:u,instructions:u},page-faults"])
def test_raw_events_modifiers_and_groups_reach_real_perf_as_they_are(text, start, data_dir, stand_in, tmp_path, real_perf, hwshim):
    calls = watched(stand_in, tmp_path, real_perf, LD_PRELOAD=hwshim)
    start(events(text))
    assert groups_of(calls.collected_events()) == groups_of(text)
    assert len(calls.trials()) == 1
    assert warnings(data_dir) == []


@pytest.mark.parametrize("unsupported", ["0:0", "0:1"], ids=["leader", "member"])
def test_an_unsupported_event_in_the_users_group_leaves_its_others(unsupported, start, data_dir, stand_in, tmp_path, real_perf, hwshim):
    """In perf 6.1 the leader ends the whole command, the member makes the others <not counted>; 0:0 is cycles, 0:1 instructions."""
    calls = watched(stand_in, tmp_path, real_perf, LD_PRELOAD=hwshim, HWSHIM_UNSUPPORTED=unsupported)
    start(events("{cycles,instructions,branches},page-faults"))
    lost, kept = ("cycles", "instructions") if unsupported == "0:0" else ("instructions", "cycles")
    assert groups_of(calls.collected_events()) == {frozenset({kept, "branches"}), frozenset({"page-faults"})}
    (line,) = lines_with(warnings(data_dir), "dropped")
    assert lost in line
    assert kept not in line
    assert written(data_dir, lambda text: '"page-faults"' in text)
    output = (data_dir / "perf-stat-output.json").read_text()
    assert f'"{kept}"' in output
    assert "<not" not in output


def test_an_unknown_event_in_the_users_group_leaves_its_others(start, data_dir, stand_in, tmp_path, real_perf, hwshim):
    calls = watched(stand_in, tmp_path, real_perf, LD_PRELOAD=hwshim)
    start(events("{cycles,nosuch-event,branches},page-faults"))
    assert groups_of(calls.collected_events()) == {frozenset({"cycles", "branches"}), frozenset({"page-faults"})}
    (line,) = lines_with(warnings(data_dir), "dropped")
    assert "nosuch-event" in line
    assert "branches" not in line


@pytest.mark.parametrize(
    ("aggregation", "place"), [("system", None), ("socket", "socket"), ("die", "die"), ("node", "node"), ("core", "core"), ("cpu", "cpu")]
)
def test_aggregation_reaches_perf(aggregation, place, start, data_dir, stand_in, tmp_path, real_perf):
    calls = watched(stand_in, tmp_path, real_perf)
    start(events("page-faults"), f"--perf-stat-aggregation={aggregation}")
    (collection,) = calls.collections()
    flags = {"-A", "--no-aggr", "--per-socket", "--per-die", "--per-node", "--per-core", "--per-thread"} & set(collection)
    wanted = {"system": set(), "cpu": {"-A"}}.get(aggregation, {f"--per-{aggregation}"})
    assert flags == wanted or (aggregation == "cpu" and flags == {"--no-aggr"})
    assert "-a" in collection or "--all-cpus" in collection
    assert written(data_dir, lambda text: '"page-faults"' in text)
    record = next(line for line in (data_dir / "perf-stat-output.json").read_text().splitlines() if "page-faults" in line)
    assert [key for key in ("socket", "die", "node", "core", "cpu") if f'"{key}" :' in record] == ([place] if place else [])


def test_what_a_cpus_own_event_costs_is_said_as_of_the_default_lists(start, data_dir, stand_in, tmp_path):
    """Rates are of the default list's own names only, here as in the metrics."""
    played(stand_in, tmp_path, unsupported=["inst_retired", "l1d_cache_refill"])
    start(events("inst_retired,cpu_cycles,l1d_cache,l1d_cache_refill,br_retired,br_mis_pred"))
    assert metrics_said_lost(data_dir) == ["cache-miss-rate", "ipc", "l1d-cache-miss-rate"]


# ---- the list


@pytest.mark.parametrize("text", ["default,page-faults", "page-faults,default"])
def test_the_word_default_stands_for_the_default_list(text, start, data_dir, stand_in, tmp_path):
    calls = played(stand_in, tmp_path)
    start(events(text))
    assert groups_of(calls.collected_events()) == GROUPS | {frozenset({"page-faults"})}
    assert len(calls.trials()) == 1


@pytest.mark.parametrize("text", ["default,default", "default,cycles,page-faults,page-faults", "cycles,branches,default"])
def test_an_event_named_twice_is_counted_once(text, start, data_dir, stand_in, tmp_path):
    calls = played(stand_in, tmp_path)
    start(events(text))
    wanted = DEFAULT_EVENTS + (["page-faults"] if "page-faults" in text else [])
    assert counted_events(calls.collected_events()) == sorted(wanted)


def test_an_event_that_was_named_before_default_still_belongs_to_its_group(start, data_dir, stand_in, tmp_path):
    calls = played(stand_in, tmp_path)
    start(events("cycles,default"))
    assert groups_of(calls.collected_events()) == GROUPS


def test_only_the_default_list_is_grouped(start, data_dir, stand_in, tmp_path):
    """Of a list of one's own, one says oneself what is counted together."""
    calls = played(stand_in, tmp_path)
    start(events("instructions,cycles,{branches,branch-misses}"))
    assert split_list(calls.collected_events()) == ["instructions", "cycles", "{branches,branch-misses}"]


@pytest.mark.parametrize(
    "text",
    [
        "cpu/event=0x87,umask=0x01/",
        "cpu/event=0x87,umask=0x01/,page-faults",
        "page-faults,cpu/event=0x87,umask=0x01,name=lock,stall/u,r1a8",
        "{cpu/event=0x87,umask=0x01/,cycles},page-faults",
        "{cycles,instructions}:W",
        "{cycles:u,cpu/cache-misses/k}:W,sched:sched_switch",
        "uncore_imc/cas_count_read/,uncore_imc/cas_count_write/",
        "cpu_core/cycles/,cpu_atom/cycles/",
    ],
)
def test_commas_within_an_event_or_a_group_are_its_own(text, start, data_dir, stand_in, tmp_path):
    calls = played(stand_in, tmp_path)
    start(events(text))
    assert calls.collected_events() == text
    assert len(calls.trials()) == 1
    assert warnings(data_dir) == []


@pytest.mark.parametrize("text", ["cycles, page-faults", " cycles ,page-faults "])
def test_blanks_around_an_event_are_not_its_name(text, start, data_dir, stand_in, tmp_path):
    calls = played(stand_in, tmp_path)
    start(events(text))
    assert split_list(calls.collected_events()) == ["cycles", "page-faults"]


@pytest.mark.parametrize(
    "part",
    [
        {"unknown": ["nosuch", "neither/x,y=1/"]},
        {"supported": []},
        {"supported": [], "status": "1 if all unsupported"},
        {"supported": [], "leader": "exit"},
    ],
    ids=["unknown", "unsupported", "7.2", "6.1"],
)
def test_if_no_event_can_be_counted_that_is_an_error(part, run_script, data_dir, stand_in, tmp_path):
    calls = played(stand_in, tmp_path, **part)
    text = "nosuch,neither/x,y=1/" if "unknown" in part else "{cycles,instructions},branches"
    done = run_script("kerneltools-start", *QUICK, events(text))
    assert done.rc == 1
    (error,) = done.err.splitlines()
    assert error.startswith("ERROR: ")
    (warning,) = lines_with(warnings(data_dir), "skipped")
    assert warning.startswith("WARNING: perf-stat: skipped: ")
    names = ["nosuch", "neither/x,y=1/"] if "unknown" in part else ["cycles", "instructions", "branches"]
    assert [name for name in names if name not in warning] == []
    assert ("unknown event" if "unknown" in part else "supported") in warning
    assert recorded(data_dir) == []
    assert calls.collections() == []


def test_if_no_event_is_known_real_perf_is_not_started(run_script, data_dir, real_perf):
    done = run_script("kerneltools-start", *QUICK, events("nosuch-event,another-one"))
    assert done.rc == 1
    assert len(done.err.splitlines()) == 1
    assert recorded(data_dir) == []


# ---- other versions, other machines

LOST = ["cycles", "LLC-loads", "L1-dcache-load-misses"]
WITHOUT_LOST = {frozenset(group - set(LOST)) for group in GROUPS}
COST = sorted(["ipc", "cycles-sec", "backend-stall-rate", "frontend-stall-rate", "llc-miss-rate", "l1d-cache-miss-rate"])

VERSIONS = {
    "6.1": {"leader": "exit", "end": ', "metric-value" : 0.000000, "metric-unit" : "(null)"}'},
    "6.12": {"leader": "exit", "spelling": "{} [cpu]"},
    "6.13": {"leader": "exit", "end": ", }"},
    "7.2": {"status": "1 if all unsupported", "end": "}"},
    "7.2 core PMU": {"spelling": "cpu/{}/", "end": "}"},
    "Arm": {"spelling": "armv8_pmuv3_0/{}/", "end": "}"},
    "empty lines": {"end": "}\n"},
}


@pytest.mark.parametrize("version", ["6.12", "6.13", "7.2", "7.2 core PMU"])
def test_every_version_of_perf_is_understood_where_all_is_supported(version, start, data_dir, stand_in, tmp_path):
    calls = played(stand_in, tmp_path, **VERSIONS[version])
    start()
    assert groups_of(calls.collected_events()) == GROUPS
    assert len(calls.trials()) == 1
    assert warnings(data_dir) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_of_perf_is_understood_where_some_are_not_supported(version, start, data_dir, stand_in, tmp_path):
    calls = played(stand_in, tmp_path, unsupported=LOST, **VERSIONS[version])
    start()
    assert groups_of(calls.collected_events()) == WITHOUT_LOST
    (line,) = lines_with(warnings(data_dir), "dropped")
    assert {event for event in DEFAULT_EVENTS if event in line.replace(",", " ").replace(":", " ").split()} == set(LOST)
    assert "not supported" in line
    assert metrics_said_lost(data_dir) == COST


@pytest.mark.parametrize("version", ["6.1", "6.13", "7.2"])
def test_every_version_of_perf_is_understood_on_a_machine_without_a_pmu(version, start, data_dir, stand_in, tmp_path):
    calls = played(stand_in, tmp_path, supported=["context-switches", "cpu-migrations"], **VERSIONS[version])
    start()
    assert counted_events(calls.collected_events()) == ["context-switches", "cpu-migrations"]
    assert metrics_said_lost(data_dir) == sorted(HARDWARE_METRICS)


def test_an_unknown_event_beside_unsupported_ones_costs_those_only(start, data_dir, stand_in, tmp_path):
    """Arm perf knows no L1-icache-load-misses on some machines: the whole list is refused for it."""
    unknown = ["L1-icache-load-misses", "stalled-cycles-backend"]
    calls = played(stand_in, tmp_path, unknown=unknown, unsupported=["LLC-loads"], leader="exit")
    start()
    assert groups_of(calls.collected_events()) == {frozenset(group - {*unknown, "LLC-loads"}) for group in GROUPS}
    assert lines_with(warnings(data_dir), "L1-icache-load-misses", "stalled-cycles-backend", "unknown event")
    assert lines_with(warnings(data_dir), "LLC-loads", "not supported")
    assert metrics_said_lost(data_dir) == ["backend-stall-rate", "l1i-cache-miss-rate", "llc-miss-rate"]


@pytest.mark.parametrize("version", ["6.1", "6.12", "7.2"])
def test_a_group_that_is_never_scheduled_is_counted_singly(version, start, data_dir, stand_in, tmp_path):
    """Four counters: the group of five does not fit, the others do."""
    calls = played(stand_in, tmp_path, counters=4, **VERSIONS[version])
    start()
    large = frozenset({"instructions", "cycles", "L1-icache-load-misses", "stalled-cycles-backend", "stalled-cycles-frontend"})
    assert groups_of(calls.collected_events()) == GROUPS - {large} | {frozenset({event}) for event in large}
    assert not lines_with(warnings(data_dir), "dropped"), "nothing is lost"
    assert metrics_said_lost(data_dir) == []
    assert lines_with(log_lines(data_dir), "instructions", "singly")


def test_where_no_group_fits_all_are_counted_singly(start, data_dir, stand_in, tmp_path):
    calls = played(stand_in, tmp_path, counters=1)
    start()
    assert groups_of(calls.collected_events()) == {frozenset({event}) for event in DEFAULT_EVENTS}
    assert metrics_said_lost(data_dir) == []


def test_a_group_fits_once_its_unsupported_members_are_gone(start, data_dir, stand_in, tmp_path):
    """Intel since Skylake: no stalled-cycles, four counters."""
    calls = played(stand_in, tmp_path, counters=4, unsupported=["stalled-cycles-backend", "stalled-cycles-frontend"])
    start()
    assert frozenset({"instructions", "cycles", "L1-icache-load-misses"}) in groups_of(calls.collected_events())
    assert metrics_said_lost(data_dir) == ["backend-stall-rate", "frontend-stall-rate"]


PRINTED = {
    "cpu/event=0x87,umask=0x01,name=lock/": ["lock"],
    "cs": ["context-switches"],
    "uncore_imc/cas_count_read/": ["uncore_imc_0/cas_count_read/", "uncore_imc_1/cas_count_read/"],
    "cpu-cycles:u": ["cpu/cpu-cycles/u"],
    "r1a8": ["cpu/r1a8/"],
}


@pytest.mark.parametrize("others", [["page-faults"], ["faults", "page-faults"]])
def test_an_event_that_perf_prints_under_another_name_is_not_lost(others, start, data_dir, stand_in, tmp_path):
    """Also beside one that is not supported, from which it has to be told."""
    calls = played(stand_in, tmp_path, printed=PRINTED, unsupported=["faults"])
    start(events(",".join([*others, *PRINTED])))
    assert split_list(calls.collected_events()) == ["page-faults", *PRINTED]
    assert len(lines_with(warnings(data_dir), "dropped")) == len(others) - 1


def test_what_perf_says_besides_is_no_loss(start, data_dir, stand_in, tmp_path):
    calls = played(stand_in, tmp_path, says="WARNING: events were regrouped to match PMUs\nWarning:\nkernel.kptr_restrict is set\n")
    start()
    assert groups_of(calls.collected_events()) == GROUPS
    assert len(calls.trials()) == 1
    assert warnings(data_dir) == []


HYBRID = [event for event in HARDWARE_EVENTS if not event.startswith("stalled")]


def test_a_hybrid_machine_counts_what_either_core_type_counts(start, data_dir, stand_in, tmp_path):
    """Two records an event; cpu_atom's are <not counted>, or <not supported> where its cores lack the event."""
    calls = played(stand_in, tmp_path, hybrid=HYBRID, atom="<not supported>")
    start()
    assert counted_events(calls.collected_events()) == sorted(DEFAULT_EVENTS)
    assert not lines_with(warnings(data_dir), "dropped")
    assert metrics_said_lost(data_dir) == []


def test_a_hybrid_machine_drops_what_neither_core_type_has(start, data_dir, stand_in, tmp_path):
    calls = played(stand_in, tmp_path, hybrid=HYBRID, unsupported=["LLC-loads"], atom="<not supported>")
    start()
    assert counted_events(calls.collected_events()) == sorted(set(DEFAULT_EVENTS) - {"LLC-loads"})
    assert metrics_said_lost(data_dir) == ["llc-miss-rate"]


def test_the_users_group_that_never_fits_is_counted_singly(start, data_dir, stand_in, tmp_path):
    """'Of the default list' says the design of groups; a count of a group that is never scheduled is no count either way."""
    calls = played(stand_in, tmp_path, counters=2)
    start(events("{cycles,instructions,branches},{cache-misses,cache-references}"))
    assert counted_events(calls.collected_events()) == sorted(["cycles", "instructions", "branches", "cache-misses", "cache-references"])
    assert frozenset({"cache-misses", "cache-references"}) in groups_of(calls.collected_events())


def test_what_counts_are_there_is_judged_once_per_start_not_per_event(start, data_dir, stand_in, tmp_path):
    """Of 60 events 30 are not supported: a run for each would keep the benchmark waiting."""
    good, bad = [f"good{number}" for number in range(30)], [f"bad{number}" for number in range(30)]
    calls = played(stand_in, tmp_path, unsupported=bad)
    began = time.monotonic()
    start(events(",".join(good + bad)))
    assert split_list(calls.collected_events()) == good
    assert len(calls.trials()) <= 5, "the whole, what is left of it, and whether it was only files that were missing"
    assert time.monotonic() - began < 3
