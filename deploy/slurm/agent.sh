#!/bin/sh
# Makes it so that the agent runs exactly as long as a job has a GPU here: `agent.sh [SECONDS]`, which
# prolog-agent.sh and epilog-agent.sh start in the background.
#
# It looks at how things are, not at what has just happened, and one at a time: whatever the order in
# which jobs start and end, the last of them to look sees the last state. After a job's end it looks once
# no job has ended for SECONDS. At a start it waits for the job's file, which hook.sh may write late, and stops
# nothing.

exec >/dev/null 2>&1

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
program=${OFU_EXPORTER_PROGRAM:-/opt/ofu-exporter/bin/ofu-exporter}
config=${OFU_EXPORTER_CONFIG:-/etc/ofu-exporter/ofu-exporter.yaml}
jobs=${OFU_JOB_DIR:-/run/ofu-exporter/jobs}
state=${OFU_EXPORTER_STATE:-/run/ofu-exporter}
log=${OFU_EXPORTER_LOG:-/var/log/ofu-exporter.log}

has_jobs() {
  for file in "$jobs"/*.json; do
    [ -e "$file" ] && return 0
  done
  return 1
}

has_systemd() {
  [ -d /run/systemd/system ]
}

# The agent holds this lock from its start to its end, whatever end that is.
is_running() {
  ! flock -n 8
}

start() {
  if has_systemd; then
    systemctl --no-block start ofu-exporter
  elif ! is_running; then
    set -- run
    [ -e "$config" ] && set -- run --config "$config"
    # Nothing of the job's environment, and not the other lock: that is for those who look.
    env -i PATH="$PATH" ${OFU_JOB_DIR:+"OFU_JOB_DIR=$OFU_JOB_DIR"} \
      "$program" "$@" </dev/null >>"$log" 2>&1 9>&- &
    echo $! >"$state/agent.pid"
  fi
}

stop() {
  if has_systemd; then
    systemctl --no-block stop ofu-exporter
  elif is_running && read -r pid <"$state/agent.pid"; then
    kill "$pid"
    flock -w 5 8 || kill -9 "$pid"
  fi
}

# hook.sh moves the file of a job that ends, which is then newer than the stamp; a late one is waited for too.
last_end_is_over() {
  : >"$stamp"
  sleep "$1"
  has_jobs || [ -z "$(find "$jobs/.ended" -name '*.json' -cnewer "$stamp")" ]
}

mkdir -p "$state"
if [ -n "$1" ]; then
  stamp=$state/agent.ended.$$
  until last_end_is_over "$1"; do :; done
  rm -f "$stamp"
fi
waited=0
until [ -n "$1" ] || has_jobs || [ "$waited" -eq 20 ]; do
  sleep 1
  waited=$((waited + 1))
done
exec 8>"$state/agent.running" 9>"$state/agent.lock"
flock -w 30 9 || exit 0
if has_jobs; then
  start
elif [ -n "$1" ]; then
  stop
fi
exit 0
