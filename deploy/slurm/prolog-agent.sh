#!/bin/sh
# Slurm's Prolog= on nodes where the agent runs only while a job has a GPU: notes the job, and starts
# the agent. It never fails, and waits for nothing but prolog.sh and, a
# second at most, the beginning of agent.sh.

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
here=$(dirname "$(readlink -f "$0")")

"$here/prolog.sh" "$@"
# Slurm kills what a prolog leaves in its process group. agent.sh closes its output once it is in a
# session of its own, and that ends the wait here.
setsid --fork "$here/agent.sh" </dev/null 2>/dev/null | timeout -k 0.2 1 cat >/dev/null 2>&1
exit 0
