# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""Where perf may not open a file for each event and CPU, what fits is counted, by importance, and what that costs is said."""

import os

import pytest
from collection import calling_script, counted_events, events_of, lines_with, played, recorded, split_list, wait_until, warnings, watched
from conftest import start_time
from test_start import failed, machine

QUICK = ["--subtools=perf-stat", "--interval=0.05"]
OUTPUT = "perf-stat-output.json"

# the events of the catalogue's first five metrics; the sixth, of branches, would need two more
FIRST_EIGHT = (
    "{instructions,cycles,L1-icache-load-misses},{cache-references,cache-misses,L1-dcache-load-misses},{LLC-load-misses,LLC-loads}"
)


def start(run_script, *arguments, **options):
    done = run_script("kerneltools-start", *QUICK, *arguments, **options)
    assert (done.rc, done.err) == (0, "")


def test_what_fits_is_counted_and_the_least_important_metrics_are_named(run_script, data_dir, stand_in, tmp_path):
    """18 events on 64 CPUs: 18 * 64 and 32 for the rest is 1184."""
    calls = played(stand_in, tmp_path, most=9)
    system, processes = machine(tmp_path, cpus=64)
    caller = calling_script(tmp_path / "caller", "ulimit -Sn 60; ulimit -Hn 600")
    done = run_script(caller, *QUICK, env={"KERNELTOOLS_SYSFS": system, "KERNELTOOLS_PROCFS": processes})
    assert (done.rc, done.err) == (0, "")
    assert calls.collected_events() == FIRST_EIGHT
    assert {noted["open files"] for arguments, noted in calls.all() if arguments[0] == "stat"} == {"600"}
    dropped, lost = warnings(data_dir)
    assert dropped == (
        "WARNING: perf-stat: branch-misses, branches, dTLB-load-misses, dTLB-loads, iTLB-load-misses, iTLB-loads, context-switches, "
        "cpu-migrations, stalled-cycles-backend, stalled-cycles-frontend: dropped: "
        "too many open files: the limit is 600 (ulimit -Hn), 1184 would do for all of it"
    )
    assert lost == (
        "WARNING: perf-stat: without these there is no branch-miss-rate, dtlb-miss-rate, itlb-miss-rate, backend-stall-rate, "
        "frontend-stall-rate, context-switches-sec, cpu-migrations-sec"
    )


@pytest.mark.parametrize("most", range(1, 18))
def test_the_list_that_is_launched_is_one_that_was_seen_to_open(most, run_script, data_dir, stand_in, tmp_path):
    calls = played(stand_in, tmp_path, most=most, collection="time.sleep(30)")
    done = run_script("kerneltools-start", *QUICK)
    if most == 1:  # ipc, the most important, needs two
        failed(done, "too many open files: the limit is ")
        assert calls.collections() == []
        return
    assert (done.rc, done.err) == (0, "")
    launched = calls.collected_events()
    assert launched in [events_of(arguments) for arguments in calls.trials()]
    assert most - 1 <= len(counted_events(launched)) <= most, "no metric needs more than two of its own"
    assert len(calls.trials()) <= 9


def test_a_limit_that_is_met_after_an_unknown_event_is_found_counts_too(run_script, data_dir, stand_in, tmp_path):
    """perf reads the whole list before it opens anything: its halves fit."""
    calls = played(stand_in, tmp_path, unknown=["nosuch"], most=9)
    start(run_script, "--perf-stat-events=default,nosuch")
    assert calls.collected_events() == FIRST_EIGHT
    assert lines_with(warnings(data_dir), "perf-stat: nosuch: dropped: unknown event")
    assert lines_with(warnings(data_dir), "branch-misses, branches, dTLB-load-misses", "too many open files")


def test_events_that_no_metric_needs_go_first_the_last_of_them_before_the_others(run_script, data_dir, stand_in, tmp_path):
    calls = played(stand_in, tmp_path, most=4)
    start(run_script, "--perf-stat-events=page-faults,cpu-clock,cycles:u,branches,instructions:u,alignment-faults")
    assert split_list(calls.collected_events()) == ["page-faults", "cpu-clock", "cycles:u", "instructions:u"]
    (dropped,) = lines_with(warnings(data_dir), "too many open files")
    assert dropped.startswith("WARNING: perf-stat: branches, alignment-faults: dropped: ")


def test_what_is_not_supported_takes_no_files(run_script, data_dir, stand_in, tmp_path):
    """A machine without a PMU: two events of the default list are left, and there is room for one."""
    calls = played(stand_in, tmp_path, supported=["context-switches", "cpu-migrations"], most=1)
    start(run_script)
    assert calls.collected_events() == "context-switches"
    assert lines_with(warnings(data_dir), "perf-stat: cpu-migrations: dropped: too many open files")
    assert lines_with(warnings(data_dir), "instructions, cycles,", "dropped: <not supported>")


@pytest.mark.parametrize("names", ["context-switches,cpu-migrations,page-faults,cpu-clock", "{page-faults,context-switches},cpu-clock"])
def test_a_perf_that_goes_on_without_files_does_not_pass_events_for_unsupported(names, run_script, data_dir, stand_in, tmp_path):
    """perf 7 prints <not supported> for what it could not open, exits 0, and tells the reason with -v only."""
    calls = played(stand_in, tmp_path, most=2, skips=1)
    start(run_script, "--perf-stat-events=" + names)
    kept = counted_events(calls.collected_events())
    assert kept == sorted({"context-switches", "cpu-migrations" if "cpu-migrations" in names else "page-faults"})
    (dropped,) = lines_with(warnings(data_dir), "dropped")
    assert "too many open files: the limit is " in dropped
    assert "not supported" not in dropped


def test_what_is_supported_is_not_left_out_for_what_is_not(run_script, data_dir, stand_in, tmp_path):
    """A perf that is short of files before it finds that 16 of the 18 are not supported; the two left are the least important."""
    calls = played(stand_in, tmp_path, supported=["context-switches", "cpu-migrations"], most=9, names_count=1, leader="exit")
    start(run_script)
    assert calls.collected_events() == "context-switches,cpu-migrations"
    assert lines_with(warnings(data_dir), "too many open files") == []
    assert lines_with(warnings(data_dir), "instructions, cycles,", "dropped: <not supported>")


def test_a_users_group_is_shortened_like_the_rest(run_script, data_dir, stand_in, tmp_path):
    calls = played(stand_in, tmp_path, most=3)
    start(run_script, "--perf-stat-events={page-faults,cycles,instructions},{branches,branch-misses}:W")
    assert calls.collected_events() == "{cycles,instructions}"


def test_a_list_that_perf_refuses_though_it_takes_its_parts_is_shortened_too(run_script, data_dir, stand_in, tmp_path):
    """Whatever its reason: what is launched is what it took."""
    calls = played(stand_in, tmp_path, unknown=["nosuch"], most=3)
    program = tmp_path / "played-perf.py"
    program.write_text(program.read_text().replace("Too many events are opened.", "The counters went for a walk."))
    start(run_script, "--perf-stat-events=nosuch,page-faults,cpu-clock,task-clock,minor-faults")
    assert calls.collected_events() == "page-faults,cpu-clock,task-clock"
    assert lines_with(warnings(data_dir), "minor-faults: dropped: The counters went for a walk.")


SOFTWARE = [
    "context-switches", "cpu-migrations", "page-faults", "cpu-clock", "task-clock", "minor-faults", "major-faults", "alignment-faults",
    "emulation-faults", "dummy",
]  # fmt: skip


def test_real_perf_counts_what_fits(run_script, data_dir, stand_in, tmp_path, real_perf):
    """Room for five to eight of ten events, whatever else the shells hold open."""
    cpus = os.sysconf("SC_NPROCESSORS_ONLN")
    calls = watched(stand_in, tmp_path, real_perf)
    caller = calling_script(tmp_path / "caller", f"ulimit -n {14 + 5 * cpus}")
    done = run_script(caller, *QUICK, "--perf-stat-events=" + ",".join(SOFTWARE))
    assert (done.rc, done.err) == (0, "")
    kept = split_list(calls.collected_events())
    assert 0 < len(kept) < 10
    assert kept == SOFTWARE[: len(kept)]
    (warning,) = lines_with(warnings(data_dir), "too many open files")
    assert f"the limit is {14 + 5 * cpus} (ulimit -Hn), {10 * cpus + 32} would do for all of it" in warning
    (collector,) = recorded(data_dir)
    assert wait_until(lambda: (data_dir / OUTPUT).exists() and (data_dir / OUTPUT).stat().st_size > 0)
    assert start_time(collector.pid) == collector.started
    assert run_script("kerneltools-stop").rc == 0
    done = run_script("kerneltools-post-process")
    assert done.rc == 0
    assert {"context-switches-sec", *kept} <= {line.split()[0] for line in done.out.splitlines() if line}


def test_the_limit_that_it_names_would_have_done(run_script, data_dir, stand_in, tmp_path, real_perf):
    cpus = os.sysconf("SC_NPROCESSORS_ONLN")
    calls = watched(stand_in, tmp_path, real_perf)
    caller = calling_script(tmp_path / "caller", f"ulimit -n {10 * cpus + 32}")
    done = run_script(caller, *QUICK, "--perf-stat-events=" + ",".join(SOFTWARE))
    assert (done.rc, done.err) == (0, "")
    assert split_list(calls.collected_events()) == SOFTWARE
    assert lines_with(warnings(data_dir), "too many open files") == []


def test_real_perf_keeps_the_groups_of_what_is_left(run_script, data_dir, stand_in, tmp_path, real_perf, hwshim):
    cpus = os.sysconf("SC_NPROCESSORS_ONLN")
    calls = watched(stand_in, tmp_path, real_perf, LD_PRELOAD=hwshim)
    caller = calling_script(tmp_path / "caller", f"ulimit -n {14 + 6 * cpus}")
    done = run_script(caller, *QUICK)
    assert (done.rc, done.err) == (0, "")
    assert calls.collected_events().startswith("{instructions,cycles")
    assert {"instructions", "cycles", "cache-references", "L1-dcache-load-misses"} <= set(counted_events(calls.collected_events()))
    assert "cpu-migrations" not in counted_events(calls.collected_events())
