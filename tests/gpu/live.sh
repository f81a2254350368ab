#!/usr/bin/env bash
# The live table of docs/diagnosis.md on this machine's GPUs: see live.py.
# usage: LAUNCH=launch.sh MUSTER=muster [OUTDIR=folder] live.sh [ROW...]    live.sh --list
exec python3 -B "$(dirname "$0")/live.py" "$@"
