#!/usr/bin/env bash
# Programs that use NCCL in ways of their own, with and without muster: see guest/harm.py.
# usage: harm.sh --build BUILD --nccl LIBRARIES --out FOLDER [options of harm.py]
exec python3 -B "$(dirname "$0")/guest/harm.py" "$@"
