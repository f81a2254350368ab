#!/bin/sh
# Prolog and Epilog of Slurm, for nodes without the service muster-agent: an agent on each node that has
# jobs, one for all of them, for as long as there are any. In slurm.conf:
#   Prolog=/usr/share/muster/slurm/muster-agent.sh
#   Epilog=/usr/share/muster/slurm/muster-agent.sh
#   PrologFlags=Alloc
# What the agent says goes to /run/muster-agent/log. Whatever goes wrong here, the job starts: Slurm
# would drain the node.
muster=${MUSTER_AGENT_COMMAND:-/usr/bin/muster}
options=${MUSTER_AGENT_OPTIONS:---all --listen :9417} # and --nats, where there is one
state=${MUSTER_AGENT_STATE:-/run/muster-agent}
unset MUSTER_AGENT_COMMAND MUSTER_AGENT_OPTIONS MUSTER_AGENT_STATE # muster knows none of them

trap 'exit 0' EXIT # some shells end with 2 where exec cannot redirect, whatever stands behind it

# Whether the agent that was started here still runs, and its number is not another process' by now.
runs() {
    pid=$(cat "$state/pid" 2>/dev/null) && [ -n "$pid" ] &&
        tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -q 'muster agent '
}

# Where another agent has the port, as the service, this one ends at once. In a session of its own: slurmd
# ends what a prolog leaves behind. Of all that root may, it keeps reading other users' segments.
begin() {
    keep=
    if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
        one=-all,+dac_read_search
        keep="setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs --bounding-set=$one --inh-caps=$one --ambient-caps=$one"
    fi
    # shellcheck disable=SC2086 # options, a word each
    setsid $keep "$muster" agent $options </dev/null >"$state/log" 2>&1 9>&- &
    echo $! >"$state/pid"
    for _ in 1 2 3 4 5 6 7 8 9 10; do # until it is what the next one looks for
        ! kill -0 $! 2>/dev/null || runs || sleep 0.1
    done
}

case ${SLURM_SCRIPT_CONTEXT:-} in
prolog*) what=begin ;;
epilog*) what=end ;;
*)
    echo "muster-agent: for Prolog= and Epilog= of slurm.conf" >&2
    exit 0
    ;;
esac
[ -n "${SLURM_JOB_ID:-}" ] && mkdir -p "$state/jobs" || exit 0
# Which jobs there are is noted without the lock: one who does not get it would leave a job for ever.
if [ "$what" = begin ]; then
    touch "$state/jobs/$SLURM_JOB_ID"
else
    rm -f "$state/jobs/$SLURM_JOB_ID"
fi
exec 9>"$state/lock" || exit 0
flock -w 5 9 || exit 0
if [ "$what" = begin ]; then
    runs || begin
elif [ -z "$(ls "$state/jobs")" ] && runs; then
    kill "$pid"
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do # the next one needs its port
        ! runs || sleep 0.1
    done
    ! runs || kill -9 "$pid"
    rm -f "$state/pid"
fi
exit 0
