#!/usr/bin/env bash
# What of a JAX program's collectives NCCL sees and muster counts: see guest/xla.py.
# usage: xla.sh --build BUILD --nccl LIBRARIES --out FOLDER [options of xla.py]
exec python3 -B "$(dirname "$0")/guest/xla.py" "$@"
