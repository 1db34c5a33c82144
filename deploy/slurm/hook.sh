#!/bin/sh
# What prolog.sh and epilog.sh do: `hook.sh start|stop [FLAG...]`. It never fails, and a job never waits for it longer
# than $OFU_EXPORTER_HOOK_SECONDS and a moment, whatever hangs: the work is done in a session of its own, and only a
# program that can be killed at any time waits for the end of that.

set -f
# Slurm starts this without a PATH.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

if [ "$1" != work ]; then
  # The pipe is closed when nobody needs to wait any more. A worker that cannot even be killed, for its disk hangs,
  # keeps it open: then timeout ends what reads. The limit begins with the line that the inner shell writes in a session
  # of its own: before that, Slurm would kill it with this hook, and a node without an idle core would lose the job.
  # Locks that the caller holds are not handed on.
  # shellcheck disable=SC2016 # "$@" is the inner shell's
  setsid --fork /bin/sh -c 'echo; exec "$@"' sh "$0" work "$@" </dev/null 2>/dev/null 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- |
    { read -r _ && timeout -k 0.2 "${OFU_EXPORTER_HOOK_SECONDS:-1}" cat; } >/dev/null 2>&1
  exit 0
fi

# A disk that hangs must not keep the work for hours, and then bring files of jobs back that are long over.
{ timeout 60 tail -f --pid=$$ /dev/null || kill -KILL 0; } >/dev/null &

shift
hook=$1
shift
program=${OFU_EXPORTER_PROGRAM:-/opt/ofu-exporter/bin/ofu-exporter}
jobs=${OFU_JOB_DIR:-/run/ofu-exporter/jobs}
id=$SLURM_JOB_ID
flag=
for word; do
  case $flag in
    --job-dir) jobs=$word ;;
    --job-id) id=$word ;;
  esac
  case $word in
    --job-dir=*) jobs=${word#*=} ;;
    --job-id=*) id=${word#*=} ;;
  esac
  flag=$word
done

# The words of $1 as a list in JSON: words that the pattern $2 fits, made of the letters $3.
list() {
  listed=
  IFS=,
  for word in $1; do
    # shellcheck disable=SC2254 # it is a pattern
    case $word in
      *[!$3]*) listed= && break ;;
      $2) listed="$listed${listed:+, }\"$word\"" ;;
      *) listed= && break ;;
    esac
  done
  unset IFS
  [ -n "$listed" ]
}

# A text that JSON holds as it is, or nothing.
plain() {
  case $1 in
    *[!A-Za-z0-9._@+-]*) ;;
    *) [ ${#1} -gt 256 ] || printf %s "$1" ;;
  esac
}

# How often the job was requeued; older Slurms do not say.
restarts() {
  case $SLURM_JOB_RESTART_COUNT in
    '' | *[!0-9]* | 0?* | ??????*) printf null ;;
    *) printf %s "$SLURM_JOB_RESTART_COUNT" ;;
  esac
}

# Unix seconds, to the millisecond where date knows fractions.
now() {
  time=$(date +%s.%N)
  case $time in
    *[!0-9.]*) printf %s "${time%%.*}" ;;
    *) printf %s "${time%??????}" ;;
  esac
}

may_write() {
  case $id in '' | *[!0-9]*) return 1 ;; esac
  [ -d "$1" ] || mkdir -p "$1"
  # shellcheck disable=SC3067 # dash, bash and busybox know -O
  [ -O "$1" ] && [ ! -L "$1" ]
}

# The job's file, as far as a shell can write it: on a node without a free core Python may come to it seconds later.
# Devices in other words than numbers and uuids are left to the program, which understands more. "first" says that nobody
# has asked Slurm yet, which alone knows whether the job has a whole GPU or a shard.
write_file() {
  umask 022
  list "$CUDA_VISIBLE_DEVICES" '[GM][PI][UG]-?*' 0-9A-Za-z/- || list "$SLURM_JOB_GPUS" '?*' 0-9 || return 1
  may_write "$jobs" || return 1
  read -r boot </proc/sys/kernel/random/boot_id
  noted=$(now)
  new=$jobs/.$id.$$.tmp
  if printf '{"version": 1, "job_id": "%s", "gpus": [%s], "user": "%s", "partition": "%s", "restarts": %s, "noted": %s, "boot_id": "%s", "first": true}' \
    "$id" "$listed" "$(plain "$SLURM_JOB_USER")" "$(plain "$SLURM_JOB_PARTITION")" "$(restarts)" "$noted" "$boot" >"$new"; then
    mv -f "$new" "$jobs/$id.json"
  else
    rm -f "$new" && return 1 # no room
  fi
}

# The file of a job that ended is kept, and named after the end: an agent that was away then learns of the job by it.
put_aside() {
  umask 022
  [ -e "$jobs/$id.json" ] && may_write "$jobs/.ended" &&
    mv -f "$jobs/$id.json" "$jobs/.ended/$id-$(now).json"
}

case $hook in
  start)
    # Without a GPU nobody waits for the rest.
    [ -n "$SLURM_JOB_GPUS$CUDA_VISIBLE_DEVICES" ] || exec >/dev/null
    write_file && set -- "$@" --noted "$noted"
    ;;
  stop)
    put_aside || rm -f "$jobs/$id.json"
    set -- "$@" --set-aside
    exec >/dev/null # the rest is of no use to the next job
    ;;
esac
message=$(timeout -k 1 "${OFU_EXPORTER_WORK_SECONDS:-30}" "$program" job "$hook" "$@" 2>&1)
code=$?
exec >/dev/null # whoever waits, waits until here
[ "$code" -eq 0 ] || message="${message:-$program said nothing} (exit $code)"
[ -z "$message" ] || timeout -k 1 5 logger -t ofu-exporter -- "job $id, $hook: $message"
