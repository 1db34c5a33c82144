#!/bin/sh
# Slurm's EpilogSlurmctld= on sites with slurmdbd: writes a job's OFU over all its nodes into its
# AdminComment. It never fails, and what takes time goes on in the background.

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
program=${OFU_EXPORTER_PROGRAM:-/opt/ofu-exporter/bin/ofu-exporter}
# Nodes tell of the end when their own epilogs have run; a node that is slower is asked all the same.
wait=${OFU_EXPORTER_WAIT:-30}

[ -n "$SLURM_JOB_ID" ] && [ -n "$SLURM_JOB_NODELIST" ] || exit 0
set -- "$program" job gather "$SLURM_JOB_ID" --nodes "$SLURM_JOB_NODELIST" --wait "$wait" --write "$@"
# Slurm kills what this leaves in its process group. The inner shell closes its output once it is in a
# session of its own, and that ends the wait here: without a limit, for it needs no disk but that of sh.
# shellcheck disable=SC2016 # "$@" is the inner shell's
setsid --fork /bin/sh -c '
  exec >/dev/null 2>&1
  timeout -k 1 5 logger -t ofu-exporter -- "$(timeout -k 1 300 "$@" 2>&1)"' sh "$@" </dev/null 2>/dev/null | cat
exit 0
