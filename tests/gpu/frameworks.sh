#!/usr/bin/env bash
# What frameworks' jobs pay for muster and how much of them it times: see guest/frameworks.py.
# usage: frameworks.sh --build BUILD --nccl LIBRARIES --out FOLDER [options of frameworks.py]
exec python3 -B "$(dirname "$0")/guest/frameworks.py" "$@"
