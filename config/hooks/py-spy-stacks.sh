#!/bin/sh
# Prints where the Python code of a process stands that holds a job up: a command for findings, as in
#
#     on:
#       hang_absent: [log, report, exec: [/usr/share/muster/hooks/py-spy-stacks.sh]]
#
# The finding, on standard input, says whose stack to look at. py-spy (pip install py-spy) needs the right
# to trace the process: root, CAP_SYS_PTRACE in a container, or kernel.yama.ptrace_scope=0.
set -u
each_s=4 # muster run ends a command after 10 s, and two processes are worth a look

pids=$(grep -oE 'py-spy dump --pid [0-9]+' | grep -oE '[0-9]+$' | sort -un | head -n 2)
[ -n "$pids" ] || exit 0
if ! command -v py-spy >/dev/null; then
    echo "py-spy is not in PATH: pip install py-spy, then the stack of process $pids is told here" >&2
    exit 0
fi
for pid in $pids; do
    if [ ! -d "/proc/$pid" ]; then
        echo "process $pid is not on $(hostname), or has ended" >&2
        continue
    fi
    echo "process $pid, by py-spy:" >&2
    timeout "$each_s" py-spy dump --nonblocking --pid "$pid" >&2 ||
        echo "py-spy could not look at process $pid: see kernel.yama.ptrace_scope, CAP_SYS_PTRACE" >&2
done
