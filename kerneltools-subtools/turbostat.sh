# -*- mode: sh; sh-shell: bash; indent-tabs-mode: nil; sh-basic-offset: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=bash
# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# turbostat - frequency, idle states, temperature and power of every CPU, core and package, with turbostat.
#
# It is tried before the collection, because it refuses machines for many reasons (no MSR in most virtual machines, not
# x86, not root), and to see whether it is new enough to print the time of day in each row.

output turbostat-stdout.txt

TIME_OF_DAY=(--enable Time_Of_Day_Seconds)
TOO_LATE='turbostat did not come back within 20 s'

subtool_usable() {
    local turbostat version
    find_program turbostat || skip "turbostat is neither on PATH nor in /usr/local/bin: install it (Debian: linux-cpupower, Fedora: kernel-tools), or choose other --subtools"
    turbostat=$REPLY
    version=$(timeout 20 "$turbostat" --version 2>&1 </dev/null)
    environment turbostat_version "${version%%$'\n'*}"
    keep turbostat "$turbostat"
    keep time_of_day yes
    if ! measures "$turbostat" "${TIME_OF_DAY[@]}"; then
        if [[ $REPLY == "$TOO_LATE" ]] || ! measures "$turbostat"; then
            skip "$REPLY"
        fi
        keep time_of_day ''
        log "NOTE: turbostat: it does not know ${TIME_OF_DAY[*]}: the times of its rows are counted from start's and stop's clock"
    fi
}

subtool_start() {
    local turbostat interval
    local -a options=()
    recall turbostat; turbostat=$REPLY
    recall time_of_day
    [[ -z $REPLY ]] || options=("${TIME_OF_DAY[@]}")
    value_of interval; interval=$REPLY
    environment turbostat_interval "$interval"
    launch turbostat-stdout.txt "$turbostat" --interval "$interval" "${options[@]}" -o turbostat-stdout.txt
}

# measures PROGRAM OPTION...: whether turbostat measures here; if not, its own words in REPLY
measures() {
    local program=$1 words status
    shift
    words=$(timeout 20 "$program" "$@" -o /dev/null true 2>&1 </dev/null)
    status=$?
    own_words <(printf '%s' "$words")
    (( status != 124 )) || REPLY=$TOO_LATE
    return "$status"
}
