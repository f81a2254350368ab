#!/usr/bin/env bash
# Faults of the kernel for one rank, and whether findings cite them: see evidence.py.
# usage: MUSTER=muster LAUNCH=launch.sh evidence.sh [FAULT...]          jobs on this machine's GPUs
#        MUSTER=muster RECORDINGS=tests/traces/recordings evidence.sh   without GPUs
exec python3 -B "$(dirname "$0")/evidence.py" "$@"
