#!/usr/bin/env bash
# Faults in jobs on this machine's GPUs, and what is said while they run: see live.py.
# usage: LAUNCH=launch.sh MUSTER=muster [OUTDIR=folder] live.sh [ROW...]    live.sh --list
exec python3 -B "$(dirname "$0")/live.py" "$@"
