# -*- mode: sh; sh-shell: bash; indent-tabs-mode: nil; sh-basic-offset: 4 -*-
# vim: autoindent tabstop=4 shiftwidth=4 expandtab softtabstop=4 filetype=bash
# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# common.sh - what kerneltools-start and kerneltools-stop share, and what a subtool's file is written in.
#
# A subtool is the file <subtool>.sh beside this one. Sourced, it declares at its top level
#     parameter NAME KIND DEFAULT MEANING   a parameter of start and stop; kinds: see accept_* below
#     output NAME|PATTERN [plain]           a file in the data directory: start does not overwrite it, stop
#                                           compresses it to NAME.xz ("plain": leaves it as it is)
#     subtool_alias FORMER_NAME             accepted in --subtools, with a word about it
# and defines
#     subtool_usable    may it run here? if not: skip "reason"; default: yes
#     subtool_start     launch OUTPUT COMMAND...; a subtool without a process of its own: hold, before it changes anything
#     subtool_halt      ends what it holds, when the others get SIGINT; quick, may run twice; default: nothing
#     subtool_finish    what follows its end, before compression; may run twice; default: nothing
# Each of them runs in the data directory, in a shell of its own: an exit or an unset variable there is this
# subtool's trouble only; so is a status that is not 0, which is reported. What one of them keeps (keep NAME VALUE) the
# later ones recall, subtool_finish too, where the parameters are those of stop, if any, and not to be looked at. They may
# use: value_of, values_of, split_words, split_events, find_program, find_perf, event_metrics, try_perf, perf_limits, environment, runs,
# close_descriptors, own_words, is_file, fresh, log, warn, skip, keep, recall. A result comes back in REPLY, a list in the array named first.

set -u
# What the caller's shell exports for itself must change nothing here, or in the shells that perf and others are scripts
# of. #!/bin/bash -p ignores most of it (functions, SHELLOPTS, BASHOPTS, BASH_ENV, CDPATH, GLOBIGNORE); the rest bash obeys.
unset -v BASH_ENV ENV CDPATH GLOBIGNORE EXECIGNORE POSIXLY_CORRECT BASH_COMPAT FUNCNEST TMOUT
export -n SHELLOPTS BASHOPTS
export LC_ALL=C         # perf writes numbers that are not JSON where the decimal point is a comma

readonly CLOCK=kerneltools-clock.txt RECORD=kerneltools-pids.txt ENVIRONMENT=kerneltools-environment.txt
readonly KEPT_FILE=kerneltools-kept.txt
# Other roots than /proc and /sys for what is only read to describe the machine (tests). Processes are always looked up in /proc.
PROCFS=${KERNELTOOLS_PROCFS:-/proc}
SYSFS=${KERNELTOOLS_SYSFS:-/sys}
SUBTOOLS_DIR=${BASH_SOURCE[0]%/*}
CATALOGUE=${SUBTOOLS_DIR%/*}/kerneltools/catalogue.tsv

# ---- files in the data directory, which may have been put there by anybody: nothing is written through a link, and nothing read
# from a FIFO or a device, at which one waits for ever, or from a file that is larger than start and stop make it.

readonly MOST_BYTES=4194304

is_file() { # FILE: does a file itself lie there?
    [[ -f $1 && ! -L $1 ]]
}

may_write() { # FILE: does a file itself lie there, or nothing?
    [[ ! -L $1 ]] && [[ ! -e $1 || -f $1 ]]
}

may_read() { # FILE, whole
    is_file "$1" && (( $(stat -c %s -- "$1") <= MOST_BYTES ))
}

append() { # FILE LINE...
    may_write "$1" && printf '%s\n' "${@:2}" >>"$1"
}

fresh() { # FILE: empty and new, whatever lay there
    rm -f -- "$1" && (set -C; : >"$1")
}

# ---- messages: standard error is the log, but for errors, which the caller is to see too

CALLER_STDERR=''
subtool=''              # the subtool whose functions run in this shell

log() {
    printf '%s\n' "$*" >&2
}

warn() { # one line, whatever foreign words are in it
    local REPLY
    one_line "$*"
    log "WARNING: ${subtool:+$subtool: }$REPLY"
}

error() {
    local REPLY
    one_line "$*"
    log "ERROR: $REPLY"
    # In a subshell, because a caller that has closed its end must cost the message only
    [[ -z $CALLER_STDERR ]] || (printf 'ERROR: %s\n' "$REPLY" >&"$CALLER_STDERR") 2>/dev/null
}

# open_log NAME ARGUMENT...: from here on everything goes to <NAME>-stderrout.txt; if it cannot: why, in REPLY
open_log() {
    local name=$1 file=$1-stderrout.txt date
    shift
    exec {CALLER_STDERR}>&2 || CALLER_STDERR=''      # it may be closed
    if ! may_write "$file" || ! { : >>"$file"; } 2>/dev/null; then
        exec >/dev/null 2>&1
        REPLY="cannot write $file in $(printf '%q' "$PWD")"
        may_write "$file" || REPLY+=': it is a link, or no file'
        return 1
    fi
    exec >>"$file" 2>&1
    printf -v date '%(%Y-%m-%dT%H:%M:%S%z)T' -1
    as_typed "$name" "$@"
    log "$REPLY"
    as_typed "$PWD"
    log "at $date on ${HOSTNAME:-unknown} in $REPLY"
    return 0            # a log that is there but full is no reason to do nothing
}

# The line of a program's standard error that says what went wrong: perf puts it behind \___ or after "Error:",
# with usage and hints below, and its wrapper on Ubuntu first; others say it last. Of a line that is longer, its beginning:
# nobody reads a million characters, and to trim a million blanks takes bash an hour. Behind the words: what helps.
readonly LONGEST_WORDS=1000
own_words() { # FILE
    local line previous='' last='' words='' package=''
    {
        while IFS= read -r line || [[ -n $line ]]; do
            trim "${line:0:LONGEST_WORDS}"
            line=$REPLY
            if [[ -z $line ]]; then
                continue
            fi
            if [[ $line =~ \\___\ (.+) ]]; then
                words=${BASH_REMATCH[1]}
            elif [[ $previous == Error: && -z $words ]]; then
                words=$line
            elif [[ $line =~ ^Error:\ (.+) && -z $words ]]; then
                words=${BASH_REMATCH[1]}
            elif [[ $line =~ (perf not found for kernel .+) && -z $words ]]; then
                words=${BASH_REMATCH[1]}
            elif [[ $line =~ ^linux-tools-[^[:space:]]+$ && -z $package ]]; then
                package=$line
            fi
            previous=$line
            # A hint, of perf's, says nothing about what went wrong
            [[ $line == @(Hint:|Consider |or try |\(current value)* ]] || last=$line
        done
    } 2>/dev/null <"$1"
    one_line "${words:-${last:-it said nothing}}"
    words=$REPLY
    what_helps "$words" "$package"
    REPLY=$words${REPLY:+ ($REPLY)}
}

words_in() { # FILE: own_words of what a collector said, of which the beginning and the end do
    if [[ ! -e $1 && ! -L $1 ]] || may_read "$1"; then
        own_words "$1"
    elif is_file "$1"; then
        own_words <(head -c "$(( MOST_BYTES / 8 ))" -- "$1"; printf '\n'; tail -c "$(( MOST_BYTES / 8 ))" -- "$1")
    else
        REPLY="$1 is a link, or no file, and is not read"
    fi
}

# what_helps WORDS [PACKAGE]: what to install or to set where a program said that; nothing where its words must do
what_helps() {
    case $1 in
        *'perf not found for kernel'*)
            REPLY="install ${2:-linux-tools of this kernel}, or have a perf of another kernel first on PATH: any version does" ;;
        *'unknown option `json'*)
            REPLY='this perf is too old, it needs perf 6.0 or newer' ;;
        *'Access to performance monitoring'* | *'not have permission to collect'* | *perf_event_open*'(Operation not permitted)'* | \
            *perf_event_open*'(Permission denied)'*)
            REPLY='be root, or set sysctl kernel.perf_event_paranoid=-1; a container needs CAP_PERFMON, or to be privileged' ;;
        *'Permission error mapping pages'*)
            REPLY='be root, or raise sysctl kernel.perf_event_mlock_kb' ;;
        *'Too many events are opened'* | *[Tt]'oo many open files'*)
            REPLY="the limit on open files is $(ulimit -n): raise ulimit -Hn" ;;
        *'Failed to set rlimit'*)
            REPLY="it wants 32768 open files, the limit is $(ulimit -Hn): raise ulimit -Hn, or give it CAP_SYS_RESOURCE" ;;
        *) REPLY='' ;;
    esac
}

trim() { # TEXT
    REPLY=${1#"${1%%[![:space:]]*}"}
    REPLY=${REPLY%"${REPLY##*[![:space:]]}"}
}

one_line() { # TEXT
    REPLY=${1//[[:cntrl:]]/ }
}

as_typed() { # WORD...: as one would type them into a shell, on one line
    local word shown text=''
    for word in "$@"; do
        if [[ $word =~ ^[A-Za-z0-9_./:=,+@%-]+$ ]]; then
            shown=$word
        elif [[ $word == *[[:cntrl:]\']* ]]; then
            printf -v shown '%q' "$word"
        else
            shown="'$word'"
        fi
        text+=${text:+ }$shown
    done
    REPLY=$text
}

joined() { # SEPARATOR WORD...
    local separator=$1 word
    shift
    REPLY=''
    for word in "$@"; do
        REPLY+=${REPLY:+$separator}$word
    done
}

# ---- time

epoch_now() { # seconds.nanoseconds
    if [[ -n ${EPOCHREALTIME:-} ]]; then
        REPLY=${EPOCHREALTIME}000
    else
        REPLY=$(date +%s.%N)
    fi
}

uptime_now() { # in hundredths of a second: does not jump when somebody sets the clock
    local up
    read -r up _ </proc/uptime
    REPLY=$(( 10#${up/./} ))
}

NEVER=''
pause() { # SECONDS, without a process: waits on a pipe into which nobody writes
    [[ -n $NEVER ]] || exec {NEVER}<> <(:)
    read -r -t "$1" -u "$NEVER" _
}

# in_thousandths SECONDS [LEAST MOST]: whole milliseconds, rounded; fails if it is no number or out of range
in_thousandths() {
    local whole fraction
    [[ $1 =~ ^([0-9]*)(\.([0-9]*))?$ && $1 == *[0-9]* ]] || return 1
    whole=${BASH_REMATCH[1]:-0} fraction=${BASH_REMATCH[3]}0000
    whole=${whole#"${whole%%[!0]*}"}
    (( ${#whole} <= 9 )) || return 1
    REPLY=$(( 10#${whole:-0} * 1000 + 10#${fraction:0:3} ))
    (( REPLY >= ${2:-0} )) || return 1
    (( ${fraction:3:1} < 5 )) || REPLY=$(( REPLY + 1 ))
    (( REPLY <= ${3:-REPLY} ))
}

# ---- declarations: each subtool's file is read once in a shell of its own, which sends back what it declares

SUBTOOLS=()             # in the order of their files
PARAMETERS=()           # names, the shared ones first
declare -A KIND=() VALUE=() COUNT=() MEANING=() OWNER=() OUTPUTS=() PLAIN=() FORMER=()
DECLARING=''

parameter() { # NAME KIND DEFAULT MEANING
    [[ -z $DECLARING ]] || printf '%s\0' parameter "$@" >&"$DECLARING"
}

output() { # NAME [plain]
    [[ -z $DECLARING ]] || printf '%s\0' output "$1" "${2:-compressed}" - - >&"$DECLARING"
}

subtool_alias() { # FORMER_NAME
    [[ -z $DECLARING ]] || printf '%s\0' alias "$1" - - - >&"$DECLARING"
}

shared_declarations() {
    parameter subtools subtools turbostat "what to run"
    parameter interval seconds 10 "the time between two samples"
}

declarations_of() { # SUBTOOL, or nothing for the shared ones
    exec {DECLARING}>&1 >&2
    if [[ -z $1 ]]; then
        shared_declarations
    else
        # shellcheck source=/dev/null
        source "$SUBTOOLS_DIR/$1.sh"
    fi
}

load_declarations() {
    local file
    for file in "$SUBTOOLS_DIR"/*.sh; do
        file=${file##*/}
        [[ $file == common.sh ]] || SUBTOOLS+=("${file%.sh}")
    done
    for subtool in '' "${SUBTOOLS[@]}"; do
        declare_from "$subtool" < <(declarations_of "$subtool")
    done
    subtool=''
}

declare_from() { # SUBTOOL < its declarations
    local what name a b c
    while IFS= read -r -d '' what && IFS= read -r -d '' name && IFS= read -r -d '' a && IFS= read -r -d '' b && IFS= read -r -d '' c; do
        case $what in
            parameter)
                PARAMETERS+=("$name")
                KIND[$name]=$a VALUE[$name]=$b MEANING[$name]=$c OWNER[$name]=$1 COUNT[$name]=0
                ;;
            output)
                OUTPUTS[$1]=${OUTPUTS[$1]:-}$name$'\n'
                PLAIN[$name]=$a
                ;;
            alias)
                FORMER[$name]=$1
                ;;
        esac
    done
}

outputs_of() { # ARRAY SUBTOOL KIND...: the names and patterns of those kinds that it declares
    local -n outputs_into=$1
    local name of=$2
    shift 2
    outputs_into=()
    while IFS= read -r name; do
        if [[ -n $name && " $* " == *" ${PLAIN[$name]} "* ]]; then
            outputs_into+=("$name")
        fi
    done < <(printf '%s' "${OUTPUTS[$of]:-}")
}

# ---- parameters. A kind K[:SPEC] is two functions: accept_K VALUE SPEC checks, and leaves in REPLY the value as it is
# to be used, or the part of it that is wrong; describe_K SPEC says what is accepted.

accept_text() { REPLY=$1; }
describe_text() { REPLY='text'; }

accept_command() { REPLY=$1; }      # may be given more than once
describe_command() { REPLY='a shell command'; }

accept_options() {
    # shellcheck disable=SC2034    # only whether it can be split matters here
    local -a words
    split_words words "$1" && REPLY=$1
}
describe_options() { REPLY='options, quoted as a shell quotes them (quotes closed, no backslash at the end)'; }

accept_events() {
    # shellcheck disable=SC2034    # likewise
    local -a items members
    local item good=1
    split_events items "$1" || good=''
    for item in "${items[@]}"; do
        if [[ $item =~ ^\{(.*)\}[^{}]*$ ]]; then
            split_events members "${BASH_REMATCH[1]}" || good=''
            [[ " ${members[*]} " != *' default '* ]] || good=''
        fi
    done
    REPLY=$1
    [[ -n $good ]]
}
describe_events() { REPLY='a comma list of perf events (no empty element, {...} and /.../ closed, "default" outside of {...})'; }

accept_flag() {
    [[ $1 == ON || $1 == OFF ]] && REPLY=$1
}
describe_flag() { REPLY='nothing, ON or OFF'; }

accept_choice() {
    [[ $1 != *,* && ,$2, == *",$1,"* ]] && REPLY=$1
}
describe_choice() { REPLY="one of ${1//,/ }"; }

accept_integer() {
    [[ $1 =~ ^[0-9]{1,9}$ ]] && (( 10#$1 >= ${2%-*} && 10#$1 <= ${2#*-} )) && REPLY=$(( 10#$1 ))
}
describe_integer() { REPLY="a whole number from ${1%-*} to ${1#*-}"; }

readonly MOST_SECONDS=4294967       # perf counts an interval's milliseconds in an unsigned int
accept_seconds() {
    local accepted=0
    in_thousandths "$1" 10 "${MOST_SECONDS}000" || accepted=1
    REPLY=$1
    return "$accepted"
}
describe_seconds() { REPLY="seconds, from 0.01 to $MOST_SECONDS, fractions allowed"; }

accept_subtools() {
    local rest=$1, name known=" ${SUBTOOLS[*]} " list=,
    while [[ -n $rest ]]; do
        name=${rest%%,*} rest=${rest#*,}
        if [[ -n $name && -n ${FORMER[$name]:-} ]]; then
            warn "--subtools: $name is the former name of ${FORMER[$name]}"
            name=${FORMER[$name]}
        fi
        if [[ -z $name || $name == *[[:space:]]* || $known != *" $name "* ]]; then
            REPLY=$name
            return 1
        fi
        [[ $list == *",$name,"* ]] || list+=$name,
    done
    list=${list#,} REPLY=${list%,}
}
describe_subtools() {
    joined ' ' "${SUBTOOLS[@]}"
    REPLY="a comma list of $REPLY"
}

# Takes in start's or stop's arguments; fails on the first that is wrong, with what is accepted in REPLY.
parse_parameters() {
    local argument name value shown
    while (( $# )); do
        argument=$1
        shift
        as_typed "$argument"
        shown=$REPLY
        name=${argument#--} name=${name%%=*}
        if [[ $argument != --?* || -z $name || -z ${KIND[$name]:-} ]]; then
            joined ' --' "${PARAMETERS[@]}"
            REPLY="unknown parameter $shown; accepted: --$REPLY"
            return 1
        fi
        if [[ $argument == *=* ]]; then
            value=${argument#*=}
        elif [[ ${KIND[$name]} == flag ]]; then
            value=ON
            if [[ ${1:-} == ON || ${1:-} == OFF ]]; then
                value=$1
                shift
            fi
        elif (( $# )) && [[ $1 != --* ]]; then
            value=$1
            shift
        else
            value=''
        fi
        set_parameter "$name" "$value" || return 1
    done
}

set_parameter() { # NAME VALUE
    local name=$1 value=$2 kind=${KIND[$1]%%:*} spec='' shown
    [[ ${KIND[$1]} != *:* ]] || spec=${KIND[$1]#*:}
    if [[ -z $value ]]; then
        "describe_$kind" "$spec"
        REPLY="--$name: its value is missing; accepted: $REPLY"
        return 1
    fi
    REPLY=$value
    if ! "accept_$kind" "$value" "$spec"; then
        as_typed "$REPLY"
        shown=$REPLY
        "describe_$kind" "$spec"
        REPLY="--$name: bad value $shown; accepted: $REPLY"
        return 1
    fi
    VALUE[$name]=$REPLY
    if [[ $kind == command ]]; then
        VALUE[$name/${COUNT[$name]}]=$REPLY
    fi
    COUNT[$name]=$(( ${COUNT[$name]} + 1 ))
}

value_of() { # NAME
    REPLY=${VALUE[$1]}
}

values_of() { # ARRAY NAME, of a parameter that may be given more than once
    local -n values_into=$1
    local number
    values_into=()
    for (( number = 0; number < ${COUNT[$2]}; number++ )); do
        values_into+=("${VALUE[$2/$number]}")
    done
}

asked_for_help() {
    local argument
    for argument in "$@"; do
        [[ $argument != --help && $argument != -h ]] || return 0
    done
    return 1
}

usage() { # NAME WHAT
    local name owner=-
    printf 'Usage: %s [--PARAMETER=VALUE ...]\n%s\n' "$1" "$2"
    for name in "${PARAMETERS[@]}"; do
        if [[ ${OWNER[$name]} != "$owner" ]]; then
            owner=${OWNER[$name]}
            printf '\n%s:\n' "${owner:-for all subtools}"
        fi
        "describe_${KIND[$name]%%:*}" "${KIND[$name]#*:}"
        printf '  --%s\n        %s\n        %s%s\n' "$name" "${MEANING[$name]}" "$REPLY" "${VALUE[$name]:+ (default: ${VALUE[$name]})}"
    done
    if (( ${#FORMER[@]} )); then
        printf '\nformer names: '
        for name in "${!FORMER[@]}"; do
            printf '%s (%s) ' "$name" "${FORMER[$name]}"
        done
        printf '\n'
    fi
}

# ---- lists

# Splits as a shell splits words (blanks, both quotes, backslash), and expands nothing. Fails if a quote is not closed.
split_words() { # ARRAY TEXT
    local -n words_into=$1
    local text=$2 character quote='' word='' started='' position
    words_into=()
    for (( position = 0; position < ${#text}; position++ )); do
        character=${text:position:1}
        if [[ $quote == "'" ]]; then
            if [[ $character == "'" ]]; then quote=''; else word+=$character; fi
        elif [[ $character == "\\" ]]; then
            position=$(( position + 1 ))
            (( position < ${#text} )) || return 1
            character=${text:position:1}
            # Between double quotes a backslash is itself, but before these
            [[ -z $quote || $character == [\"\\\$\`$'\n'] ]] || word+="\\"
            [[ $character == $'\n' ]] || word+=$character
            started=1
        elif [[ $quote == '"' ]]; then
            if [[ $character == '"' ]]; then quote=''; else word+=$character; fi
        elif [[ $character == [\'\"] ]]; then
            quote=$character started=1
        elif [[ $character == [[:space:]] ]]; then
            [[ -z $started ]] || words_into+=("$word")
            word='' started=''
        else
            word+=$character started=1
        fi
    done
    [[ -z $quote ]] || return 1
    [[ -z $started ]] || words_into+=("$word")
}

# Splits a perf event list on the commas outside /.../ and {...}; surrounding blanks go.
split_events() { # ARRAY TEXT
    local -n events_into=$1
    local text=$2 character item='' in_group='' in_pmu='' position
    events_into=()
    for (( position = 0; position <= ${#text}; position++ )); do
        character=${text:position:1}
        if [[ -z $in_pmu$in_group && ( $character == , || -z $character ) ]]; then
            trim "$item"
            [[ -n $REPLY ]] || return 1
            events_into+=("$REPLY")
            item=''
            continue
        fi
        case $in_pmu$character in
            /) [[ $item == *mem:* ]] || in_pmu=1 ;;      # a breakpoint's mem:address/length
            1/) in_pmu='' ;;
            \{)
                [[ -z $in_group && -z ${item//[[:space:]]/} ]] || return 1
                in_group=1
                ;;
            \})
                [[ -n $in_group ]] || return 1
                in_group=''
                ;;
        esac
        item+=$character
    done
    [[ -z $in_pmu$in_group ]]
}

# Which of a subtool's metrics can be computed from these events, in the catalogue's order. A pair counts with the
# modifier that both sides share, as the post-processor pairs them.
event_metrics() { # ARRAY SUBTOOL EVENT...
    local -n metrics_into=$1
    local of=$2 line_subtool type formula numerator denominator event name
    local -A have=() of_default=()          # of_default: under a name of perf's; rates are of those only
    metrics_into=()
    shift 2
    for event in "$@"; do
        catalogue_names "$event"
        for name in "${NAMES[@]}"; do
            have[$name]=1
            [[ $KIND == same ]] || of_default[$name]=1
        done
    done
    while IFS=$'\t' read -r line_subtool type _ _ _ formula _; do
        if [[ $line_subtool != "$of" ]] || ! parse_formula "$formula"; then
            continue
        fi
        numerator=${REPLY% *} denominator=${REPLY#* }
        for event in "${!have[@]}"; do
            if [[ $event == "$numerator" || $event == "$numerator":* ]] &&
                { [[ $denominator == seconds && -n ${of_default[$event]:-} ]] || [[ -n ${have[$denominator${event#"$numerator"}]:-} ]]; }; then
                metrics_into+=("$type")
                break
            fi
        done
    done <"$CATALOGUE"
}

parse_formula() { # FORMULA: "A / B ..." gives "A B"
    [[ $1 =~ ^([^\ ]+)\ /\ ([^\ ]+)(\ .*)?$ ]] && REPLY="${BASH_REMATCH[1]} ${BASH_REMATCH[2]}"
}

# An event's names as the catalogue spells them: a core PMU's pmu/event/u is event:u, an alias is what the default list calls it, a
# CPU's own event what it is the same as.
declare -A ALIASES=() KINDS=()
NAMES=() KIND=''
catalogue_names() { # EVENT: its names in NAMES; KIND is the table's word for them, empty for a name of its own
    local event=$1 modifier='' alias names kind
    if (( ${#ALIASES[@]} == 0 )); then
        while IFS=$'\t' read -r alias names kind; do
            [[ -z $names || $alias == \#* ]] || ALIASES[$alias]=$names KINDS[$alias]=$kind
        done <"${CATALOGUE%/*}/perf_aliases.tsv"
    fi
    if [[ $event =~ ^[A-Za-z0-9_]+/([^/=,]+)/([A-Za-z]*)$ ]]; then
        event=${BASH_REMATCH[1]}${BASH_REMATCH[2]:+:${BASH_REMATCH[2]}}
    fi
    if [[ $event =~ ^([^:]+)(:[A-Za-z]+)$ && ! -d $SYSFS/kernel/tracing/events/${BASH_REMATCH[1]} ]]; then
        event=${BASH_REMATCH[1]} modifier=${BASH_REMATCH[2]}
    fi
    NAMES=("$event")
    names=${ALIASES[${event,,}]:-} KIND=${KINDS[${event,,}]:-}
    if [[ -n $names ]]; then
        IFS=',' read -ra NAMES <<<"$names"
    fi
    NAMES=("${NAMES[@]/%/$modifier}")
}

# ---- trying perf before the collection

TRIED=()                # the records (JSON lines) that the last try printed
TRIED_STATUS=''         # its exit status
TRIED_WORDS=''          # what it had to say beside them, and
TRIED_SHORT=''          # 1 if it was short of open files

# try_perf PERF stat ARGUMENT...: for 20 s at most.
try_perf() {
    try_once "$@"
    # perf 7 does not fail where it is short of files: it goes on without the event, prints it as if this machine had no such
    # event, and tells the reason with -v only
    if [[ -z $TRIED_SHORT && "${TRIED[*]}" == *'<not supported>'* ]]; then
        local -a tried=("${TRIED[@]}")
        local status=$TRIED_STATUS words=$TRIED_WORDS
        try_once "$1" "$2" -v "${@:3}"
        if [[ -n $TRIED_SHORT ]]; then
            TRIED=() TRIED_WORDS='Too many events are opened.'
        else
            # shellcheck disable=SC2034     # the subtools' files read it
            TRIED=("${tried[@]}") TRIED_STATUS=$status TRIED_WORDS=$words
        fi
    fi
}

# The status comes as the last line, because bash does not always remember that of a process substitution.
try_once() { # COMMAND...
    local line messages='' last='kerneltools: exit status '
    TRIED=() TRIED_STATUS=unknown
    while IFS= read -r line; do
        if [[ $line == "$last"* ]]; then
            TRIED_STATUS=${line#"$last"}
        elif [[ $line == *'"event"'* || $line == *'"counter-value"'* || $line == *'"metric-'* ]]; then
            TRIED+=("$line")
        elif [[ $line != \#* ]]; then
            messages+=$line$'\n'
        fi
    done < <(timeout 20 "$@" 2>&1 </dev/null; printf '\n%s%d\n' "$last" "$?")
    own_words <(printf '%s' "$messages")
    [[ $TRIED_STATUS != 124 ]] || REPLY='perf did not come back within 20 s'
    # shellcheck disable=SC2034     # the subtools' files read both
    TRIED_WORDS=$REPLY TRIED_SHORT=''
    if [[ $messages == *'Too many '@('events are opened'|'open files')* ]]; then
        # shellcheck disable=SC2034
        TRIED_SHORT=1
    fi
}

# short_of_files NUMBER_OF_EVENTS COMMAND...: the reason why not all of it is counted where perf was short of open files, with
# the limit that would have been enough, into REPLY. An event takes one file a CPU, but a name may stand for several
# events: how many there are, COMMAND tells on one CPU.
short_of_files() {
    local events=0 limit line
    limit=$(ulimit -n)
    try_perf "${@:2}"
    for line in "${TRIED[@]}"; do
        [[ $line != *'"counter-value"'* ]] || events=$(( events + 1 ))
    done
    events=$(( events > $1 ? events : $1 ))
    first_line "$SYSFS/devices/system/cpu/online"
    count_cpus "$REPLY"
    # Beside the counters there are standard files, output and maps; 32 is plenty
    events=$(( events * REPLY + 32 ))
    REPLY="too many open files: the limit is $limit (ulimit -Hn), $events would do for all of it"
    [[ $limit != unlimited ]] && (( events > limit )) || REPLY+="; as that is not above the limit, look at sysctl fs.file-max"
}

# ---- the machine

find_program() { # NAME [DIRECTORY...]: on PATH, in /usr/local/bin, or there
    local directory name=$1
    shift
    REPLY=$(type -P -- "$name") && [[ -x $REPLY ]] && return 0
    for directory in /usr/local/bin "$@"; do
        REPLY=$directory/$name
        [[ -f $REPLY && -x $REPLY ]] && return 0
    done
    REPLY=''
    return 1
}

first_line() { # FILE: its first line, or "unknown"
    REPLY=''
    { IFS= read -r REPLY; } 2>/dev/null <"$1"
    REPLY=${REPLY:-unknown}
}

count_cpus() { # LIST, as in 0-3,8
    local rest=$1, range number=0
    while [[ -n $rest ]]; do
        range=${rest%%,*} rest=${rest#*,}
        if [[ $range =~ ^([0-9]+)(-([0-9]+))?$ ]]; then
            number=$(( number + ${BASH_REMATCH[3]:-BASH_REMATCH[1]} - BASH_REMATCH[1] + 1 ))
        fi
    done
    REPLY=$number
}

environment() { # KEY VALUE: one line of kerneltools-environment.txt; replaces an earlier one of that key
    local line lines=''
    may_write "$ENVIRONMENT" || return 1
    {
        while IFS= read -r line; do
            [[ $line == "$1="* ]] || lines+=$line$'\n'
        done
    } 2>/dev/null <"$ENVIRONMENT"
    one_line "$2"
    printf '%s%s=%s\n' "$lines" "$1" "${REPLY:-unknown}" >"$ENVIRONMENT"
}

# find_perf: a perf that runs, into REPLY; where there is none, why.
find_perf() {
    local perf version
    if ! find_program perf; then
        REPLY='perf is neither on PATH nor in /usr/local/bin: install perf (Debian: linux-perf)'
        return 1
    fi
    perf=$REPLY
    if version=$(timeout 20 "$perf" --version 2>/dev/null </dev/null); then
        environment perf_version "$version"
        REPLY=$perf
        return 0
    fi
    own_words <(timeout 20 "$perf" --version 2>&1 </dev/null)
    REPLY="$perf does not run: $REPLY"
    return 1
}

# What costs perf its accuracy, or its permission, on this machine. To be called by a subtool that runs perf.
perf_limits() {
    local paranoid pmu
    first_line "$PROCFS/sys/kernel/nmi_watchdog"
    if [[ $REPLY == 1 ]]; then
        for pmu in "$SYSFS"/bus/event_source/devices/{cpu,cpu_core,armv*}; do
            if [[ -e $pmu ]]; then
                warn "nmi_watchdog=1 holds one hardware counter: more multiplexing, groups may not fit (sysctl kernel.nmi_watchdog=0)"
                break
            fi
        done
    fi
    first_line "$PROCFS/sys/kernel/perf_event_paranoid"
    paranoid=$REPLY
    if [[ $paranoid =~ ^[0-9]+$ ]] && (( paranoid > 0 && EUID != 0 )); then
        warn "perf_event_paranoid=$paranoid forbids counting the whole system to user $EUID, unless perf has CAP_PERFMON: be root, or sysctl kernel.perf_event_paranoid=0"
    fi
}

# ---- the record of collectors: kerneltools-pids.txt
#     <subtool> <pid> <start time> <output>              a collector, written by itself
#     <subtool> - <epoch> -                              a subtool that holds from then on, without a process
#     signalled <subtool> <pid> <start time> <epoch>     SIGINT was sent to it then
#     ended|finished <subtool> <pid> <start time>        its end is in the clock file; its subtool_finish is done

COLLECTORS=()           # "<subtool> <pid> <start time>", in the record's order
declare -A COLLECTOR_OUTPUT=() MARK=()

read_record() {
    local a b c d e known
    COLLECTORS=() COLLECTOR_OUTPUT=() MARK=()
    may_read "$RECORD" || return 1
    while read -r a b c d e; do
        if [[ $a == @(signalled|ended|finished) ]]; then
            MARK["$a $b $c $d"]=${e:-yes}
        elif [[ $b =~ ^(-|[1-9][0-9]{0,9})$ && $c =~ ^[0-9]+$ && -n $d ]]; then
            known=${COLLECTOR_OUTPUT["$a $b $c"]:-}
            [[ -n $known ]] || COLLECTORS+=("$a $b $c")
            # In this directory, whatever is recorded: stop compresses it, and takes it away
            d=$d${e:+ $e}
            COLLECTOR_OUTPUT["$a $b $c"]=${d##*/}
        elif [[ -n $a ]]; then
            log "NOTE: $RECORD: a line that records nothing: $a $b $c"
        fi
    done <"$RECORD"
}

mark() { # KIND COLLECTOR [VALUE]
    MARK["$1 $2"]=${3:-yes}
    append "$RECORD" "$1 $2${3:+ $3}"
}

marked() { # KIND COLLECTOR
    REPLY=${MARK["$1 $2"]:-}
    [[ -n $REPLY ]]
}

# read_stat PID: state, process group, session and start time of /proc/<pid>/stat into STAT; its second field is a
# program's name, which may hold anything
STAT=()
read_stat() {
    local stat=''
    STAT=()
    { IFS= read -r -d '' stat; } 2>/dev/null <"/proc/$1/stat"
    [[ $stat =~ ^.*\)\ (.)\ ([-0-9]+)\ ([-0-9]+)\ ([-0-9]+)\ ([-0-9]+\ ){15}([0-9]+)\  ]] || return 1
    STAT=("${BASH_REMATCH[1]}" "${BASH_REMATCH[3]}" "${BASH_REMATCH[4]}" "${BASH_REMATCH[6]}")
}

alive() { # COLLECTOR: is it there, and the one that was recorded?
    local pid=${1#* }
    pid=${pid% *}
    read_stat "$pid" && [[ ${STAT[3]} == "${1##* }" && ${STAT[0]} != [ZX] ]]
}

held() { # COLLECTOR: is it a subtool without a process?
    [[ $1 == *' - '* ]]
}

in_effect() { # COLLECTOR: it is alive, or holds and is not finished
    if held "$1"; then
        ! marked finished "$1"
    else
        alive "$1"
    fi
}

runs() { # SUBTOOL: is it one of those that were started here before, and neither stopped nor gave up?
    local collector
    read_record
    for collector in "${COLLECTORS[@]}"; do
        if [[ ${collector%% *} == "$1" ]] && in_effect "$collector" && ! { held "$collector" && [[ -n ${REASON[$1]:-} ]]; }; then
            return 0
        fi
    done
    return 1
}

# ---- launching

close_descriptors() { # EXCEPT...: all but the three standard ones and those
    local fd
    for fd in /proc/self/fd/*; do
        fd=${fd##*/}
        if (( fd > 2 )) && [[ " $* " != *" $fd "* ]]; then
            exec {fd}>&-
        fi
    done
}

# Runs in the process that becomes the collector: records itself, lets go of every inherited descriptor, becomes it.
# Because it records itself, and keeps the directory locked until it has, stop knows all that was started, however start
# ended.
run_recorded() { # SUBTOOL OUTPUT ANSWER LOCK COMMAND...
    local of=$1 output=$2 answer=$3 lock=$4 fd ignored='' clean=()
    shift 4
    close_descriptors "$answer" "$lock"
    # bash cannot undo an ignored SIGINT that it inherited; env can, where it is new enough
    while read -r fd ignored _; do
        [[ $fd != SigIgn: ]] || break
    done </proc/self/status
    if [[ $fd == SigIgn: ]] && (( 0x$ignored & 6 )) && env --default-signal=INT true 2>/dev/null; then
        clean=(env --default-signal=INT --default-signal=QUIT --)
    fi
    if ! read_stat "$$" || ! append "$RECORD" "$of $$ ${STAT[3]} $output"; then
        printf 'cannot write %s\n' "$RECORD" >&"$answer"
        exit 1
    fi
    epoch_now
    if ! append "$CLOCK" "$of begin $REPLY"; then
        printf 'cannot write %s\n' "$CLOCK" >&"$answer"
        exit 1
    fi
    printf 'recorded\n' >&"$answer"
    exec {answer}>&-
    (( lock == 0 )) || exec {lock}>&-
    exec "${clean[@]}" "$@"
}

# launch OUTPUT COMMAND...: a collector in a session of its own. setsid forks where it is a group's leader, as a job
# under set -m is; without set -m the job would have SIGINT ignored.
launch() {
    local output=$1 answer reply=''
    shift
    as_typed "$@"
    log "$subtool: starting $REPLY"
    exec {answer}<> <(:)
    (
        set -m
        setsid bash -p -c "source \"\$0\" && run_recorded \"\$@\"" "$SUBTOOLS_DIR/common.sh" \
            "$subtool" "$output" "$answer" "${LOCK:-0}" "$@" </dev/null >>"$subtool-stderrout.txt" 2>&1 &
        wait "$!"
    ) && read -r -t 5 -u "$answer" reply
    exec {answer}>&-
    [[ $reply == recorded ]] || skip "could not be launched: ${reply:-no answer}"
}

# hold: the subtool is in effect from here on, without a process; stop will call its subtool_finish, however start ends
hold() {
    epoch_now
    append "$RECORD" "$subtool - ${REPLY/./} -" || skip "cannot write $RECORD"
}

# ---- a subtool's functions, in a shell of their own

REPORT=''               # where this shell tells the driver what became of the subtool
declare -A KEPT=()      # by <subtool>/<name>: what its functions kept; in kerneltools-kept.txt, for stop too
declare -A REASON=()    # why a subtool does not run

skip() { # REASON: this subtool cannot run here
    printf '%s\0' skip '' "$1" >&"$REPORT"
    exit 0
}

note_report() { # SUBTOOL WHAT NAME VALUE: the driver's side of skip
    [[ $2 != skip ]] || REASON[$1]=$4
}

keep() { # NAME VALUE: a line <subtool> <name> = "<value>", in which backslash and line feed are \\ and \n
    local value=${2//\\/\\\\}
    value=${value//$'\n'/\\n}
    KEPT[$subtool/$1]=$2
    append "$KEPT_FILE" "$subtool $1 = \"$value\""
}

read_kept() {
    local of name value
    may_read "$KEPT_FILE" || return 0
    while read -r of name _ value; do
        value=${value#\"}
        printf -v value '%b' "${value%\"}"
        KEPT[$of/$name]=$value
    done 2>/dev/null <"$KEPT_FILE"
}

recall() { # NAME
    REPLY=${KEPT[$subtool/$1]:-}
}

subtool_usable() { :; }
subtool_start() { skip 'its file defines no subtool_start'; }
subtool_halt() { :; }
subtool_finish() { :; }

in_subtool() { # SUBTOOL FUNCTION [DESCRIPTOR_TO_CLOSE...]; in a subshell
    local fd function=$2
    subtool=$1
    shift 2
    for fd in "$@"; do
        [[ -z $fd ]] || exec {fd}>&-
    done
    CALLER_STDERR=''
    read_kept
    # shellcheck source=/dev/null
    source "$SUBTOOLS_DIR/$subtool.sh"
    "$function"
}

reason_of() { # SUBTOOL [TEXT_IF_THERE_IS_NONE]
    REPLY=${REASON[$1]:=${2:-}}
    [[ -n $REPLY ]]
}

# ---- one start or stop in a data directory at a time

LOCK=''
lock_directory() { # FLOCK_OPTION...: fails only if another holds it; some file systems know no locks
    local held=75
    { exec {LOCK}<.; } 2>/dev/null || { LOCK=''; return 0; }
    flock "$@" -E "$held" "$LOCK" 2>/dev/null
    (( $? != held ))
}
