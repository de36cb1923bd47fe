# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""kerneltools-start as rickshaw and an engineer's shell run it: it returns at once, what it started lives on, and it says what is lost."""

import os
import platform
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from collection import (
    DEFAULT_EVENTS,
    START_LOG,
    STOP_LOG,
    calling_script,
    clock,
    environment_file,
    events_of,
    lines_with,
    log_lines,
    option,
    played,
    processes_with,
    programs_without,
    recorded,
    wait_until,
    warnings,
    watched,
)
from conftest import REPO, start_time

QUICK = ["--subtools=perf-stat", "--interval=0.05"]
OUTPUT = "perf-stat-output.json"


@pytest.fixture
def mark(tmp_path):
    """A variable for the environment of what a test starts, by which all of it can be found."""
    return {"KT_MARK": str(tmp_path)}


@pytest.fixture
def living(mark):
    """living(): the pids of all that was started with mark and is alive."""
    return lambda: processes_with("KT_MARK", mark["KT_MARK"])


def only_collector(directory):
    (collector,) = recorded(directory)
    assert start_time(collector.pid) == collector.started, "the record's process is not there"
    return collector


def size(path):
    return path.stat().st_size if path.exists() else 0


def failed(done, *words):
    """Exit 1 with one line on stderr that holds the words."""
    assert done.rc == 1
    (error,) = done.err.splitlines()
    assert error.startswith("ERROR: ")
    for word in words:
        assert word in error, error
    return error


# ---- it returns, and they live on


def test_it_returns_in_about_a_second_and_the_collectors_live_on(run_script, data_dir, real_perf, mark, living):
    """Interval 1: nothing is written within the second that it waits. Its caller has read both outputs to the end of file."""
    done = run_script("kerneltools-start", "--subtools=perf-stat", "--interval=1", env=mark)
    assert (done.rc, done.out, done.err) == (0, "", "")
    assert done.seconds < 2.5
    collector = only_collector(data_dir)
    assert Path(f"/proc/{collector.pid}/exe").resolve() == Path(real_perf).resolve()
    assert living() == [collector.pid], "nothing but the collector runs between start and stop"
    written = size(data_dir / OUTPUT)
    assert wait_until(lambda: size(data_dir / OUTPUT) > written, 2.5), "it writes on"


def test_it_waits_no_longer_than_for_the_first_words(run_script, tmp_path, stand_in):
    """The quickest of three, as the machine may have more to do than this test."""
    played(stand_in, tmp_path)
    seconds = []
    for name in "abc":
        (tmp_path / name).mkdir()
        done = run_script("kerneltools-start", *QUICK, cwd=tmp_path / name)
        assert done.rc == 0
        seconds.append(done.seconds)
    assert min(seconds) < 0.9


def test_it_does_not_wait_longer_than_a_second_for_a_collector_that_writes_nothing(run_script, data_dir, stand_in, tmp_path):
    played(stand_in, tmp_path, collection="time.sleep(30)")
    done = run_script("kerneltools-start", *QUICK)
    assert (done.rc, done.err) == (0, "")
    assert done.seconds < 2
    only_collector(data_dir)


@pytest.mark.parametrize(
    "body", ["exec <&-", "exec >&-", "exec 2>&-", "exec <&- >&- 2>&-", "exec 2>/dev/full", "exec 9</dev/null 11>&1 12>&2"]
)
def test_it_starts_whatever_descriptors_it_is_given(body, run_script, data_dir, stand_in, tmp_path):
    played(stand_in, tmp_path)
    done = run_script(calling_script(tmp_path / "caller", body), *QUICK)
    assert done.rc == 0
    pid = only_collector(data_dir).pid
    assert wait_until(lambda: size(data_dir / OUTPUT) > 0)
    assert descriptors(pid) == {"0": "/dev/null", "1": LOG_OF_PERF_STAT, "2": LOG_OF_PERF_STAT, "output": OUTPUT}


LOG_OF_PERF_STAT = "perf-stat-stderrout.txt"


def descriptors(pid):
    """What a collector holds open: its standard descriptors, and its output under that name; a file by its last part."""
    links = {link.name: os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
    names = {number: target if target.startswith("/dev/") else os.path.basename(target) for number, target in links.items()}
    return {"output" if names[number] == OUTPUT else number: name for number, name in names.items()}


def test_a_collector_is_a_session_of_its_own_without_a_terminal(run_script, data_dir, stand_in, tmp_path):
    played(stand_in, tmp_path)
    assert run_script("kerneltools-start", *QUICK).rc == 0
    pid = only_collector(data_dir).pid
    assert os.getpgid(pid) == pid
    assert os.getsid(pid) == pid
    terminal = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[4]
    assert terminal == "0"


def test_a_terminal_of_the_caller_does_not_end_the_collectors(run_script, data_dir, stand_in, tmp_path):
    """As from an engineer's shell: a terminal's hangup must not reach them."""
    if shutil.which("script") is None:
        pytest.skip("script (util-linux) is not installed")
    played(stand_in, tmp_path)
    command = " ".join([f"'{REPO}/kerneltools-start'", *QUICK])
    done = run_script(calling_script(tmp_path / "terminal", f'exec script -qec "{command}" /dev/null'))
    assert done.rc == 0
    pid = only_collector(data_dir).pid
    assert not wait_until(lambda: start_time(pid) is None, 0.3)


@pytest.mark.parametrize("body", ["", "trap '' INT QUIT"])
def test_a_collector_does_not_ignore_the_signal_that_ends_it(body, run_script, data_dir, stand_in, tmp_path):
    """bash starts background commands with SIGINT ignored, and a Python program then never sees it."""
    played(stand_in, tmp_path, collection="print('some words', file=open(output, 'w'), flush=True); time.sleep(30)")
    assert run_script(calling_script(tmp_path / "caller", body), *QUICK).rc == 0
    pid = only_collector(data_dir).pid
    status = Path(f"/proc/{pid}/status").read_text()
    for field in ("SigIgn", "SigBlk"):
        mask = int(re.search(rf"^{field}:\s*(\w+)", status, re.MULTILINE)[1], 16)
        assert not mask & 1 << signal.SIGINT - 1, field
    os.killpg(pid, signal.SIGINT)
    assert wait_until(lambda: start_time(pid) is None, 2)


def test_perf_speaks_the_c_locale_whatever_the_caller_speaks(run_script, data_dir, real_perf, stand_in, tmp_path):
    """With a decimal comma its numbers are no JSON."""
    calls = watched(stand_in, tmp_path, real_perf)
    german = {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8", "LC_NUMERIC": "de_DE.UTF-8"}
    assert run_script("kerneltools-start", *QUICK, env=german).rc == 0
    assert [noted["LC_ALL"] for arguments, noted in calls.all() if arguments[0] == "stat"] == ["C"] * len(calls.stat())
    assert len(calls.collections()) == 1


@pytest.mark.parametrize(
    ("seconds", "milliseconds"),
    [("0.01", 10), (".5", 500), ("1.5", 1500), ("10", 10_000), ("08", 8000), ("0.0625", 62.5)],
)
def test_an_interval_in_seconds_is_perfs_in_milliseconds(seconds, milliseconds, run_script, data_dir, stand_in, tmp_path):
    calls = played(stand_in, tmp_path, collection="print('seen enough', file=sys.stderr); sys.exit(1)")
    run_script("kerneltools-start", "--subtools=perf-stat", f"--interval={seconds}")
    (collection,) = calls.collections()
    given = option(collection, "-I")
    assert given.isdigit()
    assert abs(int(given) - milliseconds) <= 0.5


def test_the_default_interval_is_ten_seconds(run_script, data_dir, stand_in, tmp_path):
    calls = played(stand_in, tmp_path, collection="sys.exit(1)")
    run_script("kerneltools-start", "--subtools=perf-stat")
    (collection,) = calls.collections()
    assert option(collection, "-I") == "10000"


def test_a_directory_may_be_called_anything(run_script, tmp_path, stand_in, mark, living):
    played(stand_in, tmp_path)
    for name in ("it's  \"quoted\" $HOME `x` \\", "two\nlines", "*", "-e", "ü\udcff"):
        directory = tmp_path / "below" / name
        directory.mkdir(parents=True)
        started = run_script("kerneltools-start", *QUICK, cwd=directory, env=mark)
        assert (started.rc, started.err) == (0, ""), name
        only_collector(directory)
        stopped = run_script("kerneltools-stop", cwd=directory)
        assert (stopped.rc, stopped.err) == (0, ""), name
        assert (directory / f"{OUTPUT}.xz").exists(), name
    assert living() == []


# ---- what it keeps for those who come later


def test_the_clock_holds_the_moment_just_before_launch(run_script, data_dir, real_perf):
    before = time.time()
    assert run_script("kerneltools-start", *QUICK).rc == 0
    begin = clock(data_dir)["perf-stat", "begin"]
    assert list(clock(data_dir)) == [("perf-stat", "begin")]
    assert re.fullmatch(r"[0-9]{10}\.[0-9]{9}", begin)
    boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    launched = boot + only_collector(data_dir).started / os.sysconf("SC_CLK_TCK")
    assert before < float(begin) < launched + 0.1
    assert launched - float(begin) < 0.5


def test_what_the_machine_is_stands_in_the_environment_file(run_script, data_dir, real_perf):
    """Its keys are not fixed, but for what they speak of."""
    assert run_script("kerneltools-start", *QUICK).rc == 0
    kept = environment_file(data_dir)
    assert all(re.fullmatch(r"[a-z0-9_]+", key) and value.strip() for key, value in kept.items()), kept

    def of(*words):
        found = [value for key, value in kept.items() if all(word in key for word in words)]
        assert found, (words, kept)
        return found[0]

    cpuinfo = Path("/proc/cpuinfo").read_text()
    version = subprocess.run([real_perf, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    assert of("kernel") == platform.release()
    assert version in of("perf", "version")
    for field, words in (("vendor_id", ["vendor"]), ("model name", ["model"]), ("microcode", ["microcode"])):
        if match := re.search(rf"^{field}\s*:\s*(.+?)\s*$", cpuinfo, re.MULTILINE):
            assert of(*words) == match[1]
    for path, words in (
        ("/sys/devices/system/cpu/smt/control", ["smt"]),
        ("/proc/sys/kernel/nmi_watchdog", ["nmi_watchdog"]),
        ("/proc/sys/kernel/perf_event_paranoid", ["perf_event_paranoid"]),
        ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", ["governor"]),
    ):
        if os.path.exists(path):
            assert of(*words) == Path(path).read_text().strip()
        else:
            of(*words)
    if re.search(r"^flags.* hypervisor", cpuinfo, re.MULTILINE):
        assert of("hypervisor").lower() not in ("none", "unknown", "")


def test_what_the_machine_is_comes_from_where_the_kernel_says_it(run_script, data_dir, stand_in, tmp_path):
    """A bare-metal machine with a governor, SMT and a watchdog, as this one need not be."""
    played(stand_in, tmp_path)
    system, processes = machine(tmp_path, watchdog="1", paranoid="3")
    assert run_script("kerneltools-start", *QUICK, env={"KERNELTOOLS_SYSFS": system, "KERNELTOOLS_PROCFS": processes}).rc == 0
    values = environment_file(data_dir)
    assert values["nmi_watchdog"] == "1"
    assert values["perf_event_paranoid"] == "3"
    assert [value for key, value in values.items() if "governor" in key] == ["performance powersave"]
    assert [value for key, value in values.items() if "smt" in key] == ["on"]
    assert [value for key, value in values.items() if "microcode" in key] == ["0x2b0004b1"]


def machine(tmp_path, watchdog="0", paranoid="-1", cpus=2):
    """A /sys and a /proc of a machine with two packages."""
    system, processes = tmp_path / "a sys", tmp_path / "a proc"
    for cpu in range(cpus):
        place = system / "devices/system/cpu" / f"cpu{cpu}"
        (place / "topology").mkdir(parents=True)
        (place / "cpufreq").mkdir()
        (place / "topology/physical_package_id").write_text(f"{cpu}\n")
        (place / "topology/core_id").write_text("0\n")
        (place / "topology/thread_siblings_list").write_text(f"{cpu}\n")
        (place / "cpufreq/scaling_governor").write_text("powersave\n" if cpu else "performance\n")
    (system / "devices/system/cpu/online").write_text(f"0-{cpus - 1}\n")
    (system / "devices/system/cpu/smt").mkdir()
    (system / "devices/system/cpu/smt/control").write_text("on\n")
    (system / "bus/event_source/devices/cpu").mkdir(parents=True)
    (processes / "sys/kernel").mkdir(parents=True)
    (processes / "sys/kernel/nmi_watchdog").write_text(f"{watchdog}\n")
    (processes / "sys/kernel/perf_event_paranoid").write_text(f"{paranoid}\n")
    (processes / "cpuinfo").write_text("processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Some CPU\nmicrocode\t: 0x2b0004b1\n")
    return system, processes


def test_the_topology_is_kept_and_nothing_else_of_sys(run_script, data_dir, stand_in, tmp_path):
    played(stand_in, tmp_path)
    assert run_script("kerneltools-start", *QUICK).rc == 0
    kept = {str(path.relative_to(data_dir)): path.read_bytes() for path in (data_dir / "sys").rglob("*") if path.is_file()}
    there = {str(path)[1:]: path.read_bytes() for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology/*")}
    assert there
    assert kept == there


def test_the_log_is_appended_to(run_script, data_dir, stand_in, tmp_path):
    """A start that failed is part of the story."""
    assert run_script("kerneltools-start", "--interval=0").rc == 2
    earlier = (data_dir / START_LOG).read_text()
    played(stand_in, tmp_path)
    assert run_script("kerneltools-start", *QUICK).rc == 0
    log = (data_dir / START_LOG).read_text()
    assert log.startswith(earlier)
    assert len(log) > len(earlier)
    assert "--subtools=perf-stat" in log[len(earlier) :], "it says how it was called"


# ---- one run, one directory


def test_a_second_start_is_refused_while_the_first_ones_collectors_run(run_script, data_dir, stand_in, tmp_path, mark, living):
    calls = played(stand_in, tmp_path)
    assert run_script("kerneltools-start", *QUICK, env=mark).rc == 0
    collector = only_collector(data_dir)
    names = ("kerneltools-pids.txt", "kerneltools-clock.txt", "kerneltools-environment.txt", START_LOG)
    kept = {name: (data_dir / name).read_text() for name in names}
    failed(run_script("kerneltools-start", *QUICK, env=mark), str(collector.pid))
    assert (data_dir / START_LOG).read_text().startswith(kept.pop(START_LOG))
    assert {name: (data_dir / name).read_text() for name in kept} == kept
    assert living() == [collector.pid]
    assert len(calls.collections()) == 1
    written = size(data_dir / OUTPUT)
    assert wait_until(lambda: size(data_dir / OUTPUT) > written, 2)


def test_an_earlier_runs_outputs_are_not_overwritten(run_script, data_dir, stand_in, tmp_path, mark, living):
    calls = played(stand_in, tmp_path)
    assert run_script("kerneltools-start", *QUICK).rc == 0
    assert run_script("kerneltools-stop").rc == 0
    kept = {path.name: path.read_bytes() for path in data_dir.iterdir() if path.is_file()}
    log = kept.pop(START_LOG)
    failed(run_script("kerneltools-start", *QUICK, env=mark), OUTPUT)
    assert {name: (data_dir / name).read_bytes() for name in kept} == kept
    assert (data_dir / START_LOG).read_bytes().startswith(log)
    assert living() == []
    assert len(calls.collections()) == 1


@pytest.mark.parametrize("name", [OUTPUT, f"{OUTPUT}.xz"])
def test_a_file_that_lies_where_an_output_goes_is_left_alone(name, run_script, data_dir, stand_in, tmp_path):
    """Copied there, or left by a run without its record."""
    calls = played(stand_in, tmp_path)
    (data_dir / name).write_text("precious")
    failed(run_script("kerneltools-start", *QUICK), name)
    assert (data_dir / name).read_text() == "precious"
    assert recorded(data_dir) == []
    assert calls.collections() == []


def test_only_one_of_several_starts_at_once_wins(data_dir, run_script, stand_in, tmp_path, mark, living):
    calls = played(stand_in, tmp_path)
    starts = [
        subprocess.Popen([REPO / "kerneltools-start", *QUICK], cwd=data_dir, env={**os.environ, **mark}, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, start_new_session=True)
        for _ in range(6)
    ]  # fmt: skip
    ends = [(process.communicate(timeout=20), process.returncode) for process in starts]
    assert sorted(rc for _, rc in ends) == [0, 1, 1, 1, 1, 1]
    assert all(out == "" and len(err.splitlines()) == rc for (out, err), rc in ends), ends
    assert living() == [only_collector(data_dir).pid]
    assert len(calls.collections()) == 1
    assert run_script("kerneltools-stop").rc == 0
    assert living() == []


# ---- when nothing, or not all, can run


def test_without_perf_it_is_skipped_and_nothing_runs(run_script, data_dir, tmp_path):
    if os.path.exists("/usr/local/bin/perf"):
        pytest.skip("perf is in /usr/local/bin, where it is always found")
    error = failed(run_script("kerneltools-start", *QUICK, env={"PATH": programs_without(tmp_path / "programs", "perf")}), "perf")
    (warning,) = lines_with(warnings(data_dir), "skipped")
    assert warning.startswith("WARNING: perf-stat: skipped: ")
    assert "perf" in warning.replace("perf-stat", "")
    assert error in log_lines(data_dir)
    assert recorded(data_dir) == []


@pytest.mark.parametrize("header", ["", "# started on Mon Nov 30 01:12:09 2026\n\n"])
def test_a_perf_that_dies_at_once_is_skipped_with_its_own_words(header, run_script, data_dir, stand_in, tmp_path, mark, living):
    """perf 6.1 has begun its output by then."""
    death = f"open(output, 'w').write({header!r}); time.sleep(0.05); die(1, 'perf: cannot count on a Monday')"
    played(stand_in, tmp_path, collection=death)
    error = failed(run_script("kerneltools-start", *QUICK, env=mark))
    (warning,) = lines_with(warnings(data_dir), "skipped")
    assert warning.startswith("WARNING: perf-stat: skipped: ")
    assert "cannot count on a Monday" in warning
    assert error in log_lines(data_dir)
    assert recorded(data_dir) == []
    assert living() == []


@pytest.mark.parametrize(
    "fails",
    [{"collection": "die(1, 'not today')"}, {"unknown": DEFAULT_EVENTS}, {"supported": []}, None],
    ids=["died at once", "knows no event", "supports no event", "bad parameter"],
)
def test_after_a_failed_start_the_next_can_succeed(fails, run_script, data_dir, stand_in, tmp_path):
    """The engineer mends what was wrong and calls it again in the same directory."""
    played(stand_in, tmp_path, **(fails or {}))
    first = run_script("kerneltools-start", *QUICK, *(["--toplev-level=9"] if fails is None else []))
    assert first.rc == (2 if fails is None else 1)
    played(stand_in, tmp_path)
    second = run_script("kerneltools-start", *QUICK)
    assert (second.rc, second.err) == (0, "")
    collector = only_collector(data_dir)
    assert wait_until(lambda: size(data_dir / OUTPUT) > 0)
    stopped = run_script("kerneltools-stop")
    assert (stopped.rc, stopped.err) == (0, ""), "stop does not complain of what start has said already"
    assert start_time(collector.pid) is None
    assert len(lines_with(map(" ".join, clock(data_dir)), "begin")) == 1


def test_a_perf_that_dies_after_a_second_is_stops_business(run_script, data_dir, stand_in, tmp_path):
    played(stand_in, tmp_path, collection="time.sleep(1.6); die(3, 'first words\\nthe counters caught fire')")
    done = run_script("kerneltools-start", *QUICK)
    assert (done.rc, done.err) == (0, "")
    pid = only_collector(data_dir).pid
    assert wait_until(lambda: start_time(pid) is None, 3)
    stopped = run_script("kerneltools-stop")
    assert stopped.rc == 1
    assert lines_with(log_lines(data_dir, STOP_LOG), "perf-stat", "the counters caught fire")
    assert not lines_with(log_lines(data_dir, STOP_LOG), "first words")


def test_a_directory_that_cannot_be_written_is_an_error_and_nothing_is_started(run_script, stand_in, tmp_path, mark, living):
    """root writes into read-only directories, but not into /proc."""
    calls = played(stand_in, tmp_path)
    done = run_script("kerneltools-start", *QUICK, cwd="/proc/fs", env=mark)
    failed(done, "/proc/fs")
    assert calls.all() == []
    assert living() == []


@pytest.fixture
def as_nobody(tmp_path, data_dir):
    """A caller of kerneltools-start that is not root."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv")
    # pytest's own directories are closed to others; a process of pytest-xdist has one more
    for directory in (tmp_path, *list(tmp_path.parents)[: 3 if "PYTEST_XDIST_WORKER" in os.environ else 2]):
        directory.chmod(directory.stat().st_mode | 0o055)
    become = "setpriv --reuid=65534 --regid=65534 --clear-groups --"
    if subprocess.run([*become.split(), "test", "-x", REPO / "kerneltools-start"], check=False).returncode:
        pytest.skip("nobody cannot reach the repository")
    start = calling_script(tmp_path / "start", "")
    return calling_script(tmp_path / "nobody", f"exec {become} '{start}' \"$@\"")


def test_a_directory_of_someone_else_is_an_error_and_nothing_is_started(run_script, data_dir, stand_in, tmp_path, as_nobody):
    calls = played(stand_in, tmp_path)
    data_dir.chmod(0o755)
    failed(run_script(as_nobody, *QUICK), data_dir.parent.name)
    assert calls.all() == []
    assert list(data_dir.iterdir()) == []


# ---- what costs accuracy is said


def test_the_nmi_watchdog_is_warned_of(run_script, data_dir, stand_in, tmp_path):
    played(stand_in, tmp_path)
    system, processes = machine(tmp_path, watchdog="1")
    assert run_script("kerneltools-start", *QUICK, env={"KERNELTOOLS_SYSFS": system, "KERNELTOOLS_PROCFS": processes}).rc == 0
    assert lines_with(warnings(data_dir), "nmi_watchdog")


def test_a_paranoid_kernel_is_warned_of_where_it_matters(run_script, data_dir, stand_in, tmp_path, as_nobody):
    """perf may refuse all then, and this is why."""
    stand_in("perf", "[[ $1 == --version ]]")
    data_dir.chmod(0o777)
    system, processes = machine(tmp_path, paranoid="3")
    assert run_script(as_nobody, *QUICK, env={"KERNELTOOLS_SYSFS": system, "KERNELTOOLS_PROCFS": processes}).rc == 1
    assert lines_with(warnings(data_dir), "perf_event_paranoid", "3")


def test_a_machine_in_order_is_not_warned_of(run_script, data_dir, stand_in, tmp_path):
    played(stand_in, tmp_path)
    system, processes = machine(tmp_path)
    assert run_script("kerneltools-start", *QUICK, env={"KERNELTOOLS_SYSFS": system, "KERNELTOOLS_PROCFS": processes}).rc == 0
    assert warnings(data_dir) == []


def test_the_limit_on_open_files_is_raised_to_the_hard_one(run_script, data_dir, stand_in, tmp_path):
    calls = played(stand_in, tmp_path)
    system, processes = machine(tmp_path)
    settings = {"KERNELTOOLS_SYSFS": system, "KERNELTOOLS_PROCFS": processes}
    assert run_script(calling_script(tmp_path / "caller", "ulimit -Sn 60; ulimit -Hn 500"), *QUICK, env=settings).rc == 0
    assert {noted["open files"] for arguments, noted in calls.all() if "-I" in arguments} == {"500"}
    assert warnings(data_dir) == []


def test_a_limit_on_open_files_that_perf_gets_along_with_is_not_warned_of(run_script, data_dir, stand_in, tmp_path):
    """18 events on 64 CPUs take 1152; but root's perf may raise the limit for itself, and it opened them all."""
    played(stand_in, tmp_path)
    system, processes = machine(tmp_path, cpus=64)
    settings = {"KERNELTOOLS_SYSFS": system, "KERNELTOOLS_PROCFS": processes}
    assert run_script(calling_script(tmp_path / "caller", "ulimit -n 1100"), *QUICK, env=settings).rc == 0
    assert warnings(data_dir) == []


# ---- start is killed


def test_a_start_killed_as_its_collector_comes_up_leaves_it_for_stop_to_find(run_script, data_dir, stand_in, tmp_path, mark, living):
    """perf itself kills every process of start that is there at that moment."""
    kill = (
        "for process in os.listdir('/proc'):\n"
        "    try:\n"
        "        words = open(f'/proc/{process}/cmdline', 'rb').read()\n"
        "        environment = open(f'/proc/{process}/environ', 'rb').read()\n"
        "    except OSError:\n"
        "        continue\n"
        "    if b'kerneltools-start' in words and ('KT_MARK=' + os.environ['KT_MARK']).encode() in environment:\n"
        "        os.kill(int(process), signal.SIGKILL)\n"
    )
    played(stand_in, tmp_path, collection=kill)
    run_script("kerneltools-start", *QUICK, env=mark)
    assert len(living()) == 1
    stopped = run_script("kerneltools-stop")
    assert wait_until(lambda: living() == [], 1)
    assert stopped.rc == 0


@pytest.mark.parametrize("after", [0.02, 0.08, 0.14, 0.2, 0.3])
def test_a_start_killed_at_any_moment_leaves_nothing_that_stop_does_not_find(after, run_script, data_dir, stand_in, tmp_path, mark, living):
    played(stand_in, tmp_path)
    process = subprocess.Popen([REPO / "kerneltools-start", *QUICK], cwd=data_dir, env={**os.environ, **mark}, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
    time.sleep(after)
    process.kill()
    process.wait()
    time.sleep(0.3)
    run_script("kerneltools-stop")
    assert wait_until(lambda: living() == [], 1), [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in living()]


def test_the_event_list_on_the_command_line_is_what_the_log_says(run_script, data_dir, stand_in, tmp_path):
    """Whoever wonders later what was run finds the command."""
    calls = played(stand_in, tmp_path)
    assert run_script("kerneltools-start", *QUICK, "--perf-stat-events=cycles,page-faults").rc == 0
    (collection,) = calls.collections()
    assert lines_with(log_lines(data_dir), " stat ", events_of(collection))
