#!/bin/sh
# Slurm's Epilog=: tells ofu-exporter that a job has ended. It never fails, for a node whose epilog
# fails is drained, and it never takes longer than $OFU_EXPORTER_HOOK_SECONDS.

# Slurm starts this without a PATH, and without arguments; a script of yours may give flags.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
program=${OFU_EXPORTER_PROGRAM:-/opt/ofu-exporter/bin/ofu-exporter}
limit=${OFU_EXPORTER_HOOK_SECONDS:-1}
exec </dev/null 2>/dev/null

message=$(timeout -k 0.2 "$limit" "$program" job stop "$@" 2>&1)
code=$?
[ "$code" -eq 0 ] || message="$message (exit $code)"
[ -z "$message" ] || logger -t ofu-exporter -- "epilog of job $SLURM_JOB_ID: $message"
exit 0
