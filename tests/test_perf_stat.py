# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""perf-stat from perf's JSON to metrics: spellings of events, places, what is derived of what, and what is left for the indexer."""

import json
import lzma
import os

import pytest
from perf_output import block, line, post_process, process, read_back, run_of, write_clock, write_output, write_topology
from published import metric_files, without_mark

FOUR_CPUS = {0: (0, 0, 0, "0,2"), 1: (1, 0, 0, "1,3"), 2: (0, 0, 0, "0,2"), 3: (1, 0, 0, "1,3")}
CPU0 = {"package": "0", "die": "0", "core": "0", "thread": "0", "cpu": "0"}
CPU1 = {"package": "1", "die": "0", "core": "0", "thread": "0", "cpu": "1"}
CPU2 = {"package": "0", "die": "0", "core": "0", "thread": "1", "cpu": "2"}
CPU3 = {"package": "1", "die": "0", "core": "0", "thread": "1", "cpu": "3"}


# ---- what is published of a plain run


@pytest.mark.parametrize(
    ("metric_type", "numerator", "denominator", "metric_class", "value"),
    [
        ("ipc", "instructions", "cycles", "throughput", 0.2857143),
        ("l1d-cache-miss-rate", "L1-dcache-load-misses", "cache-references", "throughput", 0.2857143),
        ("l1i-cache-miss-rate", "L1-icache-load-misses", "instructions", "throughput", 0.2857143),
        ("cache-miss-rate", "cache-misses", "cache-references", "throughput", 0.2857143),
        ("llc-miss-rate", "LLC-load-misses", "LLC-loads", "throughput", 0.2857143),
        ("branch-miss-rate", "branch-misses", "branches", "throughput", 0.2857143),
        ("dtlb-miss-rate", "dTLB-load-misses", "dTLB-loads", "throughput", 0.2857143),
        ("itlb-miss-rate", "iTLB-load-misses", "iTLB-loads", "throughput", 0.2857143),
        ("backend-stall-rate", "stalled-cycles-backend", "cycles", "percentage", 28.57143),
        ("frontend-stall-rate", "stalled-cycles-frontend", "cycles", "percentage", 28.57143),
    ],
)
def test_a_ratio_is_its_two_counters_divided(metric_type, numerator, denominator, metric_class, value, data_dir):
    done = post_process(data_dir, run_of({numerator: 2_000_000_000, denominator: 7_000_000_000}))
    assert done.rc == 0
    assert done.metrics.samples(metric_type) == [(1, 1000, value)]
    assert done.metrics.desc(metric_type) == {
        "source": "kernel", "class": metric_class, "type": metric_type, "default-aggregation": "avg"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("metric_type", "event", "count", "metric_class", "value"),
    [
        ("context-switches-sec", "context-switches", 5, "count", 2.5),
        ("cpu-migrations-sec", "cpu-migrations", 1, "count", 0.5),
        ("instructions-sec", "instructions", 3_000_000, "throughput", 1.5),
        ("cycles-sec", "cycles", 9_000_000_000, "throughput", 4.5),
    ],
)
def test_a_rate_is_its_counter_by_the_interval_in_seconds(metric_type, event, count, metric_class, value, data_dir):
    done = post_process(data_dir, block(2.0, {event: count}))
    assert done.rc == 0
    assert done.metrics.samples(metric_type) == [(1, 2000, value)]
    assert done.metrics.desc(metric_type) == {
        "source": "kernel", "class": metric_class, "type": metric_type, "default-aggregation": "sum"
    }  # fmt: skip


def test_an_events_own_counts_are_published_as_integers(data_dir):
    done = post_process(data_dir, run_of({"page-faults": 12}, {"page-faults": 9_007_199_254_740_993}))
    assert done.metrics.types == {"page-faults", "counter-running"}
    assert done.metrics.samples("page-faults") == [(1, 1000, 12), (1001, 2000, 9_007_199_254_740_993)]
    assert done.metrics.texts("page-faults") == ["12", "9007199254740993"]
    assert done.metrics.desc("page-faults") == {
        "source": "kernel", "class": "count", "type": "page-faults", "default-aggregation": "sum"
    }  # fmt: skip


def test_derived_values_have_seven_significant_digits(data_dir):
    done = post_process(data_dir, run_of({"instructions": 1, "cycles": 3}, {"instructions": 1_234_567_891, "cycles": 1_000_000_000}))
    assert done.metrics.texts("ipc") == ["0.3333333", "1.234568"]
    assert done.metrics.values("instructions-sec") == [1e-06, 1234.568]


def test_a_counter_that_stays_zero_is_published_as_zero(data_dir):
    done = post_process(data_dir, run_of({"context-switches": 0}, {"context-switches": 0}))
    assert done.rc == 0
    assert done.metrics.samples("context-switches") == [(1, 2000, 0)]
    assert done.metrics.samples("context-switches-sec") == [(1, 2000, 0)]


def test_counter_running_is_the_lowest_share_over_places(data_dir):
    records = [
        line(1.0, "cycles", 5, running=80.5, cpu="0"),
        line(1.0, "cycles", 5, running=33.25, cpu="1"),
        line(1.0, "instructions", 5, running=100.0, cpu="0"),
        line(1.0, "instructions", 5, running=99.0, cpu="1"),
        line(2.0, "cycles", 5, running=50.0, cpu="0"),
        line(2.0, "cycles", 5, running=60.0, cpu="1"),
        line(2.0, "instructions", 5, running=99.0, cpu="0"),
        line(2.0, "instructions", 5, running=100.0, cpu="1"),
    ]
    done = post_process(data_dir, records)
    assert done.metrics.places("counter-running") == [{"counter": "cycles"}, {"counter": "instructions"}]
    assert done.metrics.samples("counter-running", counter="cycles") == [(1, 1000, 33.25), (1001, 2000, 50)]
    assert done.metrics.samples("counter-running", counter="instructions") == [(1, 2000, 99)]
    assert done.metrics.desc("counter-running") == {
        "source": "kernel", "class": "percentage", "type": "counter-running", "default-aggregation": "avg"
    }  # fmt: skip


def test_counter_running_is_not_told_of_an_event_that_was_not_counted(data_dir):
    records = [
        line(1.0, "cycles", 5, running=75.0), line(1.0, "LLC-loads", "<not supported>"),
        line(2.0, "cycles", "<not counted>", running=0.0), line(2.0, "LLC-loads", "<not supported>"),
        line(3.0, "cycles", 5, running=75.0), line(3.0, "LLC-loads", "<not supported>"),
    ]  # fmt: skip
    done = post_process(data_dir, records)
    assert done.metrics.places("counter-running") == [{"counter": "cycles"}]
    assert done.metrics.samples("counter-running", counter="cycles") == [(1, 3000, 75)]


# ---- how perf's versions write a record


def test_context_switches_of_perf_6_12_per_cpu_are_found_behind_their_pmu(data_dir):
    write_topology(data_dir, FOUR_CPUS)
    done = post_process(data_dir, run_of({"context-switches [software]": 30, "dTLB-loads [cpu]": 4, "dTLB-load-misses [cpu]": 1}, cpu="1"))
    assert done.rc == 0
    assert done.metrics.types == {
        "context-switches", "context-switches-sec", "dTLB-loads", "dTLB-load-misses", "dtlb-miss-rate", "counter-running"
    }  # fmt: skip
    assert done.metrics.samples("context-switches-sec", **CPU1) == [(1, 1000, 30)]
    assert done.metrics.samples("dtlb-miss-rate", **CPU1) == [(1, 1000, 0.25)]


@pytest.mark.parametrize(
    "metric_fields",
    [
        ', "metric-value" : 99.000000, "metric-unit" : "insn per cycle"',
        ', "metric-value" : "99.000000", "metric-unit" : "insn per cycle"',
        ', "metric-value" : "none", "metric-unit" : "(null)"',
        ', "metric-value" : null',
        "",
    ],
    ids=["number (6.1)", "string (6.12)", "word", "null", "absent (7.2)"],
)
def test_ipc_comes_from_the_counters_whatever_perf_says_of_metrics(metric_fields, data_dir):
    records = [
        f'{{"interval" : 1.0, "counter-value" : "{count}.000000", "unit" : "", "event" : "{event}", "event-runtime" : 5, '
        f'"pcnt-running" : 100.00{metric_fields}}}'
        for event, count in (("instructions", 6), ("cycles", 4))
    ]
    done = post_process(data_dir, records, end=1.0)
    assert done.rc == 0
    assert done.metrics.samples("ipc") == [(1, 1000, 1.5)]


def test_a_line_without_event_costs_nothing(data_dir):
    records = [
        line(1.0, "instructions", 6),
        '{"interval" : 1.000000000, "metric-value" : "0.999983", "metric-unit" : "stalled cycles per insn"}',
        line(1.0, "cycles", 4),
        '{"interval" : 1.000000000, "metric-value" : "0.5", "metric-unit" : "(null)"}',
    ]
    done = post_process(data_dir, records)
    assert done.rc == 0
    assert done.log == post_process(data_dir, [records[0], records[2]]).log
    assert done.metrics.types == {"instructions", "cycles", "ipc", "instructions-sec", "cycles-sec", "counter-running"}
    assert done.metrics.samples("ipc") == [(1, 1000, 1.5)]


@pytest.mark.parametrize("key", ["aggregate-number", "counters"])
def test_the_number_of_counters_is_known_by_both_its_names(key, data_dir):
    record = line(1.0, "instructions", 6, socket="S1").replace('"counter-value"', f'"{key}" : 32, "counter-value"')
    done = post_process(data_dir, [record])
    assert done.rc == 0
    assert done.metrics.samples("instructions", package="1") == [(1, 1000, 6)]


def test_the_date_that_perf_6_1_begins_with_is_no_loss(data_dir):
    done = post_process(data_dir, ["# started on Sun Nov 29 23:19:44 2026", "", line(1.0, "cycles", 4)])
    assert done.rc == 0
    assert done.metrics.samples("cycles") == [(1, 1000, 4)]


def test_units_are_perfs_own(data_dir):
    records = [
        line(1.0, "task-clock", "2001.550000", unit="msec"),
        line(1.0, "power/energy-pkg/", "41.250000", unit="Joules"),
        line(1.0, "cycles", 4),
        line(1.0, "instructions", 4),
    ]
    done = post_process(data_dir, records)
    assert done.rc == 0
    assert done.metrics.samples("task-clock") == [(1, 1000, 2001.55)]
    assert done.metrics.samples("power/energy-pkg/") == [(1, 1000, 41.25)]
    assert done.table["task-clock"][0] == "msec"
    assert done.table["power/energy-pkg/"][0] == "Joules"
    assert done.table["instructions-sec"][0] == "MIPS"
    assert done.table["cycles-sec"][0].startswith("GHz")
    assert done.table["counter-running"][0] == "%"


def test_a_counter_with_decimals_is_published_with_them(data_dir):
    """Only derived values are rounded."""
    done = post_process(data_dir, [line(1.0, "task-clock", "100212.126519", unit="msec")])
    assert done.metrics.samples("task-clock") == [(1, 1000, 100212.126519)]


# ---- spellings of events


@pytest.mark.parametrize(
    ("spelled", "metric_type"),
    [
        ("cpu-cycles", "cycles"),
        ("branch-instructions", "branches"),
        ("cs", "context-switches"),
        ("migrations", "cpu-migrations"),
        ("cpu-cycles:u", "cycles:u"),
        ("cycles:ukP", "cycles:ukP"),
        ("cpu/cycles/", "cycles"),
        ("cpu/cpu-cycles/", "cycles"),
        ("cycles [cpu]", "cycles"),
        ("armv8_pmuv3_0/cycles/", "cycles"),
        ("armv8_cortex_a72/cycles/", "cycles"),
        ("cpu/event=0x87,umask=0x01/", "cpu/event=0x87,umask=0x01/"),
        ("cpu/event=0x87,umask=0x01/u", "cpu/event=0x87,umask=0x01/u"),
        ("cpu/de_no_dispatch_per_slot.no_ops_from_frontend,cmask=0x6/", "de_no_dispatch_per_slot.no_ops_from_frontend,cmask=0x6"),
        ("sched:sched_switch", "sched:sched_switch"),
        ("sched:sched_switch:u", "sched:sched_switch:u"),
        ("sched:sched_switch [tracepoint]", "sched:sched_switch"),
        ("syscalls:sys_enter_read", "syscalls:sys_enter_read"),
        ("msr/tsc/", "msr/tsc/"),
        ("r01c2", "r01c2"),
        ("exc_taken", "exc_taken"),
        ("inst_retired.any", "inst_retired.any"),
    ],
)
def test_an_event_is_published_under_its_common_name(spelled, metric_type, data_dir):
    done = post_process(data_dir, run_of({spelled: 8}))
    assert done.rc == 0
    assert metric_type in done.metrics.types
    assert done.metrics.samples(metric_type) == [(1, 1000, 8)]
    assert done.metrics.samples("counter-running", counter=metric_type) == [(1, 1000, 100)]
    own = {"counter-running", "cycles-sec", "context-switches-sec", "cpu-migrations-sec"}
    assert done.metrics.types - own == {metric_type}


def test_aliases_feed_the_derived_metrics(data_dir):
    counts = {"cpu-cycles": 4, "instructions": 6, "branch-instructions": 10, "branch-misses": 1, "cs": 7, "migrations": 3}
    done = post_process(data_dir, run_of(counts))
    assert done.metrics.samples("ipc") == [(1, 1000, 1.5)]
    assert done.metrics.samples("branch-miss-rate") == [(1, 1000, 0.1)]
    assert done.metrics.samples("context-switches-sec") == [(1, 1000, 7)]
    assert done.metrics.samples("cpu-migrations-sec") == [(1, 1000, 3)]


def test_ipc_of_an_arm_machine_is_found(data_dir):
    done = post_process(data_dir, run_of({"armv8_pmuv3_0/instructions/": 6, "armv8_pmuv3_0/cycles/": 4}))
    assert done.metrics.samples("ipc") == [(1, 1000, 1.5)]


def test_an_event_asked_for_twice_is_published_once_and_the_log_says_so(data_dir):
    """The second count ran all the time, the first was scaled up from four fifths of it."""
    records = [
        *block(1.0, {"instructions": 6000}), line(1.0, "cycles", 3000, running=80.0), line(1.0, "cpu-cycles", 4000),
        *block(2.0, {"instructions": 6000}), line(2.0, "cycles", 8000), line(2.0, "cpu-cycles", 8001),
    ]  # fmt: skip
    records[1] = records[1].replace('"event-runtime" : 1000000000', '"event-runtime" : 800000000')
    done = post_process(data_dir, records)
    assert done.rc == 0
    assert done.metrics.samples("cycles") == [(1, 1000, 4000), (1001, 2000, 8000)]
    assert done.metrics.samples("ipc") == [(1, 1000, 1.5), (1001, 2000, 0.75)]
    assert done.metrics.samples("counter-running", counter="cycles") == [(1, 2000, 100)]
    assert "NOTE: perf-stat: counted more than once, as the event was asked for more than once" in done.log
    assert "cycles: 3000, cycles: 8001" in done.log


def test_two_counts_of_one_event_that_contradict_each_other_are_no_metric(data_dir):
    done = post_process(data_dir, [*block(1.0, {"cycles": 4_000_000, "instructions": 6}), line(1.0, "cycles", 8_000_000)])
    assert done.rc == 1
    assert done.metrics.types == {"instructions", "instructions-sec", "counter-running"}
    assert "WARNING: perf-stat: counted more than once, with values that contradict each other: none is published" in done.log
    assert "cycles: 4000000, 8000000" in done.log


# ---- modifiers


def test_the_unmodified_pair_wins_over_a_modified_one(data_dir):
    done = post_process(data_dir, run_of({"instructions:u": 1, "cycles:u": 100, "instructions": 6, "cycles": 4}))
    assert done.metrics.places("ipc") == [{}]
    assert done.metrics.samples("ipc") == [(1, 1000, 1.5)]
    assert done.metrics.samples("cycles:u") == [(1, 1000, 100)]
    assert done.metrics.samples("cycles") == [(1, 1000, 4)]
    assert done.metrics.samples("cycles-sec") == [(1, 1000, 4e-09)]


@pytest.mark.parametrize(
    "counts",
    [
        {"instructions:u": 6, "cycles:u": 4},
        {"instructions:u": 6, "instructions:k": 60, "cycles:u": 4},
        {"instructions:u": 6, "cycles": 400, "cycles:u": 4},
        {"cpu/instructions/u": 6, "cpu/cycles/u": 4},
    ],
    ids="+".join,
)
def test_ipc_takes_the_one_modifier_that_both_sides_share(counts, data_dir):
    done = post_process(data_dir, run_of(counts))
    assert done.rc == 0
    assert done.metrics.samples("ipc") == [(1, 1000, 1.5)]
    assert done.metrics.samples("cycles:u") == [(1, 1000, 4)]


@pytest.mark.parametrize(
    "counts",
    [
        {"instructions:u": 6, "cycles:u": 4, "instructions:k": 60, "cycles:k": 50},
        {"instructions:u": 6, "cycles:k": 4},
        {"instructions": 6, "cycles:u": 4},
        {"instructions:u": 6, "cycles": 4},
    ],
    ids="+".join,
)
def test_an_ambiguous_ipc_is_not_published_and_the_log_says_so(counts, data_dir):
    done = post_process(data_dir, run_of(counts))
    assert done.rc == 0
    assert "ipc" not in done.metrics.types
    assert "ipc" in done.log
    assert set(counts) <= done.metrics.types


# ---- several core types


def test_each_core_type_of_a_hybrid_machine_is_a_series(data_dir):
    counts = {"cpu_core/cycles/": 4, "cpu_atom/cycles/": 10, "cpu_core/instructions/": 6, "cpu_atom/instructions/": 5}
    done = post_process(data_dir, run_of(counts))
    assert done.rc == 0
    assert done.metrics.places("cycles") == [{"device": "cpu_atom"}, {"device": "cpu_core"}]
    assert done.metrics.samples("cycles", device="cpu_core") == [(1, 1000, 4)]
    assert done.metrics.samples("cycles", device="cpu_atom") == [(1, 1000, 10)]
    assert done.metrics.samples("ipc", device="cpu_core") == [(1, 1000, 1.5)]
    assert done.metrics.samples("ipc", device="cpu_atom") == [(1, 1000, 0.5)]
    assert done.metrics.samples("cycles-sec", device="cpu_atom") == [(1, 1000, 1e-08)]
    assert not {name for name in done.metrics.types if "/" in name}


@pytest.mark.parametrize("spelling", ["{pmu}/{event}/", "{event} [{pmu}]"])
def test_the_other_core_types_uncounted_events_are_no_loss_per_cpu(spelling, data_dir):
    write_topology(data_dir, FOUR_CPUS)
    records = []
    for second, (core, atom) in enumerate([(4, 10), (8, 20)], 1):
        for event in ("cycles", "instructions"):
            for pmu, on_cpu0, on_cpu1 in (("cpu_core", core, "<not counted>"), ("cpu_atom", "<not counted>", atom)):
                name = spelling.format(pmu=pmu, event=event)
                records += [line(float(second), name, on_cpu0, cpu="0"), line(float(second), name, on_cpu1, cpu="1")]
    done = post_process(data_dir, records)
    assert done.rc == 0
    assert "WARNING" not in done.log
    assert len(done.metrics.places("cycles")) == 2
    assert done.metrics.samples("cycles", device="cpu_core", **CPU0) == [(1, 1000, 4), (1001, 2000, 8)]
    assert done.metrics.samples("cycles", device="cpu_atom", **CPU1) == [(1, 1000, 10), (1001, 2000, 20)]
    assert done.metrics.samples("ipc", device="cpu_core", **CPU0) == [(1, 2000, 1)]
    assert len(done.metrics.places("ipc")) == 2


def test_software_events_of_a_hybrid_machine_belong_to_no_core_type(data_dir):
    done = post_process(data_dir, run_of({"cpu_core/cycles/": 4, "cpu_atom/cycles/": 10, "context-switches": 6}))
    assert done.metrics.samples("context-switches-sec") == [(1, 1000, 6)]


def test_without_a_second_core_type_that_counted_there_is_no_device(data_dir):
    of_core = {"cpu_core/cycles/": 4, "cpu_core/instructions/": 6}
    counts = {**of_core, "cpu_atom/cycles/": "<not counted>", "cpu_atom/instructions/": "<not counted>"}
    done = post_process(data_dir, run_of(counts, counts))
    assert done.rc == 0
    assert done.metrics.places("cycles") == [{}]
    assert done.metrics.samples("ipc") == [(1, 2000, 1.5)]


def test_the_clusters_of_an_arm_machine_are_devices_not_instances(data_dir):
    done = post_process(data_dir, run_of({"armv8_cortex_a53/cycles/": 4, "armv8_cortex_a72/cycles/": 10}))
    assert done.metrics.places("cycles") == [{"device": "armv8_cortex_a53"}, {"device": "armv8_cortex_a72"}]


# ---- numbered instances of a PMU


def test_numbered_instances_of_an_uncore_pmu_are_summed_in_each_place(data_dir):
    write_topology(data_dir, FOUR_CPUS)
    read, write = "uncore_imc_{}/cas_count_read/", "uncore_imc_{}/cas_count_write/"
    records = [
        line(1.0, read.format(0), "1.250000", unit="MiB", cpu="0"), line(1.0, read.format(0), "10.000000", unit="MiB", cpu="1"),
        line(1.0, read.format(1), "2.500000", unit="MiB", cpu="0"), line(1.0, read.format(1), "20.000000", unit="MiB", cpu="1"),
        line(1.0, read.format(11), "3.000000", unit="MiB", cpu="0"), line(1.0, read.format(11), "30.500000", unit="MiB", cpu="1"),
        line(1.0, write.format(0), "7.000000", unit="MiB", cpu="0"), line(1.0, write.format(0), "8.000000", unit="MiB", cpu="1"),
    ]  # fmt: skip
    done = post_process(data_dir, records)
    assert done.rc == 0
    assert done.metrics.types == {"uncore_imc/cas_count_read/", "uncore_imc/cas_count_write/", "counter-running"}
    assert done.metrics.samples("uncore_imc/cas_count_read/", **CPU0) == [(1, 1000, 6.75)]
    assert done.metrics.samples("uncore_imc/cas_count_read/", **CPU1) == [(1, 1000, 60.5)]
    assert done.metrics.samples("uncore_imc/cas_count_write/", **CPU0) == [(1, 1000, 7)]
    assert done.table["uncore_imc/cas_count_read/"][0] == "MiB"


@pytest.mark.parametrize("uncounted", [0, 1, 2])
def test_a_sum_over_instances_with_one_uncounted_is_no_sample(uncounted, data_dir):
    records = []
    for second in (1, 2, 3):
        for instance in (0, 1, 2):
            value = "<not counted>" if (second, instance) == (2, uncounted) else 100 * second + instance
            records.append(line(float(second), f"uncore_imc_{instance}/cas_count_read/", value))
    done = post_process(data_dir, records)
    assert done.rc == 0
    assert done.metrics.samples("uncore_imc/cas_count_read/") == [(1, 1000, 303), (1001, 3000, 903)]


def test_the_same_event_of_an_instance_twice_is_summed_once(data_dir):
    names = ["uncore_imc_0/clockticks/", "uncore_imc_1/clockticks/", "uncore_imc_0/clockticks/", "uncore_imc_1/clockticks/"]
    done = post_process(data_dir, [line(1.0, name, count) for name, count in zip(names, (500, 700, 501, 702))])
    assert done.rc == 0
    assert done.metrics.samples("uncore_imc/clockticks/") == [(1, 1000, 1200)]
    assert "uncore_imc/clockticks/: 1203" in done.log


# ---- places


@pytest.mark.parametrize(
    ("key", "where", "names"),
    [
        ("socket", "S0", {"package": "0"}),
        ("socket", "S12", {"package": "12"}),
        ("die", "S1-D3", {"package": "1", "die": "3"}),
        ("core", "S1-D0-C127", {"package": "1", "die": "0", "core": "127"}),
        ("core", "S10-D11-C12", {"package": "10", "die": "11", "core": "12"}),
        ("node", "N0", {"node": "0"}),
        ("node", "N15", {"node": "15"}),
    ],
)
def test_places_become_breakouts(key, where, names, data_dir):
    done = post_process(data_dir, run_of({"instructions": 6, "cycles": 4}, **{key: where}))
    assert done.rc == 0
    assert done.metrics.places("ipc") == [names]
    assert done.metrics.places("cycles") == [names]
    assert done.metrics.samples("ipc", **names) == [(1, 1000, 1.5)]


def test_a_cpu_is_broken_out_by_package_die_core_and_thread(data_dir):
    write_topology(data_dir, FOUR_CPUS)
    records = [record for cpu, cycles in enumerate((10, 20, 30, 40)) for record in block(1.0, {"cycles": cycles}, cpu=str(cpu))]
    done = post_process(data_dir, records)
    assert [done.metrics.values("cycles", **names) for names in (CPU0, CPU1, CPU2, CPU3)] == [[10], [20], [30], [40]]
    assert len(done.metrics.places("cycles")) == 4


def test_cpu_numbers_of_several_digits_find_their_topology(data_dir):
    write_topology(data_dir, {1: (0, 0, 1, "1"), 11: (0, 0, 11, "11"), 111: (3, 1, 47, "47,111")})
    done = post_process(data_dir, run_of({"cycles": 5}, cpu="111"))
    assert done.metrics.samples("cycles", package="3", die="1", core="47", thread="1", cpu="111") == [(1, 1000, 5)]


def test_a_cpu_outside_the_topology_is_published_with_its_number(data_dir):
    write_topology(data_dir, FOUR_CPUS)
    done = post_process(data_dir, [line(1.0, "cycles", 5, cpu="0"), line(1.0, "cycles", 7, cpu="9")])
    assert done.metrics.samples("cycles", **CPU0) == [(1, 1000, 5)]
    (found,) = [names for names in done.metrics.places("cycles") if names["cpu"] == "9"]
    assert done.metrics.samples("cycles", **found) == [(1, 1000, 7)]


def test_without_a_topology_cpus_are_published_by_number(data_dir):
    done = post_process(data_dir, [line(1.0, "cycles", 5, cpu="0"), line(1.0, "cycles", 7, cpu="1")])
    assert sorted(names["cpu"] for names in done.metrics.places("cycles")) == ["0", "1"]
    assert sorted(done.metrics.values("cycles", **names)[0] for names in done.metrics.places("cycles")) == [5, 7]


@pytest.mark.parametrize("first", ["total", "parts"])
def test_a_total_is_never_published_beside_its_parts(first, data_dir):
    """A query without breakout adds both up."""
    write_topology(data_dir, FOUR_CPUS)
    total, parts = block(1.0, {"cycles": 30}), [line(1.0, "cycles", 10, cpu="0"), line(1.0, "cycles", 20, cpu="1")]
    done = post_process(data_dir, [*total, *parts] if first == "total" else [*parts, *total])
    assert done.rc == 1
    assert done.log
    assert len({tuple(sorted(names)) for names in done.metrics.places("cycles")}) == 1
    assert sum(done.metrics.values("cycles", **names)[0] for names in done.metrics.places("cycles")) == 30


def test_aggregations_of_two_kinds_are_never_published_beside_each_other(data_dir):
    records = [line(1.0, "cycles", 10, socket="S0"), line(1.0, "cycles", 10, node="N0"), line(2.0, "cycles", 10, die="S0-D0")]
    done = post_process(data_dir, records)
    assert done.rc == 1
    assert done.metrics.places("cycles") == [{"package": "0"}]


# ---- what is printed and left in postprocess/


def test_the_closing_table_tells_what_was_published(data_dir):
    write_topology(data_dir, FOUR_CPUS)
    records = [
        line(float(second), "cycles", cycles, cpu=cpu) for second, cpu, cycles in ((1, "0", 10), (1, "1", 20), (2, "0", 30), (2, "1", 40))
    ]
    done = post_process(data_dir, records)
    assert set(done.table) == {"cycles", "cycles-sec", "counter-running"}
    assert done.table["cycles"] == ("", 2, 4, 25, 10, 40)
    assert done.table["counter-running"] == ("%", 1, 2, 100, 100, 100)
    assert done.out.rstrip("\n").splitlines()[-1].split()[0] in done.table, "the table comes last"


def test_post_process_data_names_the_metric_files(data_dir):
    done = post_process(data_dir, run_of({"instructions": 6, "cycles": 4}))
    (prefix,) = metric_files(data_dir)
    assert without_mark(prefix) == "metric-data-perf-stat"
    assert json.loads((data_dir / "postprocess" / "post-process-data.json").read_text()) == {
        "rickshaw-bench-metric": {"schema": {"version": "2021.04.12"}},
        "tool": "kernel",
        "primary-period": "measurement",
        "primary-metric": "ipc",
        "periods": [{"name": "measurement", "metric-files": [prefix]}],
    }
    assert done.metrics.prefixes == {prefix}


def test_without_ipc_the_primary_metric_is_another_published_type(data_dir):
    done = post_process(data_dir, run_of({"context-switches": 6}))
    summary = json.loads((data_dir / "postprocess" / "post-process-data.json").read_text())
    assert summary["primary-metric"] in done.metrics.types


NOTHING_PUBLISHED = {
    "rickshaw-bench-metric": {"schema": {"version": "2021.04.12"}},
    "tool": "kernel",
    "primary-period": "measurement",
    "periods": [{"name": "measurement", "metric-files": []}],
}


@pytest.mark.parametrize("output", [None, b"", run_of({"cycles": "<not supported>"}), run_of({"cycles": "<not counted>"})])
def test_where_nothing_is_published_no_metric_is_named(output, data_dir):
    if output is not None:
        write_output(data_dir, output)
    done = process(data_dir)
    assert done.rc == 0
    assert done.metrics.prefixes == set()
    assert json.loads((data_dir / "postprocess" / "post-process-data.json").read_text()) == NOTHING_PUBLISHED
    assert done.table == {}


def snapshot(directory):
    """The files of a postprocess directory by name, archives decompressed."""
    return {
        path.name: lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
        for path in (directory / "postprocess").iterdir()
    }


def test_a_second_run_leaves_the_same_bytes_and_nothing_of_the_first(data_dir):
    output = run_of({"instructions": 6, "cycles": 4}, {"instructions": 5, "cycles": 4})
    first = post_process(data_dir, output)
    before = snapshot(data_dir)
    postprocess = data_dir / "postprocess"
    (prefix,) = metric_files(data_dir)
    stale = [
        f"{prefix}.json",  # indexing writes it, and prefers it to the new one
        f"{prefix}-2.csv.xz",
        f"{prefix}-2.json.xz",
        "metric-data-perf-stat-0123456789ab.json.xz",  # of another place where the directory lay
        "metric-data-perf-stat-0123456789ab-2.csv.xz",
        "metric-data-perf-stat.json",  # of former versions
        "metric-data-perf-stat.csv",
        "metric-data-perf-stat-2.csv.xz",
        "metric-data-toplev.json.xz",
    ]
    for name in stale:
        (postprocess / name).write_bytes(b"[]")
    (postprocess / "post-process-output.txt").write_text("of rickshaw\n")

    second = process(data_dir)

    after = snapshot(data_dir)
    assert after.pop("post-process-output.txt") == b"of rickshaw\n"
    assert after == before
    assert sorted(map(without_mark, before)) == [
        "kernel.html", "metric-data-perf-stat.csv.xz", "metric-data-perf-stat.json.xz", "post-process-data.json"
    ]  # fmt: skip
    assert (second.rc, second.out) == (first.rc, first.out)


def test_a_run_with_nothing_to_publish_takes_the_former_metric_files_away(data_dir):
    post_process(data_dir, run_of({"cycles": 4}))
    done = post_process(data_dir, run_of({"cycles": "<not supported>"}))
    assert done.metrics.prefixes == set()


def test_plain_output_and_archive_give_the_same(data_dir):
    output = run_of({"instructions": 6, "cycles": 4}, {"instructions": 5, "cycles": 4})
    post_process(data_dir, output)
    plain = snapshot(data_dir)
    (data_dir / "perf-stat-output.json").unlink()
    post_process(data_dir, output, archive=True)
    assert snapshot(data_dir) == plain


# ---- the command


@pytest.mark.parametrize("name", ["two words", "line\nfeed", "-dash", "ünï", "q'uo\"te", "per%cent"])
def test_the_directory_may_have_any_name(name, tmp_path, run_script):
    directory = tmp_path / name
    directory.mkdir()
    write_output(directory, run_of({"instructions": 6, "cycles": 4}))
    write_clock(directory, 0, 1)
    done = run_script("kerneltools-post-process", directory)
    assert (done.rc, done.err) == (0, "")
    assert read_back(directory).samples("ipc") == [(1, 1000, 1.5)]


def test_without_an_argument_it_works_where_it_stands(data_dir, run_script):
    write_output(data_dir, run_of({"instructions": 6, "cycles": 4}))
    done = run_script("kerneltools-post-process")
    assert (done.rc, done.err) == (0, "")
    assert "ipc" in read_back(data_dir).types
    assert sorted(path.name for path in data_dir.iterdir()) == ["perf-stat-output.json", "postprocess"]


def test_rickshaws_own_output_file_in_postprocess_stays(data_dir, run_script):
    (data_dir / "postprocess").mkdir()
    (data_dir / "postprocess" / "post-process-output.txt").write_text("")
    write_output(data_dir, run_of({"cycles": 4}))
    done = run_script("kerneltools-post-process")
    assert done.rc == 0
    assert (data_dir / "postprocess" / "post-process-output.txt").exists()


def test_help_is_no_error(data_dir, run_script):
    done = run_script("kerneltools-post-process", "--help")
    assert (done.rc, done.err) == (0, "")
    assert "DIR" in done.out
    assert not (data_dir / "postprocess").exists()


@pytest.mark.parametrize("arguments", [["--frequency=3"], ["-x"], ["one", "two"], ["no-such-directory"], ["perf-stat-output.json"]])
def test_wrong_usage_is_one_line_and_exit_2(arguments, data_dir, run_script):
    write_output(data_dir, run_of({"cycles": 4}))
    done = run_script("kerneltools-post-process", *arguments)
    assert done.rc == 2
    assert len(done.err.splitlines()) == 1
    assert done.err.startswith("ERROR: ")
    assert arguments[0] in done.err
    assert not (data_dir / "postprocess").exists()


def test_a_postprocess_that_is_no_directory_is_an_error(data_dir, run_script):
    write_output(data_dir, run_of({"cycles": 4}))
    (data_dir / "postprocess").write_text("in the way\n")
    done = run_script("kerneltools-post-process")
    assert done.rc == 1
    assert len(done.err.splitlines()) == 1
    assert done.err.startswith("ERROR: ")
    assert (data_dir / "postprocess").read_text() == "in the way\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_postprocess_that_may_not_be_written_is_an_error(data_dir, run_script):
    write_output(data_dir, run_of({"cycles": 4}))
    (data_dir / "postprocess").mkdir()
    (data_dir / "postprocess").chmod(0o555)
    done = run_script("kerneltools-post-process")
    assert done.rc == 1
    assert "Traceback" not in done.out + done.err


def test_an_output_that_cannot_be_read_is_a_loss(data_dir, run_script):
    (data_dir / "perf-stat-output.json.xz").symlink_to(data_dir / "gone")
    write_clock(data_dir, 0, 1)
    done = run_script("kerneltools-post-process")
    assert done.rc == 1
    assert "perf-stat" in done.out
    assert "Traceback" not in done.out + done.err
    assert json.loads((data_dir / "postprocess" / "post-process-data.json").read_text()) == NOTHING_PUBLISHED
