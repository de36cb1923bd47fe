# -*- mode: sh; sh-shell: bash; indent-tabs-mode: nil; sh-basic-offset: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=bash
# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# perf-record - samples where the CPUs spend their time, on the whole system, with perf record.
#
# After its end perf archive gathers the binaries that were hit (perf.data.tar.bz2), so that perf.data can be read on
# another machine; perf-report.txt is written on request. The copies of binaries from which that is made
# (perf-record-buildids) lie in the data directory until then, not in ~/.debug.
#
# Samples are stamped with CLOCK_MONOTONIC. What has to be added to get seconds since the epoch is kept in
# kerneltools-environment.txt, for boot_to_epoch.py: perf_record_clock, perf_record_clock_offset (at start) and
# perf_record_clock_offset_at_stop; the two differ if the node's clock was set in between.

subtool_alias perf
parameter record-opts options '' "further options of perf record; split into words, never evaluated"
parameter perf-gen-local-report flag OFF "write perf-report.txt here"
output perf.data
output perf.data.tar.bz2 plain
output perf-report.txt plain

BUILD_IDS='perf-record-buildids'

subtool_usable() {
    local option
    local -a options
    find_perf || skip "$REPLY"
    keep perf "$REPLY"
    value_of record-opts
    split_words options "$REPLY"
    for option in "${options[@]}"; do
        [[ $option != @(-o*|--output|--output=*|--switch-output*) ]] ||
            skip "--record-opts must not say where the recording goes ($option): it is perf.data, one file"
    done
    recall perf
    if ! type -P tar >/dev/null || ! type -P bzip2 >/dev/null; then
        warn "perf archive needs tar and bzip2, which are not both here: there will be no perf.data.tar.bz2 (install tar and bzip2)"
    fi
    perf_limits
}

subtool_start() {
    local perf
    local -a options clock_options=()
    recall perf; perf=$REPLY
    value_of record-opts
    split_words options "$REPLY"
    value_of perf-gen-local-report
    keep report "$REPLY"
    if clock_of "${options[@]}"; then
        log "NOTE: perf-record: --record-opts decides which clock samples are stamped with: $REPLY"
    else
        clock_options=(-k "$REPLY")
    fi
    keep clock "$REPLY"
    environment perf_record_clock "$REPLY"
    clock_offset "$REPLY"
    environment perf_record_clock_offset "$REPLY"
    rm -rf -- "$BUILD_IDS"
    # perf makes use of a directory for its copies only if its path is absolute
    launch perf.data "$perf" --buildid-dir "$PWD/$BUILD_IDS" record -a "${clock_options[@]}" -o perf.data "${options[@]}"
}

subtool_finish() {
    local perf status=0
    # Compressed by an earlier stop; or perf wrote none, and stop says so
    is_file perf.data || return 0
    may_write perf.data.tar.bz2 || rm -f -- perf.data.tar.bz2
    recall perf; perf=$REPLY
    recall clock
    clock_offset "$REPLY"
    environment perf_record_clock_offset_at_stop "$REPLY"
    recall report
    if [[ $REPLY == ON ]]; then
        write_report "$perf" || status=1
    fi
    archive_binaries "$perf" || status=1
    return "$status"
}

# ---- the clock

# The clock that perf will stamp with, into REPLY. Succeeds if that is decided by perf record's options: perf takes no
# second -k, and refuses any for Intel's processor trace.
clock_of() { # OPTION...
    local number name=''
    for (( number = 1; number <= $#; number++ )); do
        case ${!number} in
            -k | --clockid) name=${*:number + 1:1} ;;
            -k* | --clockid=*) name=${!number#-k} name=${name#--clockid=} ;;
            --no-clockid | *intel_pt* | *intel_bts*) name="perf's own" ;;
        esac
    done
    case ${name,,} in
        '') REPLY=CLOCK_MONOTONIC; return 1 ;;
        1 | clock_monotonic | monotonic | mono) REPLY=CLOCK_MONOTONIC ;;
        0 | clock_realtime | realtime | real) REPLY=CLOCK_REALTIME ;;
        *) REPLY=$name ;;
    esac
}

clock_offset() { # CLOCK: seconds since the epoch minus that clock's time, or "unknown"
    local epoch clock
    case $1 in
        CLOCK_MONOTONIC)
            now_on_both_clocks
            epoch=${REPLY% *} clock=${REPLY#* }
            printf -v REPLY '%d.%09d' $(( (epoch - clock) / 1000000000 )) $(( (epoch - clock) % 1000000000 ))
            ;;
        CLOCK_REALTIME) REPLY=0 ;;
        *) REPLY=unknown ;;
    esac
}

# "<epoch> <CLOCK_MONOTONIC>" of one moment, both in ns
now_on_both_clocks() {
    local before after line clock=''
    epoch_now; before=${REPLY/./}
    while [[ -z $clock ]] && read -r line; do
        [[ ! $line =~ ^now\ at\ ([0-9]+)\ nsecs$ ]] || clock=${BASH_REMATCH[1]}
    done 2>/dev/null </proc/timer_list
    epoch_now; after=${REPLY/./}
    if [[ -n $clock ]]; then
        REPLY="$(( before + (after - before) / 2 )) $clock"
    else
        now_by_uptime
    fi
}

# timer_list is root's. The uptime is in hundredths of a second, and precise at the moment when it changes; it is
# CLOCK_MONOTONIC unless the machine has slept.
now_by_uptime() {
    local uptime
    uptime_now
    uptime=$REPLY
    while (( REPLY == uptime )); do
        uptime_now
    done
    uptime=$REPLY
    epoch_now
    REPLY="${REPLY/./} ${uptime}0000000"
}

# ---- what follows

write_report() { # PERF
    local status
    # A server of debug information may be out of reach, and addr2line may take hours over inlined functions
    fresh perf-report.txt &&
        DEBUGINFOD_URLS='' "$1" --buildid-dir "$PWD/$BUILD_IDS" report --stdio --no-inline -i perf.data >perf-report.txt </dev/null
    status=$?
    (( status != 0 )) || return 0
    warn "perf report failed (exit $status, its words are above): perf-report.txt is not complete"
    return 1
}

archive_binaries() { # PERF
    local status words
    if [[ ! -d $BUILD_IDS ]] && archive_is_whole; then
        return 0        # an earlier stop got that far
    fi
    if ! type -P tar >/dev/null || ! type -P bzip2 >/dev/null; then
        warn "no perf.data.tar.bz2, because tar or bzip2 is missing; the binaries stay in $BUILD_IDS (perf --buildid-dir $BUILD_IDS report)"
        return 0
    fi
    # By a name without blanks: perf-archive does not quote it
    words=$("$1" --buildid-dir "$BUILD_IDS" archive perf.data 2>&1 </dev/null)
    status=$?
    log "perf archive: $words"
    if [[ $words != *'failure status'* ]] && archive_is_whole; then
        rm -rf -- "$BUILD_IDS"
    elif [[ $words == *'no build-ids found'* || -z $(ls -A -- "$BUILD_IDS/.build-id" 2>/dev/null) ]]; then
        # Some perfs, 6.12 among them, keep no copy of the kernel's symbols
        log "NOTE: perf-record: no perf.data.tar.bz2: perf has kept no copy of a binary that a sample hit"
        rm -rf -- "$BUILD_IDS" perf.data.tar.bz2
    else
        rm -f -- perf.data.tar.bz2
        warn "perf archive made no perf.data.tar.bz2 (exit $status, its words are above); what belongs into it stays in $BUILD_IDS"
        return 1
    fi
}

# perf archive itself says 0 even where tar failed
archive_is_whole() {
    local listed
    [[ -f perf.data.tar.bz2 ]] && listed=$(tar -tjf perf.data.tar.bz2 2>/dev/null </dev/null) && [[ -n $listed ]]
}
