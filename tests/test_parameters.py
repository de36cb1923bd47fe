# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""Parameters of start and stop: what is accepted by both, what is refused in one line before anything runs, and that no value is evaluated.

The good values go to kerneltools-stop where they would start something: both scripts read the same parameters.
"""

import pytest
from collection import (
    START_LOG,
    STOP_LOG,
    events_of,
    lines_with,
    log_lines,
    option,
    played,
    processes_with,
    recorded,
    split_list,
    wait_until,
    warnings,
)

SUBTOOLS = ["turbostat", "perf-record", "perf-stat", "toplev", "intel-speed-select", "trace-cmd", "sysfs-trace"]

GOOD = {
    "subtools": [*SUBTOOLS, ",".join(SUBTOOLS), "perf", "perf,toplev", "perf-stat,perf-stat"],
    "interval": ["10", "1", "0.01", ".5", "1.5", "0.250", "08", "3600"],
    "record-opts": ["-g", "-F 99 --call-graph dwarf,16384", "-e 'cpu/event=0x3c/' \"-F\" 9\\9", "--filter='a b \"c\"'", "-e *", "$HOME"],
    "perf-stat-events": [
        "default", "default,page-faults", "cycles,default", "cycles", "cycles:u,instructions:u", "{cycles,instructions}",
        "{cycles,instructions}:W,page-faults", "cpu/event=0x87,umask=0x01/", "cpu/event=0x87,umask=0x01/u,r1a8",
        "{cpu/event=0x87,umask=0x01/,cycles}:u", "uncore_imc/cas_count_read/", "sched:sched_switch", "r1a8",
    ],
    "perf-stat-aggregation": ["system", "socket", "die", "node", "core", "cpu"],
    "toplev-level": ["1", "2", "3", "4", "5", "6"],
    "perf-gen-local-report": ["ON", "OFF"],
    "base-freq": ["enable", "disable"],
    "turbo-freq": ["enable", "disable"],
    "core-power": ["enable", "disable"],
    "trace-cmd-record-opts": ["-e sched", "-e sched -f 'prev_prio < 100'", "-p function_graph -g do_sys_open"],
    "sysfs-trace-setup": ["echo 1 > tracing_on", "true; false && exit 3", "echo \"it's\""],
    "sysfs-trace-cleanup": ["echo 0 > tracing_on", "echo > trace"],
    "sysfs-trace-collection": ["per-cpu", "system"],
}  # fmt: skip

# parameter: (what its error must say of the accepted values, bad values)
BAD = {
    "subtools": (
        SUBTOOLS,
        ["nosuch", "perf-stat,nosuch", "perf-stat,", ",perf-stat", "perf-stat,,toplev", ",", " ", "common", "Perf-Stat", "perf-stat toplev",
         "perf-stat;toplev", "../perf-stat", "*", "perf-stat.sh", "perf-stat\ntoplev"],
    ),
    "interval": (
        ["0.01"],
        ["0", "0.0", "0.009", "0.0099", "-1", "+", ".", "ten", "1s", "1,5", "0x10", "1.2.3", "nan", "inf", "1 2", "1\n2", " ", "1;2", "1+1",
         "99999999999999999999"],
    ),
    "record-opts": ([], ["-e 'cycles", '-e "cycles', "it's", "-g \\", "-e 'a' 'b"]),
    "perf-stat-events": (
        [],
        [",", "cycles,", ",cycles", "cycles,,instructions", "{cycles,instructions", "cycles,instructions}", "{}", "default,", " ",
         "cpu/event=0x87,umask=0x01", "{cycles,,instructions}"],
    ),
    "perf-stat-aggregation": (
        ["system", "socket", "die", "node", "core", "cpu"],
        ["thread", "CPU", "system,cpu", "sys", "-A", "*", "none", "core "],
    ),
    "toplev-level": (["1", "6"], ["0", "7", "-1", "1.5", "a", "3x", "1 2", "10", "99999999999999999999", "BASHPID", "1+1"]),
    "perf-gen-local-report": (["ON", "OFF"], ["yes", "1", "ON,OFF", "true"]),
    "base-freq": (["enable", "disable"], ["on", "enabled", "Enable", "enable,disable", "*"]),
    "turbo-freq": (["enable", "disable"], ["off", "unchanged"]),
    "core-power": (["enable", "disable"], ["1", "enable disable"]),
    "sysfs-trace-collection": (["per-cpu", "system"], ["cpu", "percpu", "system,per-cpu"]),
}  # fmt: skip

HOSTILE = [
    "$(touch evaluated)", "`touch evaluated`", "x; touch evaluated", "x && touch evaluated", "x | touch evaluated", "x\ntouch evaluated",
    "& touch evaluated &", "x > evaluated", "${x:=$(touch evaluated)}", "a[$(touch evaluated)]", "'; touch evaluated; '",
    '"; touch evaluated; "', "$((evaluated=$(touch evaluated)))",
]  # fmt: skip


@pytest.fixture
def perf_of_any_list(stand_in, tmp_path):
    """A perf that counts whatever it is given, and notes that it was run."""
    return played(stand_in, tmp_path)


def assert_refused(done, directory, log, *words):
    """One line on stderr and the same in the log, holding the words; exit 2; nothing there that a start would leave."""
    assert done.rc == 2, done.err
    assert done.out == ""
    (error,) = done.err.splitlines()
    assert error.startswith("ERROR: ")
    assert [line for line in log_lines(directory, log) if line.startswith("ERROR: ")] == [error]
    for word in words:
        assert word in error, error
    assert recorded(directory) == []
    assert sorted(path.name for path in directory.iterdir()) == [log]


# ---- what is accepted


def arguments_of(row):
    """The row-th good value of every parameter, over again where it has fewer; perf-stat is what is asked for."""
    values = {name: values[row % len(values)] for name, values in GOOD.items()}
    return [f"--{name}={value}" for name, value in values.items()]


@pytest.mark.parametrize("row", range(max(map(len, GOOD.values()))))
def test_start_and_stop_accept_the_same_good_values(row, run_script, data_dir, stand_in):
    """Nothing can run, so nothing is there to stop: each has just that to complain about."""
    stand_in("perf", "exit 1")
    started = run_script("kerneltools-start", *arguments_of(row), "--subtools=perf-stat")
    assert (started.rc, len(started.err.splitlines())) == (1, 1)
    assert lines_with(warnings(data_dir), "WARNING: perf-stat: skipped: ")
    stopped = run_script("kerneltools-stop", *arguments_of(row))
    assert (stopped.rc, len(stopped.err.splitlines())) == (1, 1)
    assert "accepted" not in started.err + stopped.err


def test_all_parameters_at_once_are_accepted_by_start_and_stop(run_script, data_dir, perf_of_any_list):
    """rickshaw gives both the same ones."""
    values = {**{name: values[0] for name, values in GOOD.items()}, "subtools": "perf-stat", "interval": "0.02"}
    arguments = [f"--{name}={value}" for name, value in values.items()]
    started = run_script("kerneltools-start", *arguments)
    assert (started.rc, started.err) == (0, "")
    stopped = run_script("kerneltools-stop", *arguments)
    assert (stopped.rc, stopped.err) == (0, "")
    assert (data_dir / "perf-stat-output.json.xz").exists()


def test_a_flag_may_stand_alone(run_script, data_dir, perf_of_any_list):
    """rickshaw's param_regex makes =ON a bare flag."""
    for script in ("kerneltools-start", "kerneltools-stop"):
        done = run_script(script, "--perf-gen-local-report", "--subtools=perf-stat", "--interval=0.02")
        assert (done.rc, done.err) == (0, "")


def test_a_value_may_follow_as_a_word_of_its_own(run_script, data_dir, perf_of_any_list):
    done = run_script("kerneltools-start", "--subtools", "perf-stat", "--interval", "0.02", "--perf-stat-events", "cycles,page-faults")
    assert (done.rc, done.err) == (0, "")
    (collection,) = perf_of_any_list.collections()
    assert option(collection, "-I") == "20"
    assert split_list(perf_of_any_list.collected_events()) == ["cycles", "page-faults"]


def test_commands_of_sysfs_trace_may_be_given_more_than_once(run_script, data_dir, perf_of_any_list):
    repeated = [f"--sysfs-trace-{what}=echo {number} > tracing_on" for what in ("setup", "cleanup") for number in (0, 1, 2)]
    done = run_script("kerneltools-start", "--subtools=perf-stat", "--interval=0.02", *repeated)
    assert (done.rc, done.err) == (0, "")


def test_the_former_name_of_perf_record_is_accepted_and_said(run_script, data_dir, stand_in):
    stand_in("perf", "echo no such luck >&2; exit 1")
    done = run_script("kerneltools-start", "--subtools=perf")
    assert done.rc == 1
    assert [line for line in log_lines(data_dir) if "perf-record" in line and "former" in line]
    assert [line for line in warnings(data_dir) if line.startswith("WARNING: perf-record: skipped: ")]
    assert not [line for line in warnings(data_dir) if line.startswith("WARNING: perf: ")]


def test_the_default_is_turbostat(run_script, data_dir, stand_in):
    stand_in("turbostat", "echo no MSR today >&2; exit 255")
    done = run_script("kerneltools-start")
    assert done.rc == 1
    assert [line.split(":")[1] for line in warnings(data_dir) if ": skipped: " in line] == [" turbostat"]


def test_a_subtool_named_twice_runs_once(run_script, data_dir, perf_of_any_list):
    done = run_script("kerneltools-start", "--subtools=perf-stat,perf-stat,perf-stat", "--interval=0.02")
    assert (done.rc, done.err) == (0, "")
    assert len(recorded(data_dir)) == 1
    assert len(perf_of_any_list.collections()) == 1


@pytest.mark.parametrize("script", ["kerneltools-start", "kerneltools-stop"])
def test_help_names_every_subtool_and_parameter_and_does_nothing(script, run_script, data_dir):
    done = run_script(script, "--help")
    assert (done.rc, done.err) == (0, "")
    words = done.out.replace(",", " ").split()
    assert set(SUBTOOLS) <= set(words)
    assert {f"--{name}" for name in GOOD} <= set(words)
    assert list(data_dir.iterdir()) == []


# ---- what is refused


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, (_, values) in BAD.items() for value in values])
def test_a_bad_value_is_named_with_what_is_accepted_and_nothing_is_started(name, value, run_script, data_dir, perf_of_any_list):
    arguments = [f"--{name}={value}"] if name == "subtools" else ["--subtools=perf-stat", f"--{name}={value}"]
    done = run_script("kerneltools-start", *arguments)
    assert_refused(done, data_dir, START_LOG, f"--{name}", *BAD[name][0])
    assert perf_of_any_list.all() == []


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("subtools", "perf-stat,nosuch", "nosuch"),
        ("interval", "ten", "ten"),
        ("perf-stat-aggregation", "thread", "thread"),
        ("toplev-level", "7", "7"),
        ("core-power", "on", "on"),
        ("perf-gen-local-report", "yes", "yes"),
        ("record-opts", "-e 'cycles", "cycles"),
        ("perf-stat-events", "page-faults,{cycles", "{cycles"),
        ("perf-stat-events", "page-faults,cpu/event=0x3c", "cpu/event=0x3c"),
    ],
)
def test_the_error_repeats_the_bad_value(name, value, named, run_script, data_dir):
    done = run_script("kerneltools-start", f"--{name}={value}")
    assert_refused(done, data_dir, START_LOG, f"--{name}", named)


@pytest.mark.parametrize(
    "arguments",
    [*([f"--{name}="] for name in GOOD), ["--interval"], ["--subtools"], ["--sysfs-trace-setup"], ["--record-opts", ""]],
    ids=" ".join,
)
def test_a_missing_value_is_an_error(arguments, run_script, data_dir, perf_of_any_list):
    done = run_script("kerneltools-start", *arguments)
    assert_refused(done, data_dir, START_LOG, arguments[0].strip("="))
    assert perf_of_any_list.all() == []


def test_a_parameter_is_not_the_value_of_the_one_before(run_script, data_dir):
    done = run_script("kerneltools-start", "--interval", "--subtools=perf-stat")
    assert_refused(done, data_dir, START_LOG, "--interval")


@pytest.mark.parametrize(
    "argument",
    ["--nosuch", "--nosuch=1", "--subtool=perf-stat", "--Subtools=perf-stat", "perf-stat", "-i", "--", "--=1", "-", "-subtools=perf-stat",
     "subtools=perf-stat", "--inter val=1", "--interval*=1", "--$(touch evaluated)=1", "--a[$(touch evaluated)]=1", "--nosuch=two\nlines",
     "--two\nlines=1", "--KIND=1", ""],
)  # fmt: skip
def test_an_unknown_parameter_is_named_with_those_there_are(argument, run_script, data_dir, perf_of_any_list):
    done = run_script("kerneltools-start", "--subtools=perf-stat", argument)
    named = argument.splitlines()[0].split("=")[0].strip("-") if argument else ""
    assert_refused(done, data_dir, START_LOG, named, *(f"--{name}" for name in GOOD))
    assert perf_of_any_list.all() == []


@pytest.mark.parametrize("argument", ["--nosuch=1", "--interval=ten", "--subtools=nosuch", "--perf-stat-events=,"])
def test_stop_ends_what_runs_before_it_complains_about_a_parameter(argument, run_script, data_dir, perf_of_any_list):
    mark = str(data_dir)
    assert run_script("kerneltools-start", "--subtools=perf-stat", "--interval=0.02", env={"KT_MARK": mark}).rc == 0
    done = run_script("kerneltools-stop", argument)
    assert done.rc == 2
    (error,) = done.err.splitlines()
    assert error.startswith("ERROR: ")
    assert error in log_lines(data_dir, STOP_LOG)
    assert wait_until(lambda: processes_with("KT_MARK", mark) == [], 1)
    assert (data_dir / "perf-stat-output.json.xz").exists()


def test_the_first_bad_parameter_ends_it_whatever_stands_around(run_script, data_dir, perf_of_any_list):
    done = run_script("kerneltools-start", "--subtools=perf-stat", "--interval=1", "--toplev-level=9", "--perf-stat-aggregation=system")
    assert_refused(done, data_dir, START_LOG, "--toplev-level", "9")
    assert perf_of_any_list.all() == []


# ---- nothing is evaluated


@pytest.mark.parametrize("value", HOSTILE)
def test_no_text_is_evaluated(value, run_script, data_dir, stand_in, tmp_path):
    stand_in("perf", "exit 129")
    arguments = [f"--{name}={value}" for name in ("perf-stat-events", "trace-cmd-record-opts", "record-opts")]
    done = run_script("kerneltools-start", "--subtools=perf-stat,perf-record", *arguments)
    assert done.rc in (1, 2)
    run_script("kerneltools-stop", *arguments)
    assert not list(tmp_path.rglob("evaluated"))


@pytest.mark.parametrize("value", ["$(touch evaluated)", "`touch evaluated`", "a[$(touch evaluated)]"])
@pytest.mark.parametrize("name", ["subtools", "interval", "toplev-level", "perf-stat-aggregation", "perf-gen-local-report"])
def test_no_choice_or_number_is_evaluated(name, value, run_script, data_dir, tmp_path):
    done = run_script("kerneltools-start", f"--{name}={value}")
    assert_refused(done, data_dir, START_LOG, f"--{name}")
    assert not list(tmp_path.rglob("evaluated"))


def test_commands_for_the_tracing_directory_are_not_run_by_another_subtool(run_script, data_dir, tmp_path, perf_of_any_list):
    command = f"touch '{tmp_path}/evaluated'"
    arguments = ["--subtools=perf-stat", "--interval=0.02", f"--sysfs-trace-setup={command}", f"--sysfs-trace-cleanup={command}"]
    assert run_script("kerneltools-start", *arguments).rc == 0
    assert run_script("kerneltools-stop", *arguments).rc == 0
    assert not (tmp_path / "evaluated").exists()


@pytest.mark.parametrize(
    "events", ["*", "[cd]*", "~,$HOME", "$(touch evaluated)", "`touch evaluated`", "a'b;!x|c>evaluated"]
)
def test_perf_gets_the_event_list_letter_by_letter(events, run_script, data_dir, perf_of_any_list):
    (data_dir / "cycles 1").write_text("")
    (data_dir / "d").write_text("")
    done = run_script("kerneltools-start", "--subtools=perf-stat", "--interval=0.02", f"--perf-stat-events={events}")
    assert (done.rc, done.err) == (0, "")
    assert [events_of(run) for run in perf_of_any_list.stat()] == [events, events]
    assert not (data_dir / "evaluated").exists()
