# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""perf drops modifiers from some names that it prints; a count of user space must not pass for the machine's."""

import pytest
from perf_output import block, line, post_process, run_of, write_clock

from kerneltools.clock import read_clock
from kerneltools.log import Log
from kerneltools.perf_event import parse_event, split_events


def asked_for(directory, events):
    (directory / "kerneltools-environment.txt").write_text(f"kernel=6.1\nperf_stat_events_counted={events}\n")


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("cycles,instructions:u", ["cycles", "instructions:u"]),
        ("{cycles:u,cpu/event=0x87,umask=0x01/}:W,cs", ["cycles:u", "cpu/event=0x87,umask=0x01/", "cs"]),
        ("mem:0x1000/8:w,mem:0x2000/4:rw,cs", ["mem:0x1000/8:w", "mem:0x2000/4:rw", "cs"]),
        ("sched:sched_switch:u, cs ,{a,b}", ["sched:sched_switch:u", "cs", "a", "b"]),
        ("cpu/a=1,b=2/u,{cpu_core/c/,d}:D", ["cpu/a=1,b=2/u", "cpu_core/c/", "d"]),
        ("", []),
    ],
)
def test_a_list_is_taken_apart_as_perf_does(text, events):
    assert split_events(text) == events


def test_a_name_that_lost_its_modifier_gets_it_back(data_dir):
    asked_for(data_dir, "L1-icache-load-misses:u,instructions")
    done = post_process(data_dir, run_of({"L1-icache-load-misses": 10, "instructions": 1000}))
    assert done.metrics.samples("L1-icache-load-misses:u") == [(1, 1000, 10)]
    assert "l1i-cache-miss-rate" not in done.metrics.types
    assert "share no modifier" in done.out


def test_the_pair_with_one_modifier_gives_its_ratio_though_only_one_name_shows_it(data_dir):
    asked_for(data_dir, "L1-icache-load-misses:u,instructions:u")
    done = post_process(data_dir, run_of({"L1-icache-load-misses": 10, "instructions:u": 1000}))
    assert done.metrics.samples("l1i-cache-miss-rate") == [(1, 1000, 0.01)]


def test_the_same_name_twice_is_told_apart_by_its_order(data_dir):
    """User space first, all second: the second is the machine's and gives the ratio."""
    asked_for(data_dir, "dTLB-load-misses:u,dTLB-loads,dTLB-load-misses")
    records = [
        record
        for second in (1.0, 2.0)
        for record in (
            line(second, "dTLB-load-misses", 10), line(second, "dTLB-loads", 10000), line(second, "dTLB-load-misses", 1000 + second)
        )
    ]  # fmt: skip
    records = [record.replace(".0.000000", ".000000") for record in records]
    done = post_process(data_dir, records)
    assert done.metrics.samples("dTLB-load-misses:u") == [(1, 2000, 10)]
    assert done.metrics.samples("dTLB-load-misses") == [(1, 1000, 1001), (1001, 2000, 1002)]
    assert done.metrics.samples("dtlb-miss-rate") == [(1, 1000, 0.1001), (1001, 2000, 0.1002)]


def test_where_one_of_two_under_a_name_is_lost_neither_is_guessed(data_dir):
    asked_for(data_dir, "sched:sched_switch:u,sched:sched_switch")
    records = [line(second, "sched:sched_switch", count) for second in (1.0, 2.0, 3.0) for count in (0, 50)]
    records[2] = records[2][:40]
    done = post_process(data_dir, records)
    assert done.rc == 1
    assert done.metrics.samples("sched:sched_switch") == [(1, 3000, 50)]
    assert done.metrics.samples("sched:sched_switch:u") == [(1, 3000, 0)]


@pytest.mark.parametrize("name", ["ipc", "counter-running", "context-switches-sec"])
def test_an_event_named_like_a_metric_costs_neither(data_dir, name):
    done = post_process(data_dir, run_of({name: 7, "instructions": 10, "cycles": 20, "context-switches": 5}))
    assert done.rc == 0
    assert done.metrics.samples(f"event:{name}") == [(1, 1000, 7)]
    assert done.metrics.samples("ipc") == [(1, 1000, 0.5)]


def test_software_events_in_pmu_form_are_the_same_events():
    assert parse_event("software/context-switches/").type == "context-switches"
    assert parse_event("tool/duration_time/").type == "duration_time"


def test_a_sum_that_one_instance_never_counts_for_is_said(data_dir):
    done = post_process(data_dir, run_of({"uncore_imc_0/cas/": 100, "uncore_imc_1/cas/": "<not counted>", "cs": 1}))
    assert "uncore_imc/cas/" not in done.metrics.types
    assert "uncore_imc/cas/" in done.out
    assert not any(names.get("counter") == "uncore_imc/cas/" for names in done.metrics.places("counter-running"))


def test_an_earlier_collections_end_does_not_time_a_later_one(data_dir):
    write_clock(data_dir, begin=0, end=100)
    clock = data_dir / "kerneltools-clock.txt"
    clock.write_text(clock.read_text() + "perf-stat begin 1700000101.0\n")
    assert read_clock(data_dir, Log()) == {("perf-stat", "begin"): 1700000101.0}


def test_package_minus_one_is_the_only_package(data_dir):
    done = post_process(data_dir, block(1.0, {"cs": 5}, socket="S-1"))
    assert done.metrics.places("context-switches") == [{"package": "0"}]


# ---- what CPUs call the default list's events


@pytest.mark.parametrize("form", ["{}/{}:u/", "{}/{}/u"], ids=["6.1, 6.12", "7.2"])
@pytest.mark.parametrize("pmus", [("cpu_core", "cpu_atom"), ("apple_firestorm_pmu", "apple_icestorm_pmu")], ids="+".join)
def test_a_modifier_within_the_slashes_costs_no_ratio_of_a_hybrid_machine(form, pmus, data_dir):
    asked_for(data_dir, "{instructions:u,cycles:u}")
    big, small = pmus
    counts = {form.format(big, "instructions"): 4, form.format(small, "instructions"): 1}
    counts.update({form.format(big, "cycles"): 2, form.format(small, "cycles"): 2})
    done = post_process(data_dir, run_of(counts))
    assert done.rc == 0
    assert done.metrics.types == {"instructions:u", "cycles:u", "ipc", "instructions-sec", "cycles-sec", "counter-running"}
    assert done.metrics.samples("ipc", device=big) == [(1, 1000, 2)]
    assert done.metrics.samples("ipc", device=small) == [(1, 1000, 0.5)]


@pytest.mark.parametrize(
    ("metric_type", "numerator", "denominator"),
    [
        ("ipc", "inst_retired", "cpu_cycles"),
        ("ipc", "armv8_pmuv3_0/inst_retired/", "armv8_pmuv3_0/cpu_cycles/"),
        ("ipc", "inst_retired:u", "cpu_cycles:u"),
        ("ipc", "inst_retired", "cycles"),
        ("ipc", "INST_RETIRED.ANY", "CPU_CLK_UNHALTED.THREAD"),
        ("ipc", "cpu/inst_retired.any_p/", "cpu/cpu_clk_unhalted.thread_p/"),
        ("ipc", "inst_retired.any", "cpu_clk_unhalted.core"),
        ("ipc", "ex_ret_instr", "ls_not_halted_cyc"),
        ("branch-miss-rate", "br_mis_pred", "br_retired"),
        ("branch-miss-rate", "br_misp_retired.all_branches", "br_inst_retired.all_branches"),
        ("branch-miss-rate", "ex_ret_brn_misp", "ex_ret_brn"),
        ("cache-miss-rate", "l1d_cache_refill", "l1d_cache"),
        ("l1d-cache-miss-rate", "l1d_cache_refill", "l1d_cache"),
        ("cache-miss-rate", "longest_lat_cache.miss", "longest_lat_cache.reference"),
        ("llc-miss-rate", "ll_cache_miss_rd", "ll_cache_rd"),
        ("dtlb-miss-rate", "l1d_tlb_refill", "l1d_tlb"),
        ("itlb-miss-rate", "l1i_tlb_refill", "l1i_tlb"),
        ("l1i-cache-miss-rate", "l1i_cache_refill", "inst_retired"),
    ],
)
def test_a_ratio_comes_of_what_the_cpus_own_list_calls_the_same(metric_type, numerator, denominator, data_dir):
    done = post_process(data_dir, run_of({numerator: 2, denominator: 8}))
    assert done.rc == 0
    assert done.metrics.samples(metric_type) == [(1, 1000, 0.25)]


def test_an_event_of_the_cpus_own_list_keeps_the_name_that_it_was_asked_by(data_dir):
    done = post_process(data_dir, run_of({"inst_retired": 2, "cpu_cycles": 8, "stall_backend": 4}))
    assert done.metrics.samples("cpu_cycles") == [(1, 1000, 8)]
    assert done.metrics.samples("backend-stall-rate") == [(1, 1000, 50)]
    assert done.metrics.types == {"inst_retired", "cpu_cycles", "stall_backend", "ipc", "backend-stall-rate", "counter-running"}


def test_the_default_lists_own_name_comes_before_another_for_the_same(data_dir):
    for counts in ({"cpu_cycles": 8, "cycles": 4, "instructions": 6}, {"instructions": 6, "cycles": 4, "cpu_cycles": 8}):
        done = post_process(data_dir, run_of(counts))
        assert done.metrics.samples("ipc") == [(1, 1000, 1.5)]


def test_halves_of_a_ratio_under_unknown_names_are_named(data_dir):
    done = post_process(data_dir, run_of({"apple_firestorm_pmu/INST_ALL/": 6, "apple_firestorm_pmu/CORE_ACTIVE_CYCLE/": 4}))
    assert done.rc == 0
    assert "ipc" not in done.metrics.types
    assert "NOTE: perf-stat: no ipc: it is not known that INST_ALL counts instructions and CORE_ACTIVE_CYCLE counts cycles" in done.log


def test_an_uncore_event_of_the_same_name_gives_no_ratio(data_dir):
    done = post_process(data_dir, run_of({"uncore_imc_0/inst_retired/": 6, "cpu_cycles [arm_dsu_0]": 4, "cycles": 2}))
    assert "ipc" not in done.metrics.types


def test_counter_running_of_a_hybrid_machine_has_one_granularity(data_dir):
    records = [
        line(1.0, "cpu_core/cycles/", 4, running=82.0), line(1.0, "cpu_atom/cycles/", 4, running=18.0), line(1.0, "cs", 4)
    ]  # fmt: skip
    done = post_process(data_dir, records)
    assert done.metrics.places("counter-running") == [{"counter": "context-switches"}, {"counter": "cycles"}]
    assert done.metrics.samples("counter-running", counter="cycles") == [(1, 1000, 18)]
