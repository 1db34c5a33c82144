#!/bin/sh
# Slurm's Epilog= beside prolog-agent.sh: notes that the job has ended, and stops the agent once no
# job has a GPU. It never fails, and waits for nothing but epilog.sh.

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
here=$(dirname "$(readlink -f "$0")")

"$here/epilog.sh" "$@"
# Slurm kills what an epilog leaves in its process group. The inner shell closes its output once it is in a
# session of its own, and that ends the wait here: without a limit, for it needs no disk but that of sh.
# shellcheck disable=SC2016 # "$@" is the inner shell's
setsid --fork /bin/sh -c 'exec >/dev/null 2>&1 "$@"' sh "$here/agent.sh" "${OFU_EXPORTER_LINGER:-60}" </dev/null 2>/dev/null | cat
exit 0
