# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""Several records of one event: units of a PMU add up, an event that was asked for again does not, and no order of records decides.

The outputs are in the forms that perf 6.1, 6.12 and 7.2 give them for the same list of events.
"""

import itertools
import random
import re

import pytest
from perf_output import block, line, post_process, run_of

from kerneltools import log
from kerneltools.perf_event import family_of


def asked_for(directory, events):
    (directory / "kerneltools-environment.txt").write_text(f"perf_stat_events_counted={events}\n")


def record(event, value, runtime=1_000_000_000, interval=1.0, **place):
    return line(interval, event, value, **place).replace('"event-runtime" : 1000000000', f'"event-runtime" : {runtime}')


# ---- which PMUs are units of one


@pytest.mark.parametrize(
    ("pmu", "family"),
    [
        ("uncore_imc_0", "uncore_imc"), ("uncore_imc_11", "uncore_imc"), ("uncore_imc_free_running_0", "uncore_imc_free_running"),
        ("uncore_m2m_3", "uncore_m2m"), ("arm_cmn_0", "arm_cmn"), ("arm_spe_0", "arm_spe"), ("arm_dsu_1", "arm_dsu"),
        ("smmuv3_pmcg_100020", "smmuv3_pmcg"), ("smmuv3_pmcg_27ffe0202", "smmuv3_pmcg"), ("smmuv3_pmcg_3ff", "smmuv3_pmcg"),
        ("dmc620_10008c000", "dmc620"), ("some_pmu_cafe", "some_pmu"), ("nvidia_scf_pmu_0", "nvidia_scf_pmu"),
        ("hisi_sccl1_ddrc0", "hisi_sccl_ddrc"), ("hisi_sccl3_hha1", "hisi_sccl_hha"), ("hisi_sccl1_l3c10", "hisi_sccl_l3c"),
        ("hisi_sicl0_pa1", "hisi_sicl_pa"), ("hisi_sccl1_l3c0_1", "hisi_sccl_l3c"), ("imx8_ddr0", "imx8_ddr"),
        ("cxl_pmu_mem0.0", "cxl_pmu_mem"), ("cxl_pmu_mem12.1", "cxl_pmu_mem"), ("i915_0000_03_00.0", "i915"),
    ],
)  # fmt: skip
def test_units_are_of_one_family(pmu, family):
    assert family_of(pmu) == family


@pytest.mark.parametrize(
    "pmu",
    ["cpu", "cpu_core", "cpu_atom", "cpum_cf", "amd_df", "amd_l3", "uncore_cha", "hv_24x7", "i915", "msr", "power", "cstate_core",
     "armv8_pmuv3_0", "armv8_cortex_a72", "apple_icestorm_pmu", "smmuv3", "ibs_op"],
)  # fmt: skip
def test_an_end_that_reads_like_a_number_is_part_of_the_name(pmu):
    assert family_of(pmu) == pmu


@pytest.mark.parametrize("form", ["{event} [{pmu}]", "{pmu}/{event}/"], ids=["6.12", "7.2"])
@pytest.mark.parametrize(
    ("event", "pmus"),
    [
        ("tlb_miss", ["smmuv3_pmcg_100140202", "smmuv3_pmcg_27ffe0202", "smmuv3_pmcg_27ffe0402"]),
        ("flux_rd", ["hisi_sccl1_ddrc0", "hisi_sccl1_ddrc1", "hisi_sccl3_ddrc0"]),
    ],
)
def test_units_numbered_in_hex_give_one_total_under_the_name_asked_for(form, event, pmus, data_dir):
    asked_for(data_dir, event)
    records = [line(1.0, form.format(event=event, pmu=pmu), count, cpu="0") for pmu, count in zip(pmus, (100, 20, 3))]
    done = post_process(data_dir, records)
    assert done.rc == 0
    assert done.metrics.types == {event, "counter-running"}
    assert done.metrics.samples(event, cpu="0") == [(1, 1000, 123)]


# ---- whose a name is


def orders(records):
    return list(itertools.permutations(records))


@pytest.mark.parametrize("form", ["cycles [nvidia_scf_pmu_0]", "nvidia_scf_pmu_0/cycles/"], ids=["6.12", "7.2"])
def test_cycles_are_the_cores_wherever_another_pmus_stand_in_the_file(form, data_dir):
    asked_for(data_dir, "cycles,instructions")
    for order in orders([line(1.0, form, 7), line(1.0, "cycles", 400), line(1.0, "instructions", 600)]):
        done = post_process(data_dir, order)
        assert done.rc == 0
        assert done.metrics.samples("cycles") == [(1, 1000, 400)]
        assert done.metrics.samples("nvidia_scf_pmu/cycles/") == [(1, 1000, 7)]
        assert done.metrics.samples("ipc") == [(1, 1000, 1.5)]


def test_cycles_of_another_pmu_alone_are_not_the_machines(data_dir):
    done = post_process(data_dir, [line(1.0, "cycles [nvidia_scf_pmu_0]", 7)])
    assert done.metrics.types == {"nvidia_scf_pmu/cycles/", "counter-running"}


@pytest.mark.parametrize("form", ["clockticks [{}]", "{}/clockticks/"], ids=["6.12", "7.2"])
def test_two_kinds_of_pmu_with_one_name_are_two_metrics_in_any_order(form, data_dir):
    asked_for(data_dir, "clockticks")
    records = [line(1.0, form.format(pmu), count) for pmu, count in (("uncore_imc_0", 10), ("uncore_imc_1", 20), ("uncore_cha_0", 3))]
    for order in orders(records):
        done = post_process(data_dir, order)
        assert done.rc == 0
        assert done.metrics.types == {"uncore_imc/clockticks/", "uncore_cha/clockticks/", "counter-running"}
        assert done.metrics.samples("uncore_imc/clockticks/") == [(1, 1000, 30)]
        assert done.metrics.samples("uncore_cha/clockticks/") == [(1, 1000, 3)]


def test_one_name_of_several_pmus_is_told_apart_by_the_list(data_dir):
    asked_for(data_dir, "uncore_imc/event=0x1,name=X/,uncore_cha/event=0x2,name=X/,cpu/event=0x3,name=X/")
    done = post_process(data_dir, [line(1.0, "X", count) for count in (10, 20, 30)])
    assert done.rc == 0
    assert done.metrics.samples("uncore_imc/X/") == [(1, 1000, 10)]
    assert done.metrics.samples("uncore_cha/X/") == [(1, 1000, 20)]
    assert done.metrics.samples("X") == [(1, 1000, 30)]


def test_a_system_total_without_a_pmu_stays_as_perf_gives_it(data_dir):
    asked_for(data_dir, "clockticks,uncore_cha/clockticks/")
    done = post_process(data_dir, [line(1.0, "clockticks", 33), line(1.0, "uncore_cha/clockticks/", 3)])
    assert done.rc == 0
    assert done.metrics.samples("clockticks") == [(1, 1000, 33)]
    assert done.metrics.samples("uncore_cha/clockticks/") == [(1, 1000, 3)]


# ---- units, or asked for again

TWO_GROUPS = "{uncore_imc/event=0x0,name=CLK/,uncore_imc/event=0x4,name=RD/},{uncore_imc/event=0x0,name=CLK/,uncore_imc/event=0xc,name=WR/}"


@pytest.mark.parametrize(
    "records",
    [
        [record("UNC_X", 3_000_000, 3 * 10**9, cpu="0")],
        [record("UNC_X", count, cpu="0") for count in (1_000_000, 1_500_000, 500_000)],
    ],
    ids=["6.1", "6.12"],
)
def test_units_under_one_name_give_the_systems_total_per_cpu(records, data_dir):
    asked_for(data_dir, "instructions,uncore_imc/event=0x4,umask=0x3,name=UNC_X/")
    done = post_process(data_dir, [record("instructions", 5, cpu="0"), record("instructions", 6, cpu="1"), *records])
    assert done.rc == 0
    assert done.metrics.samples("UNC_X", cpu="0") == [(1, 1000, 3_000_000)]


def test_units_that_perf_7_prints_singly_for_the_system_are_added(data_dir):
    asked_for(data_dir, "hisi_sccl*/event=0x1,name=H/")
    done = post_process(data_dir, [record("H", count) for count in (100, 20, 3)])
    assert done.rc == 0
    assert done.metrics.samples("H") == [(1, 1000, 123)]


def test_units_of_an_event_in_two_groups_are_added_once_per_group(data_dir):
    """As perf 6.12 and 7.2 print them per CPU: the first group of each unit, then the second of each."""
    asked_for(data_dir, TWO_GROUPS)
    first = [record(name, count, cpu="0") for count in (1000, 2000, 3000) for name in ("CLK", "RD")]
    second = [record(name, count, cpu="0") for count in (1001, 2002, 3003) for name in ("CLK", "WR")]
    done = post_process(data_dir, first + second)
    assert done.rc == 0
    assert done.metrics.samples("CLK", cpu="0") == [(1, 1000, 6000)]
    assert done.metrics.samples("RD", cpu="0") == [(1, 1000, 6000)]
    assert done.metrics.samples("WR", cpu="0") == [(1, 1000, 6006)]
    assert "CLK cpu=0: 6006" in done.log


@pytest.mark.parametrize(("inflated", "runtime"), [(2_000_000_000, 2_500_000_000), (1_500_000_000, 2_500_000_000)], ids=["6.1", "6.12"])
def test_of_two_counts_the_one_that_ran_with_its_group_is_taken(inflated, runtime, data_dir):
    """perf adds counters of the second group to the first group's clock; it counted for longer than the rest of that group."""
    asked_for(data_dir, TWO_GROUPS)
    records = [
        record("CLK", inflated, runtime), record("RD", 1_500_000_000, 1_500_000_000),
        record("CLK", 1_000_000_000, 1_500_600_000), record("WR", 1_000_000_000, 1_500_600_000),
    ]  # fmt: skip
    done = post_process(data_dir, records)
    assert done.rc == 1
    assert done.metrics.samples("CLK") == [(1, 1000, 1_000_000_000)]
    assert "WARNING: perf-stat: counted more than once, with values that contradict each other: the one that ran" in done.log
    assert f"CLK: {inflated}, 1000000000" in done.log


def test_of_two_counts_without_a_group_neither_is_guessed(data_dir):
    asked_for(data_dir, "uncore_imc/event=0x0,name=CLK/,uncore_imc/event=0x0,name=CLK/")
    done = post_process(data_dir, [record("CLK", 2_000_000, 5 * 10**9), record("CLK", 1_000_000, 3 * 10**9), record("cs", 1)])
    assert done.rc == 1
    assert "CLK" not in done.metrics.types
    assert "CLK: 2000000, 1000000" in done.log


def test_without_the_list_records_of_one_name_per_cpu_are_not_guessed_at(data_dir):
    done = post_process(data_dir, [record("UNC_X", count, cpu="0") for count in (10, 20, 30)] + [record("cs", 1, cpu="0")])
    assert done.rc == 1
    assert "UNC_X" not in done.metrics.types
    assert "perf_stat_events_counted in the environment file does not tell" in done.log
    assert "UNC_X cpu=0: 10, 20, 30" in done.log


def test_a_lost_line_of_a_unit_costs_that_sum_and_no_other(data_dir):
    asked_for(data_dir, "uncore_imc/event=0x4,name=UNC_X/")
    records = [record("UNC_X", 10 * second + unit, interval=float(second), cpu="0") for second in (1, 2, 3) for unit in (0, 1, 2)]
    records[4] = records[4][:50]
    done = post_process(data_dir, records)
    assert done.rc == 1
    assert done.metrics.samples("UNC_X", cpu="0") == [(1, 1000, 33), (1001, 3000, 93)]
    assert "sums over PMU instances with a part missing are not published (2 times): UNC_X cpu=0: 20, 22" in done.log


def test_a_unit_asked_for_again_by_itself_is_no_contradiction(data_dir):
    asked_for(data_dir, "uncore_imc/clockticks/,uncore_imc_1/clockticks/")
    names = ["uncore_imc_0/clockticks/", "uncore_imc_1/clockticks/", "uncore_imc_1/clockticks/"]
    done = post_process(data_dir, [line(1.0, name, count) for name, count in zip(names, (1000, 2000, 2001))])
    assert done.rc == 0
    assert done.metrics.samples("uncore_imc/clockticks/") == [(1, 1000, 3000)]


# ---- nothing counted is dropped without a word

FORMS = {
    "6.1": (["{family}/{event}/"], ["{event}"]),
    "6.12": (["{family}_{unit}/{event}/"], ["{event} [{family}_{unit}]", "{name}"]),
    "7.2": (["{family}_{unit}/{event}/"], ["{name}"]),
}


def logged(printed):
    """The values that the log names beyond those published."""
    total = 0
    for text in printed.splitlines():
        if re.match("(WARNING|NOTE): perf-stat: (counted more|records that may|sums over|no sum over)", text):
            for values in re.findall(r": ([0-9]+(?:, [0-9]+)*)(?=$|, [^0-9])", text):
                total += sum(map(int, values.split(", ")))
    return total


@pytest.mark.parametrize("seed", range(60))
def test_every_count_is_published_or_named_in_the_log(seed, data_dir, monkeypatch):
    """One interval with any mixture of units, repetitions, kinds of PMU and uncounted records."""
    monkeypatch.setattr(log, "PLACES_SHOWN", 1000)
    rng = random.Random(seed)
    version = rng.choice(sorted(FORMS))
    place = rng.choice([{}, {"cpu": "0"}, {"socket": "S0"}])
    records, asked = [], []
    for family, event in rng.sample([("uncore_imc", "clk"), ("uncore_cha", "clk"), ("uncore_imc", "rd"), ("cpu", "cycles")], 2):
        slashes, plain = FORMS[version]
        form = "{event}" if family == "cpu" else rng.choice(slashes + plain)
        units = 1 if family == "cpu" or "{unit}" not in form + "{name}" else rng.randrange(1, 4)
        for _ in range(rng.choice([1, 1, 2])):
            asked.append(f"{family}/event=1,name={event}/" if form == "{name}" else event if "/" not in form else f"{family}/{event}/")
            for unit in range(units):
                name = form.format(family=family, event=event, unit=unit, name=event)
                value = rng.choice([10**9 + rng.randrange(10**6), rng.randrange(10**12), rng.randrange(10**12)])
                records.append((name, "<not counted>" if rng.random() < 0.1 else value))
    if rng.random() < 0.8:
        asked_for(data_dir, ",".join(asked))
    total = sum(value for _, value in records if value != "<not counted>")
    done = post_process(data_dir, [record(name, value, **place) for name, value in records])
    types = done.metrics.types - {"counter-running", "cycles-sec"}
    published = sum(done.metrics.values(kind, **names)[0] for kind in types for names in done.metrics.places(kind))
    in_log = logged(done.log)
    assert published + in_log == total, done.log


# ---- what is not the machine's


def test_a_cgroups_counts_do_not_pass_for_the_machines(data_dir):
    records = block(1.0, {"cycles": 4, "cs": 9})
    of_cgroup = [text.replace('"counter-value"', '"cgroup" : "/user.slice", "counter-value"') for text in records]
    done = post_process(data_dir, [*of_cgroup, *block(1.0, {"cs": 5})])
    assert done.rc == 1
    assert done.metrics.types == {"context-switches", "context-switches-sec", "counter-running"}
    assert done.metrics.samples("context-switches") == [(1, 1000, 5)]
    assert "records of a cgroup are not the whole machine's: not published (2 times): /user.slice" in done.log


def test_the_root_cgroup_is_the_machine(data_dir):
    records = [text.replace('"counter-value"', '"cgroup" : "/", "counter-value"') for text in block(1.0, {"cs": 9})]
    assert post_process(data_dir, records).metrics.samples("context-switches") == [(1, 1000, 9)]


@pytest.mark.parametrize(
    ("key", "value", "names"),
    [("node", "N-1", {"node": "0"}), ("socket", "S-1", {"package": "0"}), ("die", "S0-D-1", {"package": "0", "die": "0"})],
)
def test_a_place_of_which_the_firmware_says_minus_one_is_the_only_one(key, value, names, data_dir):
    done = post_process(data_dir, run_of({"cs": 5}, **{key: value}))
    assert done.rc == 0
    assert done.metrics.places("context-switches") == [names]


def test_node_minus_one_beside_node_0_is_not_added_to_it(data_dir):
    done = post_process(data_dir, [line(1.0, "cs", 5, node="N0"), line(1.0, "cs", 7, node="N-1")])
    assert done.rc == 1
    assert done.metrics.samples("context-switches", node="0") == [(1, 1000, 5)]
    assert "cannot be attributed to a place of this aggregation: node=N-1" in done.log
