#!/bin/sh
# Every node of the cluster as a target for file_sd_configs of Prometheus: agents are permanent, jobs
# come and go. From cron, where scontrol works, into a file that is then renamed:
#   muster-targets.sh >targets/muster.json.new && mv targets/muster.json.new targets/muster.json
# With an argument those nodes alone: muster-targets.sh "node[01-16],gpu3"
set -eu
port=${MUSTER_AGENT_PORT:-9417}
if [ $# -gt 0 ]; then
    nodes=$(scontrol show hostnames "$1")
else
    nodes=$(scontrol show nodes --oneliner | sed -n 's/^NodeName=\([^ ]*\) .*/\1/p')
fi
[ -n "$nodes" ] || { echo "muster-targets: Slurm names no node" >&2; exit 1; }
printf '%s\n' "$nodes" | awk -v port="$port" '
    BEGIN { printf "[{\"labels\": {}, \"targets\": [" }
    { printf("%s\"%s:%s\"", (NR > 1 ? ", " : ""), $1, port) }
    END { print "]}]" }'
