#!/bin/sh
# Slurm's Prolog=: tells ofu-exporter which GPUs a job got. It never fails, for a node whose prolog
# fails is drained, and it never takes longer than $OFU_EXPORTER_HOOK_SECONDS.

# Slurm starts this without a PATH, and without arguments; a script of yours may give flags.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
program=${OFU_EXPORTER_PROGRAM:-/opt/ofu-exporter/bin/ofu-exporter}
limit=${OFU_EXPORTER_HOOK_SECONDS:-1}
exec </dev/null 2>/dev/null

message=$(timeout -k 0.2 "$limit" "$program" job start "$@" 2>&1)
code=$?
[ "$code" -eq 0 ] || message="$message (exit $code)"
[ -z "$message" ] || logger -t ofu-exporter -- "prolog of job $SLURM_JOB_ID: $message"
exit 0
