#!/bin/sh
# For cron, as `prometheus-targets.sh FILE.json [PORT]`: writes the nodes with GPUs for Prometheus' file_sd_configs, but for
# those that Slurm powers down, has powered down or powers up. A node that is down stays in the file, and so does
# one that did not come up within ResumeTimeout, for Slurm sets that down. Without an answer of Slurm the file stays as it is.

set -eu
umask 022
export PATH="${PATH:-}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
file=$1

# All of a state: its short form says of a node under maintenance nothing of its power. Slurm before 21.08 said "power".
states=$(sinfo --noheader --all --Node --Format NodeList:256,StateComplete:256,Gres:1024)
[ -n "$states" ]
printf '%s\n' "$states" | sort -u | awk -v port="${2:-9846}" '
  $3 ~ /(^|,)gpu(:|$)/ && ($2 ~ /^down/ || $2 !~ /[+]power(ed_down|ing_|_up|[+]|$)/) && !seen[$1]++ {
    targets = targets (targets ? ", " : "") "\"" $1 ":" port "\""
  }
  END { print "[{\"targets\": [" targets "]}]" }
' > "$file.new"
mv "$file.new" "$file"
