#!/usr/bin/env bash
# Agents, NATS and a fleet worker over two emulated hosts with a GPU each: see guest/fleet_hosts.py.
# usage: fleet_hosts.sh --build BUILD --out DIR [options of fleet_hosts.py]
exec python3 -B "$(dirname "$0")/guest/fleet_hosts.py" "$@"
