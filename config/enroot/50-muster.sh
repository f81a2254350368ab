#!/usr/bin/env bash
# Hook of enroot, so of pyxis, too: records the containers of those who ask for it, whatever image they run.
#   ln -s /usr/share/muster/enroot/50-muster.sh /etc/enroot/hooks.d/
#   WITH_MUSTER=1 srun --container-image=IMAGE python train.py
#   WITH_MUSTER="--timing full --dir /shared/runs/42" enroot start IMAGE torchrun train.py
# It mounts the library's folder, and what --dir and --config name, at the same paths, and adds what
# `muster env` says to the container's environment. Whatever goes wrong here, the container starts as it is.
set -u

say() # TEXT
{
    echo "muster: not recorded in this container: $1" >&2
    exit 0
}

# The last one counts, in the container, too.
inside() # NAME
{
    sed -n "s/^$1=//p" "$ENROOT_ENVIRON" | tail -n 1
}

mount_line() # PATH ACCESS
{
    printf '%s %s none x-create=auto,bind,%s,nosuid,nodev\n' "${1// /\\040}" "${1// /\\040}" "$2"
}

wanted=$(inside WITH_MUSTER)
wanted=${wanted:-${WITH_MUSTER:-}}
[ -n "$wanted" ] && [ "$wanted" != 0 ] || exit 0
[ "$wanted" != 1 ] || wanted=
# What the container would load, not what the host would: another profiler there runs beside muster.
unset LD_LIBRARY_PATH
NCCL_PROFILER_PLUGIN=$(inside NCCL_PROFILER_PLUGIN)
export NCCL_PROFILER_PLUGIN
# shellcheck disable=SC2086 # options, a word each
lines=$("${WITH_MUSTER_COMMAND:-muster}" env $wanted) || say "\`muster env $wanted\` failed on $(hostname)"
eval "$lines"
names=$(sed -n 's/^export \([A-Z_0-9]*\)=.*/\1/p' <<<"$lines")

folder=${LD_LIBRARY_PATH%%:*}
[ -n "$folder" ] || say "\`muster env\` names no library"
mounts=$(mount_line "$folder" ro)
if [ -n "${MUSTER_DIR:-}" ]; then
    mkdir -p "$MUSTER_DIR" || say "the run directory cannot be made"
    mounts+=$'\n'$(mount_line "$MUSTER_DIR" rw)
fi
[ -z "${MUSTER_CONFIG:-}" ] || mounts+=$'\n'$(mount_line "$MUSTER_CONFIG" ro)
variables=
for name in $names; do
    value=${!name}
    case $name in
    # The container's NCCL is not known here: every one takes a name.
    NCCL_PROFILER_PLUGIN | NCCL_TUNER_PLUGIN) value=${value##*/} ;;
    LD_LIBRARY_PATH) value=$folder:$(inside LD_LIBRARY_PATH) value=${value%:} ;;
    esac
    [[ $value != *$'\n'* ]] || say "$name has several lines, which enroot cannot hand on; use \`muster run\` inside for that"
    variables+="$name=$value"$'\n'
done
printf '%s\n' "$mounts" >>"$ENROOT_MOUNTS"
printf '%s' "$variables" >>"$ENROOT_ENVIRON"
