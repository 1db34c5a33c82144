#!/bin/sh
# For cron or a timer on the controller of a site without slurmdbd: writes the OFU until now of every job
# that runs with GPUs into its AdminComment, which such a Slurm allows only while the job runs.

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
program=${OFU_EXPORTER_PROGRAM:-/opt/ofu-exporter/bin/ofu-exporter}
state=${OFU_EXPORTER_STATE:-/run/ofu-exporter}

mkdir -p "$state"
exec 9>"$state/comment.lock"
flock -n 9 || exit 0 # the last one has not come to its end
exec "$program" job gather --running --write "$@" >/dev/null # cron mails what is printed
