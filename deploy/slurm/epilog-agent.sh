#!/bin/sh
# Slurm's Epilog= beside prolog-agent.sh: notes that the job has ended, and stops the agent once no
# job has a GPU. It never fails, and waits for nothing but epilog.sh and, a second at most,
# the beginning of agent.sh.

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
here=$(dirname "$(readlink -f "$0")")

"$here/epilog.sh" "$@"
# Slurm kills what an epilog leaves in its process group. agent.sh closes its output once it is in a
# session of its own, and that ends the wait here.
setsid --fork "$here/agent.sh" "${OFU_EXPORTER_LINGER:-60}" </dev/null 2>/dev/null |
  timeout -k 0.2 1 cat >/dev/null 2>&1
exit 0
