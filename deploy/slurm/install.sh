#!/bin/sh
# Installs ofu-exporter and Slurm's hooks on this node, or removes them; `install.sh --help` says how.
# slurm.conf is left to you: the last lines that this prints belong into it.

set -eu
umask 022
usage="usage: install.sh [--remove] [--dry-run] [--hooks DIR] [--program FILE] [--root DIR]

  --remove        take everything away again but the configuration and the state file
  --dry-run       print what would be done, and do nothing
  --hooks DIR     where the hooks go; default: /etc/slurm/ofu-exporter
  --program FILE  an ofu-exporter that is already installed; otherwise it is installed by pip into
                  /opt/ofu-exporter, from the folder that this script belongs to
  --root DIR      put everything below this directory, for an image of a node: nothing is started

PYTHON names another Python than python3; an image needs the same one at the same place. pip heeds its own variables, such as PIP_INDEX_URL, or
PIP_NO_INDEX with PIP_FIND_LINKS for a node without a network."

fail() {
  echo "install.sh: $*" >&2
  exit 1
}

here=$(dirname "$(readlink -f "$0")")
source=$(dirname "$(dirname "$here")")
dry='' remove='' root='' program='' hooks=/etc/slurm/ofu-exporter
while [ $# -gt 0 ]; do
  case $1 in
    --dry-run) dry=yes ;;
    --remove) remove=yes ;;
    --help) echo "$usage" && exit 0 ;;
    --root | --hooks | --program)
      [ $# -gt 1 ] || fail "$1 needs a value"
      case $2 in /*) ;; *) fail "$1 needs a path that begins with /" ;; esac
      case $1 in --root) root=${2%/} ;; --hooks) hooks=${2%/} ;; *) program=$2 ;; esac
      shift
      ;;
    *) echo "$usage" >&2 && fail "what is $1?" ;;
  esac
  shift
done

opt=$root/opt/ofu-exporter
settings=$root/etc/ofu-exporter
unit=$root/etc/systemd/system/ofu-exporter.service
directories=$root/etc/tmpfiles.d/ofu-exporter.conf
run=$root/run/ofu-exporter
marker=$opt/made-by-install.sh

do_it() {
  echo "+ $*"
  [ -n "$dry" ] || "$@"
}

# In one step: a hook that Slurm starts meanwhile is the old one or the new one, and never none.
put() { # MODE FROM TO
  do_it cp "$2" "$3.new"
  do_it chmod "$1" "$3.new"
  do_it mv -f "$3.new" "$3"
}

# systemd of this node, which is not that of an image.
systemd() {
  if [ -z "$root" ] && [ -d /run/systemd/system ]; then
    do_it systemctl "$@"
  fi
}

install_program() {
  [ -z "$program" ] || [ -x "$program" ] || fail "$program is no program"
  [ "$program" != "$opt/bin/ofu-exporter" ] || return 0 # it is where the hooks look for it
  [ -e "$opt" ] || made=yes
  if [ -n "$program" ]; then
    do_it mkdir -p "$opt/bin"
    do_it ln -sfn "$program" "$opt/bin/ofu-exporter"
  else
    do_it "${PYTHON:-python3}" -m venv "$opt"
    do_it "$opt/bin/python" -m pip install --quiet --disable-pip-version-check "$source"
    [ -z "$root" ] || fit_for_image
  fi
  [ -z "${made-}" ] || do_it touch "$marker"
}

# pip writes where it is into what it installs, and in the image that is another place.
fit_for_image() {
  here_now=$(printf %s "$opt" | sed 's/[].[*^$\|]/\\&/g')
  do_it find "$opt/bin" "$opt/pyvenv.cfg" -type f -exec sed -i "s|$here_now|${opt#"$root"}|g" {} +
  python=$(readlink -f "$(command -v "${PYTHON:-python3}")")
  [ -e "$root$python" ] ||
    echo "install.sh: the image has no $python, with which the program is to run: PYTHON names another" >&2
}

install_hooks() {
  do_it mkdir -p "$root$hooks"
  do_it chmod 755 "$root$hooks"
  # hook.sh comes first, for the others call it.
  for name in hook agent prolog epilog prolog-agent epilog-agent epilog-slurmctld comment-running-jobs; do
    put 755 "$here/$name.sh" "$root$hooks/$name.sh"
  done
}

make_directories() {
  do_it mkdir -p "$root/etc/tmpfiles.d" "$run/jobs" "$run/tokens"
  do_it chmod 755 "$run" "$run/jobs"
  do_it chmod 711 "$run/tokens"
  put 644 "$here/tmpfiles.conf" "$directories" # /run is empty after each boot
}

install_agent() {
  do_it mkdir -p "$settings" "${unit%/*}"
  [ -e "$settings/ofu-exporter.yaml" ] ||
    put 644 "$source/deploy/systemd/ofu-exporter.yaml" "$settings/ofu-exporter.yaml"
  put 644 "$source/deploy/systemd/ofu-exporter.service" "$unit"
  systemd daemon-reload
  systemd enable ofu-exporter
  systemd restart ofu-exporter
}

# A hook that slurm.conf names and that is gone fails, and Slurm drains the node.
check_unused() {
  named=$(grep -ls "^[^#]*$hooks/" "$root"/etc/slurm/* "$root"/etc/slurm/*/* "$root"/etc/slurm-llnl/* || true)
  [ -z "$named" ] ||
    fail "$(echo "$named" | tr '\n' ' ')still names the hooks: take them out first, and call scontrol reconfigure"
  if [ -z "$root" ] && timeout 10 scontrol show config 2>/dev/null | grep -qs "$hooks/"; then
    fail "Slurm still calls the hooks: take them out of slurm.conf first, and call scontrol reconfigure"
  fi
}

remove_all() {
  check_unused
  systemd disable --now ofu-exporter
  do_it rm -f "$unit" "$directories"
  systemd daemon-reload
  for name in prolog epilog prolog-agent epilog-agent epilog-slurmctld comment-running-jobs agent hook; do
    do_it rm -f "$root$hooks/$name.sh"
  done
  do_it rm -rf "$run/jobs" "$run/tokens"
  if [ -e "$marker" ]; then
    do_it rm -rf "$opt"
  else
    echo "$opt was not made by this script, and stays"
  fi
  for folder in "$root$hooks" "$run"; do
    [ ! -d "$folder" ] || do_it rmdir --ignore-fail-on-non-empty "$folder"
  done
  echo "$settings and the state file in /var/lib/ofu-exporter stay"
}

if [ -n "$remove" ]; then
  remove_all
  exit 0
fi
[ -n "$root" ] || [ -n "$dry" ] || [ "$(id -u)" -eq 0 ] || fail "only root can install"
install_program
install_hooks
make_directories
install_agent
cat <<LINES

In slurm.conf, and then \`scontrol reconfigure\`:

    PrologFlags=Alloc
    Prolog=$hooks/prolog.sh
    Epilog=$hooks/epilog.sh
LINES
