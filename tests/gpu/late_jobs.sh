#!/usr/bin/env bash
# What muster says of training jobs whose one rank is late: see guest/late_jobs.py.
# usage: late_jobs.sh --build BUILD --out FOLDER [options of late_jobs.py]
exec python3 -B "$(dirname "$0")/guest/late_jobs.py" "$@"
