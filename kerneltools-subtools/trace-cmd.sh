# -*- mode: sh; sh-shell: bash; indent-tabs-mode: nil; sh-basic-offset: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=bash
# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# trace-cmd - records kernel trace events with trace-cmd, which is told in --trace-cmd-record-opts what to record.
#
# trace-cmd sets up the kernel's tracer, and resets it when it ends. It stamps with its own clock; --date has it keep what
# makes that the time of day, and so the report shows it.

parameter trace-cmd-record-opts options '' "further options of trace-cmd record; split into words, never evaluated"
output trace.dat
output 'trace.dat.cpu*'
output trace-cmd-report.txt

subtool_usable() {
    local version
    find_program trace-cmd || skip "trace-cmd is neither on PATH nor in /usr/local/bin"
    keep trace_cmd "$REPLY"
    version=$(timeout 20 "$REPLY" --version 2>/dev/null </dev/null)
    trim "$version"
    environment trace_cmd_version "${REPLY%%$'\n'*}"
}

subtool_start() {
    local trace_cmd
    local -a options
    if runs sysfs-trace; then
        skip "sysfs-trace, started before it, needs the kernel's trace buffer for itself"
    fi
    recall trace_cmd; trace_cmd=$REPLY
    value_of trace-cmd-record-opts
    split_words options "$REPLY"
    launch trace.dat "$trace_cmd" record --date -o trace.dat "${options[@]}"
}

subtool_finish() {
    local trace_cmd status=0
    recall trace_cmd; trace_cmd=$REPLY
    restore_recording "$trace_cmd"
    if is_file trace.dat && [[ -s trace.dat ]]; then
        fresh trace-cmd-report.txt && "$trace_cmd" report -i trace.dat >trace-cmd-report.txt </dev/null
        status=$?
        (( status == 0 )) || warn "trace-cmd report failed (exit $status, its words are above): trace-cmd-report.txt is not complete"
    fi
    "$trace_cmd" clear </dev/null || warn "trace-cmd clear failed (exit $?, its words are above): the kernel's trace buffer is not emptied"
    return "$status"
}

# One that was killed leaves the tracer at work, and what it had read: one file for each CPU.
restore_recording() { # TRACE_CMD
    local cpu
    local -a parts=()
    for (( cpu = 0; ; cpu++ )); do
        is_file "trace.dat.cpu$cpu" || break
        parts+=("trace.dat.cpu$cpu")
    done
    if is_file trace.dat || (( cpu == 0 )); then
        return
    fi
    rm -f -- trace.dat
    log "NOTE: trace-cmd: it did not end by itself: tracing is reset, and trace.dat made of ${parts[*]}"
    "$1" reset </dev/null || warn "trace-cmd reset failed (exit $?, its words are above): the kernel may still be tracing"
    if "$1" restore -o trace.dat "${parts[@]}" </dev/null && [[ -s trace.dat ]]; then
        rm -f -- "${parts[@]}"
    else
        warn "trace-cmd restore failed (its words are above): what was recorded stays in ${parts[*]}"
        rm -f -- trace.dat
    fi
}
