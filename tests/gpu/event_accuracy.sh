#!/usr/bin/env bash
# muster's durations against CUDA events of the program itself: see guest/event_accuracy.py.
# usage: event_accuracy.sh --build BUILD --nccl LIBRARIES --out FOLDER [options of event_accuracy.py]
exec python3 -B "$(dirname "$0")/guest/event_accuracy.py" "$@"
