#!/bin/sh
# Slurm's Epilog=: tells ofu-exporter that a job has ended. It never fails, for a node whose epilog
# fails is drained, and it never takes longer than hook.sh beside it says.

# Slurm starts this without a PATH, and without arguments; a script of yours may give flags.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
"$(dirname "$(readlink -f "$0")")/hook.sh" stop "$@" 2>/dev/null
exit 0
