# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""A new subtool is one bash file, one Python module and rows of the catalogue; and one that is broken is its own trouble only."""

import json
import lzma
import time

import pytest
from collection import (
    STOP_LOG,
    clock,
    copy_of_repository,
    lines_with,
    log_lines,
    played,
    processes_with,
    recorded,
    wait_until,
    warnings,
)
from published import metric_files, without_mark

HEAD = "# shellcheck shell=bash\n# toy-counter - counts in steps, for a test.\n\n"

TOY_SHELL = HEAD + """\
subtool_alias toy
parameter toy-step integer:1-9 3 "what it counts in"
output toy-counter-output.txt
output toy-counter-note.txt plain

subtool_usable() {
    find_program toy-counter || skip "toy-counter is not installed"
    keep program "$REPLY"
}

subtool_start() {
    local program interval step
    recall program; program=$REPLY
    value_of interval; interval=$REPLY
    value_of toy-step; step=$REPLY
    launch toy-counter-output.txt "$program" "$interval" "$step"
}

subtool_finish() {
    echo 'it has ended' >toy-counter-note.txt
}
"""

TOY_PROGRAM = """\
trap 'exit 130' INT
while sleep "$1"; do
    count=$(( ${count:-0} + $2 )) now=${EPOCHREALTIME/./}
    echo "${now%???} $count" >>toy-counter-output.txt
done
"""

TOY_MODULE = '''\
"""toy-counter, for a test: "<epoch in ms> <count>" a line."""

from kerneltools.clock import Interval
from kerneltools.frames import Frame, SeriesList

OUTPUTS = ("toy-counter-output.txt",)


class Frames:
    def __init__(self, run, raw, spool):
        spool.extend(map(int, line.split()) for line in raw.lines())
        self._spool = spool
        self.intervals = len(list(spool))
        self.series = SeriesList()
        for metric in run.metrics("toy-counter"):
            self.series.number(metric, {"counter": "steps"})

    def __iter__(self):
        before = None
        for ordinal, (time, count) in enumerate(self._spool):
            yield Frame(Interval(time - 99 if before is None else before + 1, time, 0.1, ordinal), [count, count / 2])
            before = time
'''

TOY_ROWS = """\
toy-counter\ttoy:steps\tcount\t-\tsum\tcounter\thow far it has counted
toy-counter\ttoy:half\tpercentage\t%\tavg\thalf\thalf of that
"""

QUICK = "--interval=0.05"


@pytest.fixture
def project(tmp_path):
    """A copy of the repository, to which a test adds."""
    return copy_of_repository(tmp_path / "a copy")


@pytest.fixture
def with_toy(project, stand_in):
    """The copy with toy-counter dropped in, and its program on PATH."""
    stand_in("toy-counter", TOY_PROGRAM)
    (project / "kerneltools-subtools/toy-counter.sh").write_text(TOY_SHELL)
    (project / "kerneltools/subtools/toy_counter.py").write_text(TOY_MODULE)
    with (project / "kerneltools/catalogue.tsv").open("a") as catalogue:
        catalogue.write(TOY_ROWS)
    return project


def published(directory, subtool):
    """The metric file of one subtool: {type: (descriptor, names, [(begin, end, value)])}."""
    output = directory / "postprocess"
    (prefix,) = [name for name in metric_files(directory) if without_mark(name) == f"metric-data-{subtool}"]
    rows = lzma.decompress((output / f"{prefix}.csv.xz").read_bytes()).decode().splitlines()
    series = {}
    for entry in json.loads(lzma.decompress((output / f"{prefix}.json.xz").read_bytes())):
        samples = [tuple(map(float, row.split(",")[1:])) for row in rows if row.split(",")[0] == str(entry["idx"])]
        series[entry["desc"]["type"]] = entry["desc"], entry["names"], samples
    return series


def drop_in(project, name, functions, declarations=""):
    """A subtool of which only the functions given are there; the others are those of a sound one."""
    sound = {
        "usable": ":",
        "start": f'launch {name}-output.txt bash -c "trap \\"exit 0\\" INT; while :; do echo x >>{name}-output.txt; sleep 0.02; done"',
    }
    body = "".join(f"subtool_{function}() {{\n{text}\n}}\n" for function, text in {**sound, **functions}.items() if text is not None)
    (project / f"kerneltools-subtools/{name}.sh").write_text(f"# shellcheck shell=bash\noutput {name}-output.txt\n{declarations}\n{body}")


# ---- a sound one


def test_a_toy_subtool_runs_through_start_stop_and_post_process(with_toy, run_script, data_dir, stand_in, tmp_path):
    played(stand_in, tmp_path)
    arguments = ["--subtools=toy-counter,perf-stat", QUICK, "--toy-step=2"]
    started = run_script(with_toy / "kerneltools-start", *arguments)
    assert (started.rc, started.out, started.err) == (0, "", "")
    assert sorted(collector.subtool for collector in recorded(data_dir)) == ["perf-stat", "toy-counter"]
    output = data_dir / "toy-counter-output.txt"
    assert wait_until(lambda: len(output.read_text().splitlines()) >= 3)
    stopped = run_script(with_toy / "kerneltools-stop", *arguments)
    assert (stopped.rc, stopped.err) == (0, "")
    assert {("perf-stat", "begin"), ("perf-stat", "end"), ("toy-counter", "begin")} <= set(clock(data_dir))
    assert (data_dir / "toy-counter-note.txt").read_text() == "it has ended\n"
    assert not output.exists()
    counted = [int(line.split()[1]) for line in lzma.decompress((data_dir / "toy-counter-output.txt.xz").read_bytes()).splitlines()]
    assert counted == [2 * (number + 1) for number in range(len(counted))]

    processed = run_script(with_toy / "kerneltools-post-process")
    assert processed.rc == 0, processed.out + processed.err
    metrics = published(data_dir, "toy-counter")
    assert sorted(metrics) == ["toy:half", "toy:steps"]
    descriptor, names, samples = metrics["toy:steps"]
    assert descriptor == {"source": "kernel", "class": "count", "type": "toy:steps", "default-aggregation": "sum"}
    assert names == {"counter": "steps"}
    assert [value for _, _, value in samples] == counted
    assert [value for _, _, value in metrics["toy:half"][2]] == [value / 2 for value in counted]
    assert lines_with(processed.out.splitlines(), "toy:steps", str(len(counted)))
    assert "ipc" in published(data_dir, "perf-stat")
    assert sorted(map(without_mark, metric_files(data_dir))) == ["metric-data-perf-stat", "metric-data-toy-counter"]


def test_one_that_writes_nothing_at_its_end_has_an_end_all_the_same(with_toy, run_script, data_dir):
    """It was alive when it was sent SIGINT, wrote its last line just before, ended on it, and nothing is wrong with that."""
    assert run_script(with_toy / "kerneltools-start", "--subtools=toy-counter", "--interval=0.01").rc == 0
    output = data_dir / "toy-counter-output.txt"
    lines = len(output.read_text().splitlines())
    assert wait_until(lambda: len(output.read_text().splitlines()) > lines)
    stopped = run_script(with_toy / "kerneltools-stop")
    assert (stopped.rc, stopped.err) == (0, "")
    assert ("toy-counter", "end") in clock(data_dir)
    assert warnings(data_dir, STOP_LOG) == []


def test_its_parameter_is_checked_defaulted_and_helped_as_any_other(with_toy, run_script, data_dir):
    for script in ("kerneltools-start", "kerneltools-stop"):
        helped = run_script(with_toy / script, "--help")
        assert helped.rc == 0
        assert {"toy-counter", "--toy-step"} <= set(helped.out.replace(",", " ").split())
        assert "what it counts in" in helped.out
    done = run_script(with_toy / "kerneltools-start", "--subtools=toy-counter", "--toy-step=10")
    assert done.rc == 2
    (error,) = done.err.splitlines()
    assert [word for word in ("ERROR: ", "--toy-step", "10", "1 to 9") if word not in error] == []
    assert recorded(data_dir) == []
    assert run_script(with_toy / "kerneltools-start", "--subtools=toy", QUICK).rc == 0
    assert lines_with(log_lines(data_dir), "toy", "former name", "toy-counter")
    output = data_dir / "toy-counter-output.txt"
    assert wait_until(lambda: output.exists() and output.read_text() != "")
    assert output.read_text().split()[1] == "3", "the default"


def test_without_its_program_it_is_skipped_and_the_others_run(with_toy, run_script, data_dir, stand_in, tmp_path):
    stand_in("toy-counter", "").unlink()
    played(stand_in, tmp_path)
    done = run_script(with_toy / "kerneltools-start", "--subtools=toy-counter,perf-stat", QUICK)
    assert (done.rc, done.err) == (0, "")
    assert warnings(data_dir) == ["WARNING: toy-counter: skipped: toy-counter is not installed"]
    assert [collector.subtool for collector in recorded(data_dir)] == ["perf-stat"]


def test_its_outputs_are_protected_as_any_other(with_toy, run_script, data_dir):
    for name in ("toy-counter-output.txt", "toy-counter-output.txt.xz", "toy-counter-note.txt"):
        (data_dir / name).write_text("precious")
        done = run_script(with_toy / "kerneltools-start", "--subtools=toy-counter", QUICK)
        assert done.rc == 1
        assert name in done.err
        assert (data_dir / name).read_text() == "precious"
        (data_dir / name).unlink()


def test_the_second_that_start_waits_is_one_for_all(project, run_script, data_dir):
    for name in ("one", "two", "three"):
        drop_in(project, name, {"start": f"launch {name}-output.txt sleep 30"})
    done = run_script(project / "kerneltools-start", "--subtools=one,two,three", QUICK)
    assert (done.rc, done.err) == (0, "")
    assert len(recorded(data_dir)) == 3
    assert done.seconds < 1.8


def test_one_that_dies_at_once_is_skipped_with_its_own_words_and_the_others_run(project, run_script, data_dir):
    drop_in(project, "sound", {})
    drop_in(project, "dying", {"start": "launch dying-output.txt bash -c 'echo first; echo \"no MSR for the likes of you\" >&2; exit 255'"})
    done = run_script(project / "kerneltools-start", "--subtools=dying,sound", QUICK)
    assert (done.rc, done.err) == (0, "")
    assert warnings(data_dir) == ["WARNING: dying: skipped: no MSR for the likes of you"]
    assert [collector.subtool for collector in recorded(data_dir)] == ["sound"]
    stopped = run_script(project / "kerneltools-stop")
    assert (stopped.rc, stopped.err) == (0, ""), "start has said it"


# ---- a broken one

BROKEN = {
    "syntax error": "if then (((",
    "usable: exit": {"usable": "exit 3"},
    "usable: exit 0 after a word": {"usable": "echo oops; false"},
    "usable: unset variable": {"usable": 'echo "$there_is_no_such_variable"'},
    "usable: unknown command": {"usable": "no_such_command"},
    "start: exit": {"start": "exit 3"},
    "start: unset variable": {"start": 'echo "$there_is_no_such_variable"'},
    "start: starts nothing": {"start": ":"},
    "start: no such program": {"start": "launch broken-output.txt /no/such/program"},
    "start: not there": {"start": None},
}


def break_it(project, how):
    if isinstance(how, str):
        (project / "kerneltools-subtools/broken.sh").write_text(how)
    else:
        drop_in(project, "broken", how)


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_subtool_is_skipped_and_the_others_run(how, project, run_script, data_dir, stand_in, tmp_path):
    played(stand_in, tmp_path)
    break_it(project, BROKEN[how])
    began = time.monotonic()
    done = run_script(project / "kerneltools-start", "--subtools=broken,perf-stat", QUICK)
    assert (done.rc, done.out, done.err) == (0, "", "")
    assert time.monotonic() - began < 2.5
    (warning,) = lines_with(warnings(data_dir), "skipped")
    assert warning.startswith("WARNING: broken: skipped: ")
    assert [collector.subtool for collector in recorded(data_dir)] == ["perf-stat"]
    stopped = run_script(project / "kerneltools-stop")
    assert (stopped.rc, stopped.err) == (0, "")
    assert (data_dir / "perf-stat-output.json.xz").exists()


def test_a_broken_subtool_that_nobody_asked_for_is_not_felt(project, run_script, data_dir, stand_in, tmp_path):
    played(stand_in, tmp_path)
    break_it(project, BROKEN["syntax error"])
    done = run_script(project / "kerneltools-start", "--subtools=perf-stat", QUICK)
    assert (done.rc, done.err) == (0, "")
    assert warnings(data_dir) == []
    stopped = run_script(project / "kerneltools-stop")
    assert (stopped.rc, stopped.err) == (0, "")


def test_alone_a_broken_subtool_is_an_error(project, run_script, data_dir):
    break_it(project, BROKEN["usable: unset variable"])
    done = run_script(project / "kerneltools-start", "--subtools=broken", QUICK)
    assert done.rc == 1
    assert len(done.err.splitlines()) == 1
    assert done.err.startswith("ERROR: ")


@pytest.mark.parametrize("finish", ["exit 3", 'echo "$there_is_no_such_variable"', "no_such_command; return 5"])
def test_what_a_broken_subtool_does_after_its_end_costs_the_others_nothing(finish, project, run_script, data_dir, stand_in, tmp_path):
    played(stand_in, tmp_path)
    drop_in(project, "broken", {"finish": finish})
    mark = str(tmp_path)
    assert run_script(project / "kerneltools-start", "--subtools=broken,perf-stat", QUICK, env={"KT_MARK": mark}).rc == 0
    stopped = run_script(project / "kerneltools-stop")
    assert stopped.rc == 1, "a status that is not 0 is reported"
    assert lines_with(log_lines(data_dir, STOP_LOG), "broken")
    assert (data_dir / "perf-stat-output.json.xz").exists()
    assert (data_dir / "broken-output.txt.xz").exists()
    assert wait_until(lambda: processes_with("KT_MARK", mark) == [], 1)


def test_a_broken_module_costs_its_own_metrics_only(with_toy, run_script, data_dir):
    module = with_toy / "kerneltools/subtools/toy_counter.py"
    module.write_text(module.read_text() + '    raise KeyError("no such toy")\n')
    (data_dir / "toy-counter-output.txt").write_text("1700000000100 1\n1700000000200 2\n")
    record = {"interval": 1.0, "counter-value": "5.0", "unit": "", "event": "context-switches", "event-runtime": 1, "pcnt-running": 100.0}
    (data_dir / "perf-stat-output.json").write_text(json.dumps(record) + "\n")
    done = run_script(with_toy / "kerneltools-post-process")
    assert done.rc == 1
    assert lines_with((done.out + done.err).splitlines(), "toy-counter", "no such toy")
    assert "context-switches-sec" in published(data_dir, "perf-stat")
    assert not list((data_dir / "postprocess").glob("metric-data-toy-counter*"))
