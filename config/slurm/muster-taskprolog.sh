#!/bin/sh
# TaskProlog of Slurm (slurm.conf: TaskProlog=/usr/share/muster/slurm/muster-taskprolog.sh): records the
# jobs whose users ask for it, without a change of their commands:
#   WITH_MUSTER=1 srun ... python train.py      WITH_MUSTER=1 sbatch job.sh
#   WITH_MUSTER="--timing full" srun ...        what `muster env` takes
# slurmd runs it as the user before each task and sets what it prints as "export NAME=VALUE". Whatever
# goes wrong here, the task starts as it is.
[ -n "${WITH_MUSTER:-}" ] && [ "$WITH_MUSTER" != 0 ] || exit 0
[ "$WITH_MUSTER" != 1 ] || WITH_MUSTER=
muster=${WITH_MUSTER_COMMAND:-muster}
# shellcheck disable=SC2086 # options, a word each
set_them=$("$muster" env $WITH_MUSTER) || exit 0
eval "$set_them"
# The user's shell would have taken the quotes off, Slurm does not.
for name in $(printf '%s\n' "$set_them" | sed -n 's/^export \([A-Z_0-9]*\)=.*/\1/p'); do
    eval "printf 'export %s=%s\n' \"\$name\" \"\$$name\""
done
