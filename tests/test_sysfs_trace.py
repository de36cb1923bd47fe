# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""sysfs-trace: the kernel's own trace buffer (an instance of it, made for the test), and tracing directories of plain files."""

import os
import subprocess

import pytest
from collection import START_LOG, STOP_LOG, lines_with, log_lines, wait_until, warnings

BENCHMARK = "echo 1 > {0}/tracing_on; sleep 0.1; echo 0 > {0}/tracing_on"
EVENTS_ON = "--sysfs-trace-setup=echo 1 > events/sched/sched_switch/enable"
EVENTS_OFF = "--sysfs-trace-cleanup=echo 0 > events/sched/sched_switch/enable"


def mounts_file(directory, lines):
    """A directory to give as KERNELTOOLS_PROCFS, in which those lines are what is mounted."""
    directory.mkdir()
    (directory / "mounts").write_text("".join(f"{line}\n" for line in lines))
    return directory


def as_in_mounts(path):
    return str(path).replace(" ", "\\040")


class Tracing:
    """A tracing directory, and how start and stop are told of it."""

    def __init__(self, path, procfs):
        self.path, self.env = path, {"KERNELTOOLS_PROCFS": procfs}

    def read(self, name):
        return (self.path / name).read_text()

    def events(self):
        """The events in the buffer."""
        return [line for line in self.read("trace").splitlines() if not line.startswith("#")]

    def benchmark(self):
        """What a benchmark does: tracing on while it works."""
        subprocess.run(["bash", "-c", BENCHMARK.format("."), "benchmark"], cwd=self.path, check=True)


@pytest.fixture(scope="session")
def tracefs(tmp_path_factory):
    """The kernel's tracefs, mounted for the tests in a place whose name holds a blank."""
    place = tmp_path_factory.mktemp("trace fs")
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tracefs", "tracefs", place], capture_output=True, check=False).returncode != 0:
        pytest.skip("tracefs cannot be mounted here")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.fixture
def tracing(tracefs, tmp_path):
    """A trace buffer of the kernel's that is the test's own."""
    instance = tracefs / "instances" / f"kerneltools-test-{os.getpid()}"
    try:
        instance.mkdir()
    except OSError as error:
        pytest.skip(f"no instance of the tracer can be made here: {error}")
    yield Tracing(instance, mounts_file(tmp_path / "proc", [f"tracefs {as_in_mounts(instance)} tracefs rw 0 0"]))
    (instance / "set_event").write_text("\n")
    # perf and others may still look into it
    assert wait_until(lambda: not instance.exists() or removed(instance))


def removed(instance):
    try:
        instance.rmdir()
    except OSError:
        return False
    return True


@pytest.fixture
def plain(tmp_path):
    """plain(mask, {cpu: stats}): a tracing directory of plain files, for machines that are not here."""
    directory = tmp_path / "plain tracing"

    def make(mask, cpus, kind="tracefs"):
        root = directory / "tracing" if kind == "debugfs" else directory
        root.mkdir(parents=True)
        (root / "tracing_on").write_text("1\n")
        (root / "trace").write_text("old\n")
        (root / "tracing_cpumask").write_text(f"{mask}\n")
        for cpu, stats in cpus.items():
            (root / "per_cpu" / f"cpu{cpu}").mkdir(parents=True)
            (root / "per_cpu" / f"cpu{cpu}" / "trace").write_text(f"events of CPU {cpu}\n")
            (root / "per_cpu" / f"cpu{cpu}" / "stats").write_text("".join(f"{key}: {value}\n" for key, value in stats.items()))
        return Tracing(root, mounts_file(tmp_path / "proc", ["proc /proc proc rw 0 0", f"none {as_in_mounts(directory)} {kind} rw 0 0"]))

    return make


@pytest.fixture
def start(run_script):
    return lambda tracing, *arguments: run_script("kerneltools-start", "--subtools=sysfs-trace", *arguments, env=tracing.env)


@pytest.fixture
def stop(run_script):
    return lambda tracing, *arguments: run_script("kerneltools-stop", *arguments, env=tracing.env)


def traces(directory):
    """What was collected, by file name without .xz."""
    return {
        path.name[: -len(".xz")]: subprocess.run(["xz", "-dc", path], capture_output=True, text=True, check=True).stdout
        for path in directory.glob("trace*.xz")
    }


def collected_events(directory):
    return [line for text in traces(directory).values() for line in text.splitlines() if not line.startswith("#")]


# --- the kernel's buffer


def test_the_benchmark_s_events_are_collected_and_nothing_is_left_behind(tracing, start, stop, data_dir):
    (tracing.path / "tracing_on").write_text("1")
    done = start(tracing, EVENTS_ON, EVENTS_OFF)
    assert (done.rc, done.out, done.err) == (0, "", "")
    assert tracing.read("tracing_on") == "0\n", "the benchmark turns it on"
    assert tracing.events() == []
    tracing.benchmark()
    events = tracing.events()
    assert events
    # by hand, stop is called without any parameter
    done = stop(tracing)
    assert (done.rc, done.out, done.err) == (0, "", ""), log_lines(data_dir, STOP_LOG)
    assert sorted(traces(data_dir)) == [f"trace.cpu{cpu}.out" for cpu in range(len(traces(data_dir)))]
    assert len(traces(data_dir)) == os.cpu_count()
    assert sorted(collected_events(data_dir)) == sorted(events)
    assert all("sched_switch:" in event for event in events)
    assert tracing.read("events/sched/sched_switch/enable") == "0\n"
    assert tracing.events() == []
    assert tracing.read("tracing_on") == "0\n"
    assert not list(data_dir.glob("trace*.out"))
    done = stop(tracing)
    assert done.rc == 0
    assert "nothing to do" in log_lines(data_dir, STOP_LOG)[-1]


def test_the_whole_buffer_in_one_file(tracing, start, stop, data_dir):
    start(tracing, EVENTS_ON, "--sysfs-trace-collection=system")
    tracing.benchmark()
    events = tracing.events()
    assert stop(tracing).rc == 0
    assert list(traces(data_dir)) == ["trace.out"]
    assert collected_events(data_dir) == events
    assert traces(data_dir)["trace.out"].startswith("# tracer: nop\n")


def test_events_of_before_are_not_collected(tracing, start, stop, data_dir):
    (tracing.path / "events/sched/sched_switch/enable").write_text("1")
    (tracing.path / "trace_marker").write_text("of before")
    assert tracing.events()
    start(tracing)
    assert tracing.events() == []
    assert stop(tracing).rc == 0
    assert collected_events(data_dir) == []


def test_only_the_cpus_of_the_mask_have_a_file(tracing, start, stop, data_dir):
    start(tracing, "--sysfs-trace-setup=echo 1 > tracing_cpumask", EVENTS_ON, "--sysfs-trace-cleanup=echo 3 > tracing_cpumask")
    tracing.benchmark()
    assert stop(tracing).rc == 0
    assert list(traces(data_dir)) == ["trace.cpu0.out"]


def test_events_that_the_buffer_had_no_room_for_are_said(tracing, start, stop, data_dir):
    start(tracing, "--sysfs-trace-setup=echo 1 > buffer_size_kb", "--sysfs-trace-setup=echo 1 > tracing_on")
    assert lines_with(log_lines(data_dir), "NOTE: sysfs-trace: ", "turned tracing on")
    with (tracing.path / "trace_marker").open("w") as marker:
        for number in range(2000):
            marker.write(f"event number {number}\n")
            marker.flush()
    written = len(tracing.events())
    assert stop(tracing).rc == 0
    assert len(collected_events(data_dir)) == written
    (warning,) = warnings(data_dir, STOP_LOG)
    assert f"the buffer had no room for {2000 - written} events" in warning
    assert "buffer_size_kb" in warning


def test_nothing_is_lost_where_the_copy_fails(tracing, start, stop, data_dir):
    start(tracing, EVENTS_ON, EVENTS_OFF, "--sysfs-trace-collection=system")
    tracing.benchmark()
    events = tracing.events()
    (data_dir / "trace.out").mkdir()
    done = stop(tracing)
    assert done.rc == 1
    assert lines_with(warnings(data_dir, STOP_LOG), "sysfs-trace: ", "trace.out", "left as it is")
    assert tracing.events() == events
    assert tracing.read("events/sched/sched_switch/enable") == "1\n", "cleanup commands may empty the buffer"
    (data_dir / "trace.out").rmdir()
    assert stop(tracing).rc == 0
    assert collected_events(data_dir) == events
    assert tracing.events() == []
    assert tracing.read("events/sched/sched_switch/enable") == "0\n"


# --- commands


def test_commands_run_in_the_tracing_directory_in_order_as_a_shell_reads_them(plain, start, stop, data_dir, tmp_path):
    tracing, notes = plain("1", {0: {}}), tmp_path / "notes"
    command = f'word="a  b"\nprintf "%s\\n" "$PWD" "$word" \'$word\' $((6 * 7)) >> "{notes}"'
    setup = [f"--sysfs-trace-setup={command}", f"--sysfs-trace-setup=echo ${{word-second}} >> '{notes}'"]
    cleanup = [f"--sysfs-trace-cleanup=echo  'c  1' |\ncat >> '{notes}'", f"--sysfs-trace-cleanup=echo 'back\\slash' >> '{notes}'"]
    done = start(tracing, *setup, *cleanup)
    assert done.rc == 0, log_lines(data_dir)
    assert notes.read_text().splitlines() == [str(tracing.path), "a  b", "$word", "42", "second"]
    notes.unlink()
    assert stop(tracing).rc == 0
    assert notes.read_text().splitlines() == ["c  1", "back\\slash"]


def test_a_command_has_no_input_and_its_words_are_in_the_log(plain, start, data_dir):
    tracing = plain("1", {0: {}})
    done = start(tracing, "--sysfs-trace-setup=cat; echo one of its words; echo another >&2")
    assert (done.rc, done.out, done.err) == (0, "", "")
    assert {"one of its words", "another"} <= set(log_lines(data_dir))


def test_what_a_command_leaves_running_holds_neither_start_nor_stop(plain, start, stop, data_dir, tmp_path):
    tracing, pid = plain("1", {0: {}}), tmp_path / "pid"
    try:
        assert start(tracing, f"--sysfs-trace-setup=sleep 30 & echo $! > '{pid}'").seconds < 5
        done = stop(tracing)
        assert (done.rc, warnings(data_dir, STOP_LOG)) == (0, [])
        assert done.seconds < 5
    finally:
        os.kill(int(pid.read_text()), 9)


def test_a_setup_command_that_fails_is_named_and_nothing_is_undone(plain, start, stop, data_dir, tmp_path):
    tracing, notes = plain("1", {0: {}}), tmp_path / "notes"
    done = start(tracing, "--sysfs-trace-setup=echo 4096 > buffer_size_kb", "--sysfs-trace-setup=echo kernel >&2; exit 7",
                 f"--sysfs-trace-setup=touch '{notes}'", f"--sysfs-trace-cleanup=touch '{notes}'")  # fmt: skip
    assert done.rc == 1
    assert done.err == "ERROR: nothing runs: sysfs-trace: setup command failed, exit code 7: echo kernel >&2; exit 7\n"
    assert warnings(data_dir) == ["WARNING: sysfs-trace: skipped: setup command failed, exit code 7: echo kernel >&2; exit 7"]
    assert tracing.read("buffer_size_kb") == "4096\n"
    assert tracing.read("tracing_on") == "0\n"
    assert stop(tracing).rc == 1
    assert not notes.exists()
    # and another try finds nothing in its way
    assert start(tracing).rc == 0
    assert stop(tracing).rc == 0


def test_a_setup_command_that_fails_costs_the_other_subtools_nothing(plain, run_script, stand_in, data_dir):
    stand_in("turbostat", '[[ $1 == --interval ]] || exit 0\ntrap "exit 0" INT\necho x >"${@: -1}"\nwhile sleep 0.02; do :; done')
    tracing = plain("1", {0: {}})
    done = run_script("kerneltools-start", "--subtools=sysfs-trace,turbostat", "--sysfs-trace-setup=false", env=tracing.env)
    assert done.rc == 0
    assert log_lines(data_dir)[-1] == "running: turbostat"
    assert run_script("kerneltools-stop").rc == 0
    assert not lines_with(log_lines(data_dir, STOP_LOG), "sysfs-trace")


def test_a_cleanup_command_that_fails_is_named_and_the_others_run(plain, start, stop, data_dir, tmp_path):
    tracing, notes = plain("1", {0: {}}), tmp_path / "notes"
    start(tracing, "--sysfs-trace-cleanup=exit 3", f"--sysfs-trace-cleanup=echo cleaned >> '{notes}'")
    assert stop(tracing).rc == 1
    assert "WARNING: sysfs-trace: cleanup command failed, exit code 3: exit 3" in warnings(data_dir, STOP_LOG)
    assert notes.read_text() == "cleaned\n"
    assert tracing.read("trace") == ""
    assert "trace.cpu0.out" in traces(data_dir)
    assert stop(tracing).rc == 0, "what could be done is done"
    assert notes.read_text() == "cleaned\n"


# --- other machines


MASKS = {
    "1": [0],
    "f": [0, 1, 2, 3],
    "F,0000000A": [1, 3, 32, 33, 34, 35],
    "80000001": [0, 31],
    "ff00,00000000,00000000": list(range(72, 80)),
    "ffffffff,ffffffff": list(range(64)),
    "0": [],
    "": "none",
    "x": "none",
    "1,": "none",
    "123456789": "none",
}


def test_a_mask_of_cpus_is_read_in_groups_of_32(repo):
    script = """source "$1/common.sh"; source "$1/sysfs-trace.sh"; shift
    for mask; do if cpus_of_mask cpus "$mask"; then echo "${cpus[*]}"; else echo none; fi; done"""
    words = ["bash", "-c", script, "bash", repo / "kerneltools-subtools", *MASKS]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {mask: line if line == "none" else [int(cpu) for cpu in line.split()] for mask, line in zip(MASKS, lines)} == MASKS


def test_a_machine_with_more_than_32_cpus(plain, start, stop, data_dir):
    tracing = plain("1,80000001", {cpu: {"entries": 0} for cpu in range(40)})
    start(tracing)
    assert stop(tracing).rc == 0
    assert traces(data_dir) == {f"trace.cpu{cpu}.out": f"events of CPU {cpu}\n" for cpu in (0, 31, 32)}


def test_cpus_of_the_mask_that_are_not_there_are_no_loss(plain, start, stop, data_dir):
    tracing = plain("ffffffff,ffffffff", {0: {}, 1: {}})
    start(tracing)
    assert stop(tracing).rc == 0
    assert sorted(traces(data_dir)) == ["trace.cpu0.out", "trace.cpu1.out"]


def test_a_cpu_that_has_left_the_mask_keeps_its_events(plain, start, stop, data_dir):
    tracing = plain("1", {0: {"entries": 0}, 1: {"entries": 12}, 2: {"entries": 0}})
    start(tracing)
    assert stop(tracing).rc == 0
    assert sorted(traces(data_dir)) == ["trace.cpu0.out", "trace.cpu1.out"]


def test_a_mask_that_is_none_costs_nothing_that_was_traced(plain, start, stop, data_dir):
    tracing = plain("nonsense", {0: {"entries": 1}, 1: {"entries": 0}})
    start(tracing)
    assert stop(tracing).rc == 0
    assert list(traces(data_dir)) == ["trace.cpu0.out"]
    assert lines_with(warnings(data_dir, STOP_LOG), "tracing_cpumask", "nonsense")


def test_overwritten_and_dropped_events_are_added_up(plain, start, stop, data_dir):
    tracing = plain("7", {0: {"overrun": 5, "dropped events": 1}, 1: {"overrun": 0, "dropped events": 0}, 2: {"overrun": 10}})
    start(tracing)
    stop(tracing)
    assert lines_with(warnings(data_dir, STOP_LOG), "no room for 16 events, of CPU 0 2")


def test_debugfs_where_there_is_no_tracefs(plain, start, stop, data_dir):
    tracing = plain("1", {0: {}}, kind="debugfs")
    assert start(tracing).rc == 0
    assert tracing.read("tracing_on") == "0\n"
    assert stop(tracing).rc == 0
    assert list(traces(data_dir)) == ["trace.cpu0.out"]


def test_a_tracing_directory_that_cannot_be_written_is_a_reason(tmp_path, run_script, data_dir):
    (tmp_path / "tracing").mkdir()
    procfs = mounts_file(tmp_path / "proc", [f"none {tmp_path}/tracing tracefs ro 0 0"])
    done = run_script("kerneltools-start", "--subtools=sysfs-trace", env={"KERNELTOOLS_PROCFS": procfs})
    assert done.rc == 1
    (warning,) = warnings(data_dir)
    assert warning.startswith(f"WARNING: sysfs-trace: skipped: tracing_on in {tmp_path}/tracing cannot be written")


def test_start_does_not_empty_what_an_earlier_start_still_holds(plain, start, stop, data_dir):
    tracing = plain("1", {0: {}})
    start(tracing)
    (tracing.path / "trace").write_text("events\n")
    done = start(tracing)
    assert done.rc == 1
    assert "sysfs-trace" in done.err
    assert tracing.read("trace") == "events\n"
    assert stop(tracing).rc == 0


# --- where nothing is mounted

UNMOUNTED = """
mount --make-rprivate /
umount --all --types tracefs,debugfs
mounted() { awk '$3 == "tracefs" || $3 == "debugfs"' /proc/self/mounts | wc -l; }
[[ $(mounted) == 0 ]] || exit 77
"$START" --subtools=sysfs-trace "$@" || exit
echo "started $(mounted)"
"$STOP" || exit
echo "stopped $(mounted)"
"""


@pytest.fixture
def idle_tracer(tracefs):
    """The kernel's main trace buffer, where nobody uses it; it is put back as it was."""
    if (tracefs / "current_tracer").read_text() != "nop\n" or (tracefs / "set_event").read_text().strip():
        pytest.skip("somebody is tracing here")
    if any(not line.startswith("#") for line in (tracefs / "trace").read_text().splitlines()):
        pytest.skip("somebody's events are in the trace buffer")
    before = (tracefs / "tracing_on").read_text()
    yield
    (tracefs / "tracing_on").write_text(before)


def unmounted(run_script, repo, data_dir, *arguments):
    done = run_script("/usr/bin/env", "unshare", "--mount", "bash", "-c", UNMOUNTED, "bash", *arguments, cwd=data_dir,
                      env={"START": repo / "kerneltools-start", "STOP": repo / "kerneltools-stop"})  # fmt: skip
    if done.rc == 77 or "unshare" in done.err:
        pytest.skip(f"no mount namespace without tracefs can be made here: {done.err}")
    return done


def test_what_start_mounted_stop_unmounts(idle_tracer, run_script, repo, data_dir):
    done = unmounted(run_script, repo, data_dir)
    assert (done.rc, done.out) == (0, "started 1\nstopped 0\n"), (done, log_lines(data_dir))
    assert lines_with(log_lines(data_dir), "mounted tracefs on /sys/kernel/tracing")
    assert traces(data_dir)


def test_a_setup_command_that_fails_leaves_nothing_mounted(idle_tracer, run_script, repo, data_dir):
    done = unmounted(run_script, repo, data_dir, "--sysfs-trace-setup=exit 9")
    assert done.rc == 1
    assert lines_with(warnings(data_dir), "exit code 9")
    assert lines_with(log_lines(data_dir), "unmounted /sys/kernel/tracing")


def test_where_nothing_can_be_mounted_its_words_are_the_reason(idle_tracer, run_script, repo, data_dir, stand_in):
    stand_in("mount", '[[ $1 != -t ]] || { echo "mount: $4: permission denied." >&2; exit 32; }\nexec /bin/mount "$@"')
    done = unmounted(run_script, repo, data_dir)
    assert done.rc == 1
    (warning,) = warnings(data_dir)
    assert warning.startswith("WARNING: sysfs-trace: skipped: tracefs cannot be mounted on /sys/kernel/tracing: mount: ")
    assert "permission denied" in warning


def test_tracing_ends_when_the_others_are_told_to_end_not_after_them(plain, run_script, stand_in, tmp_path):
    """While a slow collector ends, the buffer must not fill with what nobody asked for."""
    tracing = plain("1", {0: {}})
    stand_in("perf", f"""
        [[ $1 != --buildid-dir ]] || shift 2
        finish() {{ sleep 0.5; cat '{tracing.path}/tracing_on' >'{tmp_path}/meanwhile'; exit 130; }}
        case $1 in
            record) trap finish INT; echo x >perf.data; while sleep 0.02; do :; done ;;
            archive) echo 'no build-ids found' ;;
        esac""")  # fmt: skip
    done = run_script("kerneltools-start", "--subtools=perf-record,sysfs-trace", "--sysfs-trace-setup=echo 1 > tracing_on", env=tracing.env)
    assert done.rc == 0
    assert run_script("kerneltools-stop", env=tracing.env).rc == 0
    assert (tmp_path / "meanwhile").read_text() == "0\n"


# --- trace-cmd wants the same buffer

TRACE_CMD = """[[ $1 == record ]] || exit 0
trap 'echo x >trace.dat; exit 0' INT
while sleep 0.02; do :; done"""


@pytest.mark.parametrize(("subtools", "skipped"), [("trace-cmd,sysfs-trace", "sysfs-trace"), ("sysfs-trace,trace-cmd", "trace-cmd")])
def test_the_second_that_wants_the_buffer_is_skipped(plain, run_script, stand_in, data_dir, subtools, skipped):
    stand_in("trace-cmd", TRACE_CMD)
    tracing = plain("1", {0: {}})
    done = run_script("kerneltools-start", f"--subtools={subtools}", env=tracing.env)
    assert done.rc == 0
    (warning,) = warnings(data_dir)
    assert warning.startswith(f"WARNING: {skipped}: skipped: {subtools.split(',')[0]}, started before it, ")
    assert run_script("kerneltools-stop", env=tracing.env).rc == 0


def test_one_that_gave_up_keeps_the_other_from_nothing(plain, run_script, stand_in, data_dir):
    stand_in("trace-cmd", TRACE_CMD)
    tracing = plain("1", {0: {}})
    done = run_script("kerneltools-start", "--subtools=sysfs-trace,trace-cmd", "--sysfs-trace-setup=false", env=tracing.env)
    assert done.rc == 0
    assert warnings(data_dir) == ["WARNING: sysfs-trace: skipped: setup command failed, exit code 1: false"]
    assert run_script("kerneltools-stop", env=tracing.env).rc == 0


def test_a_trace_cmd_that_cannot_trace_keeps_sysfs_trace_from_nothing(plain, run_script, stand_in, data_dir):
    stand_in("trace-cmd", "[[ $1 != record ]] || { echo \"Can't enable ftrace\" >&2; exit 1; }")
    tracing = plain("1", {0: {}})
    done = run_script("kerneltools-start", "--subtools=trace-cmd,sysfs-trace", env=tracing.env)
    assert done.rc == 0
    assert warnings(data_dir) == ["WARNING: trace-cmd: skipped: Can't enable ftrace"]
    assert run_script("kerneltools-stop", env=tracing.env).rc == 0


def test_a_command_of_several_lines_is_still_one_line_of_error(plain, start, data_dir):
    done = start(plain("1", {0: {}}), "--sysfs-trace-setup=echo a\nfalse")
    assert done.err == "ERROR: nothing runs: sysfs-trace: setup command failed, exit code 1: echo a false\n"
    assert warnings(data_dir) == ["WARNING: sysfs-trace: skipped: setup command failed, exit code 1: echo a false"]


def test_the_end_of_the_trace_is_not_what_stop_does_for_the_others(plain, run_script, stand_in, tmp_path):
    tracing = plain("1", {0: {}})
    stand_in("perf", f"""
        [[ $1 != --buildid-dir ]] || shift 2
        case $1 in
            record) trap 'exit 130' INT; echo x >perf.data; while sleep 0.02; do :; done ;;
            archive) cat '{tracing.path}/tracing_on' >'{tmp_path}/meanwhile'; echo 'no build-ids found' ;;
        esac""")  # fmt: skip
    done = run_script("kerneltools-start", "--subtools=perf-record,sysfs-trace", "--sysfs-trace-setup=echo 1 > tracing_on", env=tracing.env)
    assert (done.rc, tracing.read("tracing_on")) == (0, "1\n")
    run_script("kerneltools-stop", env=tracing.env)
    assert (tmp_path / "meanwhile").read_text() == "0\n"


def test_the_log_says_which_directory_it_was(plain, start, data_dir):
    tracing = plain("1", {0: {}})
    start(tracing)
    assert f"sysfs-trace: the tracing directory is {tracing.path}" in log_lines(data_dir, START_LOG)
