# -*- mode: sh; sh-shell: bash; indent-tabs-mode: nil; sh-basic-offset: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=bash
# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# sysfs-trace - saves the kernel's trace buffer, which commands of the user set up and the benchmark turns on and off.
#
# At start: the tracing directory is found (tracefs, else debugfs; mounted if it is not), tracing is turned off, the buffer
# emptied, the setup commands run. No process is left: nothing disturbs the benchmark, which turns tracing on and off.
# At stop: tracing is turned off, what is in the buffer is copied, the cleanup commands run, the buffer is emptied, and what
# was mounted is unmounted. Tracing stays off.
#
# The copy is made of "trace", not of "trace_pipe": reading it takes nothing out of the buffer, which is emptied only when
# the copy is complete. The buffer holds the latest events; how many older ones it had no room for is said in the log
# (a setup command can write to buffer_size_kb).
#
# Commands run in a bash of their own, in the tracing directory, one after the other, with standard output in the log.

parameter sysfs-trace-setup command '' "run in the tracing directory before; may be given more than once"
parameter sysfs-trace-cleanup command '' "run in the tracing directory after; may be given more than once"
parameter sysfs-trace-collection choice:per-cpu,system per-cpu "one output a CPU, or one"
output trace.out
output 'trace.cpu*.out'

TRACING=''              # the tracing directory

subtool_usable() {
    if ! find_tracing; then
        [[ -z $REPLY ]] || skip "$REPLY"
        [[ -d /sys/kernel/tracing || -d /sys/kernel/debug ]] || skip "this kernel has neither tracefs nor debugfs"
    fi
}

subtool_start() {
    local command number=0
    local -a setup cleanup
    # Where it cannot trace at all, trace-cmd says so at once and ends
    if runs trace-cmd && pause 0.5; runs trace-cmd; then
        skip "trace-cmd, started before it, takes all events out of the kernel's trace buffer"
    fi
    values_of setup sysfs-trace-setup
    values_of cleanup sysfs-trace-cleanup
    for command in "${cleanup[@]}"; do
        keep "cleanup/$number" "$command"
        number=$(( number + 1 ))
    done
    keep cleanups "$number"
    value_of sysfs-trace-collection
    keep collection "$REPLY"
    keep mounted ''
    keep directory ''
    keep reached started
    hold
    find_tracing || mount_tracing || skip "$REPLY"
    keep directory "$TRACING"
    log "sysfs-trace: the tracing directory is $TRACING"
    { turn_off && empty_buffer; } || give_up "tracing cannot be turned off, or its buffer not emptied, in $TRACING (see the log)"
    for command in "${setup[@]}"; do
        run_command "$command" || give_up "setup command failed, exit code $?: $command"
    done
    first_line "$TRACING/tracing_on"
    [[ $REPLY == 0 ]] || log "NOTE: sysfs-trace: a setup command has turned tracing on"
}

# What it did itself is undone: the mount. What the commands before the failing one did, their author knows.
give_up() { # REASON
    unmount_tracing
    skip "$1"
}

# At once: while the other collectors end, what is traced would push out what was to be seen.
subtool_halt() {
    recall reached
    [[ $REPLY == started ]] || return 0
    recall directory
    TRACING=$REPLY
    [[ ! -e $TRACING/tracing_on ]] || turn_off
}

# How far an earlier stop got is kept: what is copied and emptied once is not copied again.
subtool_finish() {
    local number count command status=0
    recall reached
    if [[ -z $REPLY ]]; then
        warn "$KEPT_FILE does not tell what was set up: nothing is collected or undone, the trace buffer is left as it is"
        return 1
    fi
    [[ $REPLY != undone ]] || return 0
    recall directory
    TRACING=$REPLY
    if [[ -z $TRACING || ! -e $TRACING/trace ]] && ! find_tracing && ! mount_tracing; then
        warn "there is no tracing directory any more: $REPLY"
        return 1
    fi
    recall reached
    if [[ $REPLY == started ]]; then
        recall collection
        { turn_off && collect "$REPLY"; } || return 1
        keep reached collected || return 1
    fi
    recall reached
    if [[ $REPLY == collected ]]; then
        recall cleanups
        count=$REPLY
        for (( number = 0; number < count; number++ )); do
            recall "cleanup/$number"
            command=$REPLY
            run_command "$command" || { warn "cleanup command failed, exit code $?: $command"; status=1; }
        done
        keep reached cleaned
    fi
    { empty_buffer && unmount_tracing && keep reached undone; } || status=1
    return "$status"
}

# ---- the tracing directory

find_tracing() { # the first that is mounted and may be written; why none, in REPLY, which is empty if none is mounted
    local wanted place type directory unusable=''
    for wanted in tracefs debugfs; do
        while read -r _ place type _; do
            [[ $type == "$wanted" ]] || continue
            # It spells a blank \040
            printf -v directory '%b' "$place"
            [[ $type == tracefs ]] || directory+=/tracing
            if [[ -w $directory/tracing_on ]]; then
                TRACING=$directory
                return 0
            elif [[ -e $directory ]]; then
                unusable="tracing_on in $directory cannot be written: this user may not, or it is mounted read-only"
            fi
        done <"$PROCFS/mounts"
    done
    REPLY=$unusable
    return 1
}

mount_tracing() { # why not, in REPLY
    local type place words reason=''
    for type in tracefs debugfs; do
        place=/sys/kernel/tracing
        [[ $type == tracefs ]] || place=/sys/kernel/debug
        [[ -d $place ]] || continue
        # First, so that stop knows of it however this ends
        keep mounted "$place"
        if words=$(mount -t "$type" "$type" "$place" 2>&1 </dev/null) && find_tracing; then
            log "sysfs-trace: mounted $type on $place"
            return 0
        fi
        one_line "${words:-$REPLY}"
        reason+=${reason:+; }"$type cannot be mounted on $place: $REPLY"
        mountpoint -q -- "$place" && unmount_tracing
        keep mounted ''
    done
    REPLY=$reason
    return 1
}

unmount_tracing() { # if it was mounted here
    local words
    recall mounted
    [[ -n $REPLY ]] || return 0
    # With what is mounted in it: looking into debugfs mounts tracefs there
    if ! words=$(umount --recursive -- "$REPLY" 2>&1 </dev/null); then
        # A command of the user may still work in there: it goes as soon as that ends
        warn "$REPLY is in use, and is unmounted as soon as it is no more: $words"
        recall mounted
        if ! words=$(umount --recursive --lazy -- "$REPLY" 2>&1 </dev/null); then
            warn "$REPLY cannot be unmounted: $words"
            return 1
        fi
    fi
    recall mounted
    log "sysfs-trace: unmounted $REPLY"
    keep mounted ''
}

turn_off() {
    printf '0\n' >"$TRACING/tracing_on"
}

empty_buffer() {
    : >"$TRACING/trace"
}

run_command() { # COMMAND, of the user
    log "sysfs-trace: running $1"
    (
        cd -- "$TRACING" || exit
        close_descriptors
        exec bash -p -c -- "$1" sysfs-trace
    ) </dev/null
}

# ---- the copy

TRACED=()               # CPUs with a buffer of their own that are in tracing_cpumask, or hold events all the same

collect() { # per-cpu|system
    local cpu limit status=0
    local -a copying=()
    look_at_buffers
    if [[ $1 == system ]]; then
        copy "$TRACING/trace" trace.out
        return
    fi
    if (( ${#TRACED[@]} == 0 )); then
        warn "no CPU of tracing_cpumask has a buffer in $TRACING/per_cpu"
        return 1
    fi
    limit=$(nproc) || limit=1
    for cpu in "${TRACED[@]}"; do
        copy "$TRACING/per_cpu/cpu$cpu/trace" "trace.cpu$cpu.out" &
        copying+=("$!")
        if (( ${#copying[@]} == limit )); then
            wait_for_copies "${copying[@]}" || status=1
            copying=()
        fi
    done
    wait_for_copies "${copying[@]}" || status=1
    return "$status"
}

wait_for_copies() { # PID...
    local pid status=0
    for pid in "$@"; do
        wait "$pid" || status=1
    done
    return "$status"
}

copy() { # FROM TO
    fresh "$2" && cat -- "$1" >"$2" && return
    warn "$1 could not be copied to $2, and the buffer is left as it is"
    return 1
}

# What the kernel tells of each CPU's buffer: TRACED, and a warning about events that are not in it any more.
look_at_buffers() {
    local directory cpu name number entries lost total=0 without=''
    local -a masked
    first_line "$TRACING/tracing_cpumask"
    cpus_of_mask masked "$REPLY" || warn "tracing_cpumask in $TRACING is no mask of CPUs: $REPLY"
    TRACED=()
    for directory in "$TRACING"/per_cpu/cpu[0-9]*; do
        cpu=${directory##*/cpu}
        entries=0 lost=0
        while IFS=: read -r name number; do
            case $name in
                entries) entries=$number ;;
                overrun | 'dropped events') lost=$(( lost + number )) ;;
            esac
        done 2>/dev/null <"$directory/stats"
        if [[ " ${masked[*]} " == *" $cpu "* ]] || (( entries > 0 )); then
            TRACED+=("$cpu")
        fi
        if (( lost > 0 )); then
            total=$(( total + lost )) without+=" $cpu"
        fi
    done
    (( total == 0 )) || warn "the buffer had no room for $total events, of CPU$without: a larger buffer_size_kb (--sysfs-trace-setup) keeps more"
}

# Groups of 32 CPUs, the highest first: 1,80000003 is CPUs 0, 1, 31 and 32.
cpus_of_mask() { # ARRAY MASK
    local -n cpus_into=$1
    local mask=$2 bits base=0 bit
    cpus_into=()
    [[ $mask =~ ^[0-9a-fA-F]{1,8}(,[0-9a-fA-F]{1,8})*$ ]] || return 1
    while [[ -n $mask ]]; do
        bits=$(( 16#${mask##*,} ))
        for (( bit = 0; bit < 32; bit++ )); do
            (( ! (bits >> bit & 1) )) || cpus_into+=("$(( base + bit ))")
        done
        base=$(( base + 32 ))
        [[ $mask == *,* ]] || break
        mask=${mask%,*}
    done
    return 0
}
