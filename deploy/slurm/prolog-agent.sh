#!/bin/sh
# Slurm's Prolog= on nodes where the agent runs only while a job has a GPU: notes the job, and starts
# the agent. It never fails, and waits for nothing but prolog.sh.

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
here=$(dirname "$(readlink -f "$0")")

"$here/prolog.sh" "$@"
[ -n "$SLURM_JOB_GPUS$CUDA_VISIBLE_DEVICES" ] || exit 0
# Slurm kills what a prolog leaves in its process group. The inner shell closes its output once it is in a
# session of its own, and that ends the wait here: without a limit, for it needs no disk but that of sh.
# shellcheck disable=SC2016 # "$@" is the inner shell's
setsid --fork /bin/sh -c 'exec >/dev/null 2>&1 "$@"' sh "$here/agent.sh" </dev/null 2>/dev/null | cat
exit 0
