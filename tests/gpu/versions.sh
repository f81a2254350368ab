#!/usr/bin/env bash
# The tuner and other profilers beside muster on every NCCL at hand: see guest/versions.py.
# usage: versions.sh --build BUILD --nccl LIBRARIES [options of versions.py]
exec python3 -B "$(dirname "$0")/guest/versions.py" "$@"
