# -*- mode: sh; sh-shell: bash; indent-tabs-mode: nil; sh-basic-offset: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=bash
# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# intel-speed-select - turns base-freq, turbo-freq and core-power of Intel Speed Select on or off, and keeps what the
# machine says about itself.
#
# settings.txt is what it said before anything was changed; perf-profile_<query>.txt are its answers afterwards. What is
# changed stays changed after stop. Nothing runs in between.
#
# The program says 0 for most of its failures, and everything on standard error: its words are looked at, too.

parameter base-freq choice:enable,disable '' "base frequency feature; unchanged where not given"
parameter turbo-freq choice:enable,disable '' "turbo frequency feature; unchanged where not given"
parameter core-power choice:enable,disable '' "core power feature; unchanged where not given"
output settings.txt plain
output 'perf-profile_*.txt' plain

QUERIES=(info get-lock-status get-config-levels get-config-version get-config-enabled get-config-current-level)
PATIENCE=30             # seconds for each command

subtool_usable() {
    cpu_is_intel || skip "this CPU is not Intel's"
    find_program intel-speed-select || skip "intel-speed-select is neither on PATH nor in /usr/local/bin"
    keep program "$REPLY"
}

subtool_start() {
    local feature query
    if ! ask settings.txt perf-profile info; then
        rm -f -- settings.txt
        skip "$REPLY"
    fi
    hold
    ask settings.txt core-power info || log "NOTE: intel-speed-select: $REPLY"
    for feature in base-freq turbo-freq core-power; do
        value_of "$feature"
        [[ -z $REPLY ]] || change "$feature" "$REPLY"
    done
    for query in "${QUERIES[@]}"; do
        ask "perf-profile_$query.txt" perf-profile "$query" || warn "$REPLY"
    done
}

cpu_is_intel() {
    local key value
    while IFS=: read -r key value; do
        trim "$key"
        [[ $REPLY == vendor_id ]] || continue
        trim "$value"
        [[ $REPLY == GenuineIntel ]]
        return
    done 2>/dev/null <"$PROCFS/cpuinfo"
    return 1
}

ANSWER=''
ask() { # FILE WORD...: appends the answer to the file; fails if it is none, with the reason in REPLY
    local file=$1 status
    shift
    recall program
    ANSWER=$(timeout -k 5 "$PATIENCE" "$REPLY" "$@" 2>&1 </dev/null)
    status=$?
    printf '# intel-speed-select %s\n%s\n' "$*" "$ANSWER" >>"$file"
    complaints
    if (( status == 124 || status == 137 )); then
        REPLY="it did not come back within $PATIENCE s"
    fi
    REPLY="intel-speed-select $* failed, exit code $status: $REPLY"
    (( status == 0 )) && [[ $ANSWER == *package-* ]]
}

change() { # FEATURE enable|disable. -a: the priorities of the cores follow
    log "intel-speed-select: $1 $2"
    if ! ask /dev/stderr "$1" "$2" -a || [[ $ANSWER == *'failed('* || $ANSWER == *Error:* ]]; then
        warn "$REPLY"
    fi
}

complaints() { # of the last answer: the lines that are, or else all that it said
    local line all='' bad=''
    while IFS= read -r line; do
        trim "$line"
        case $REPLY in
            '' | 'Intel(R) Speed Select Technology' | 'Executing on CPU model'*) ;;
            *'failed('* | *Error:*) bad+=${bad:+; }$REPLY ;;
            *) all+=${all:+; }$REPLY ;;
        esac
    done < <(printf '%s\n' "$ANSWER")
    one_line "${bad:-${all:-it said nothing}}"
    REPLY=${REPLY:0:400}
}
