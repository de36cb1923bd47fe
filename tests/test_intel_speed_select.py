# -*- mode: python; indent-tabs-mode: nil; python-indent-level: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=python
# SPDX-License-Identifier: Apache-2.0
"""intel-speed-select: a stand-in that speaks as the real one does (everything on stderr, exit 0 for most failures)."""

import pytest
from collection import STOP_LOG, lines_with, log_lines, warnings

QUERIES = ["info", "get-lock-status", "get-config-levels", "get-config-version", "get-config-enabled", "get-config-current-level"]

# The shapes of its answers are those of tools/power/x86/intel-speed-select of Linux 6.1. It remembers what was enabled.
PROGRAM = r"""
printf '%s\n' "$*" >>"$ISS_CALLS"
[[ -z $(cat) ]] || exit 99
printf 'Intel(R) Speed Select Technology\nExecuting on CPU model:106[0x6a]\n'
case " ${ISS_TROUBLE:-} " in
    *" drivers "*)
        printf '%s\n' 'Intel speed select drivers are not loaded on this system.' \
            'Verify that kernel config includes CONFIG_INTEL_SPEED_SELECT_INTERFACE.' \
            'If the config is included then this is not a supported platform.' >&2
        exit 0
        ;;
    *" $1 $2 hangs "*) sleep 30 ;;
    *" $1 $2 dies "*) echo 'Error: Failed to get number of levels' >&2; exit 1 ;;
    *" $1 $2 fails "*)
        printf 'Error: %s feature is not present at this level 0\n' "$1" >&2
        printf ' package-0\n  die-0\n    cpu-0\n      %s\n        %s:failed(error -1)\n' "$1" "$2" >&2
        exit 0
        ;;
esac
if [[ $2 == enable || $2 == disable ]]; then
    echo "$1 $2" >>"$ISS_CALLS.state"
    printf ' package-0\n  die-0\n    cpu-0\n      %s\n        %s:success\n' "$1" "$2" >&2
else
    printf ' package-0\n  die-0\n    cpu-0\n      %s-%s:%s\n' "$1" "$2" "$(cat "$ISS_CALLS.state" 2>/dev/null)" >&2
fi
"""


@pytest.fixture
def calls(stand_in, tmp_path, monkeypatch):
    """The calls of an intel-speed-select that is played, as a function."""
    stand_in("intel-speed-select", PROGRAM)
    monkeypatch.setenv("ISS_CALLS", str(tmp_path / "calls"))
    return lambda: (tmp_path / "calls").read_text().splitlines() if (tmp_path / "calls").exists() else []


@pytest.fixture
def start(run_script, tmp_path, monkeypatch):
    """start(*arguments, vendor=, trouble=): kerneltools-start on a machine with a CPU of that vendor."""

    def run(*arguments, vendor="GenuineIntel", trouble=""):
        (tmp_path / "proc").mkdir(exist_ok=True)
        (tmp_path / "proc" / "cpuinfo").write_text(f"processor\t: 0\nvendor_id\t: {vendor}\nmodel name\t: of one's dreams\n")
        env = {"KERNELTOOLS_PROCFS": tmp_path / "proc", "ISS_TROUBLE": trouble}
        return run_script("kerneltools-start", "--subtools=intel-speed-select", *arguments, env=env)

    return run


def test_settings_are_kept_then_changed_then_asked_for(calls, start, run_script, data_dir):
    done = start("--core-power=enable", "--base-freq=enable", "--turbo-freq=disable")
    assert (done.rc, done.out, done.err) == (0, "", ""), log_lines(data_dir)
    assert calls() == [
        "perf-profile info",
        "core-power info",
        "base-freq enable -a",
        "turbo-freq disable -a",
        "core-power enable -a",
        *(f"perf-profile {query}" for query in QUERIES),
    ]
    assert "perf-profile-info:\n" in (data_dir / "settings.txt").read_text()
    assert "base-freq" not in (data_dir / "settings.txt").read_text()
    for query in QUERIES:
        answer = (data_dir / f"perf-profile_{query}.txt").read_text()
        assert answer.startswith(f"# intel-speed-select perf-profile {query}\n")
        assert f"perf-profile-{query}:base-freq enable\n" in answer
    assert warnings(data_dir) == []


def test_it_is_alone_and_has_no_process_and_stop_is_content(calls, start, run_script, data_dir):
    start()
    assert calls()[2] == "perf-profile info", "nothing was asked for, nothing is changed"
    before = calls()
    done = run_script("kerneltools-stop")
    assert (done.rc, done.err) == (0, ""), log_lines(data_dir, STOP_LOG)
    assert calls() == before
    assert {path.name for path in data_dir.glob("*.txt")} >= {"settings.txt", *(f"perf-profile_{query}.txt" for query in QUERIES)}
    assert not list(data_dir.glob("*.xz"))
    assert run_script("kerneltools-stop").rc == 0
    assert "nothing to do" in log_lines(data_dir, STOP_LOG)[-1]


def test_another_vendor_s_cpu_is_left_alone(calls, start, data_dir):
    assert start("--base-freq=enable", vendor="AuthenticAMD").rc == 1
    assert warnings(data_dir) == ["WARNING: intel-speed-select: skipped: this CPU is not Intel's"]
    assert calls() == []


def test_without_the_program_it_is_skipped(start, data_dir):
    done = start("--base-freq=enable")
    if done.rc == 0 or not lines_with(warnings(data_dir), "neither on PATH"):
        pytest.skip("intel-speed-select is installed here")
    assert warnings(data_dir) == ["WARNING: intel-speed-select: skipped: intel-speed-select is neither on PATH nor in /usr/local/bin"]


def test_a_machine_without_the_drivers_is_not_changed(calls, start, data_dir):
    assert start("--base-freq=enable", trouble="drivers").rc == 1
    (warning,) = warnings(data_dir)
    assert warning.startswith(
        "WARNING: intel-speed-select: skipped: intel-speed-select perf-profile info failed, exit code 0: "
        "Intel speed select drivers are not loaded on this system.; "
    )
    assert calls() == ["perf-profile info"]
    assert not (data_dir / "settings.txt").exists()
    # and nothing is in the way of another try
    assert start().rc == 0


@pytest.mark.parametrize(
    ("trouble", "code", "words"),
    [
        ("base-freq enable fails", 0, "Error: base-freq feature is not present at this level 0; enable:failed(error -1)"),
        ("base-freq enable dies", 1, "Error: Failed to get number of levels"),
    ],
)
def test_a_command_that_fails_is_named_and_the_rest_is_done(calls, start, data_dir, trouble, code, words):
    assert start("--base-freq=enable", "--core-power=disable", trouble=trouble).rc == 0
    assert warnings(data_dir) == [
        f"WARNING: intel-speed-select: intel-speed-select base-freq enable -a failed, exit code {code}: {words}"
    ]
    assert calls()[-7:] == ["core-power disable -a", *(f"perf-profile {query}" for query in QUERIES)]


def test_a_query_that_fails_is_named(calls, start, data_dir):
    assert start(trouble="perf-profile get-lock-status dies").rc == 0
    (warning,) = warnings(data_dir)
    assert "perf-profile get-lock-status failed, exit code 1: Error: Failed to get number of levels" in warning
    assert (data_dir / "perf-profile_get-lock-status.txt").read_text().endswith("Error: Failed to get number of levels\n")


def test_a_command_that_does_not_come_back_is_ended(calls, start, stand_in, data_dir):
    stand_in("timeout", 'exec /usr/bin/timeout "$1" "$2" 0.3 "${@:4}"')  # for the 30 s of the subtool's own
    done = start("--base-freq=enable", trouble="base-freq enable hangs")
    assert done.rc == 0
    assert done.seconds < 10
    (warning,) = warnings(data_dir)
    assert "base-freq enable -a failed, exit code 124: it did not come back within 30 s" in warning


def test_the_commands_of_the_other_subtools_are_not_held_up(calls, start, run_script, stand_in, data_dir):
    stand_in("turbostat", '[[ $1 == --interval ]] || exit 0\ntrap "exit 0" INT\necho x >"${@: -1}"\nwhile sleep 0.02; do :; done')
    assert start("--subtools=intel-speed-select,turbostat", trouble="drivers").rc == 0
    assert log_lines(data_dir)[-1] == "running: turbostat"
    assert run_script("kerneltools-stop").rc == 0
