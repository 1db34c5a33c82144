#!/bin/sh
# Installs ofu-exporter and Slurm's hooks on this node, or removes them; `install.sh --help` says how.
# slurm.conf is left to you: the last lines that this prints belong into it.

set -eu
umask 022
usage="usage: install.sh [--remove] [--wrappers] [--dry-run] [--hooks DIR] [--program FILE] [--root DIR]

  --remove        take everything away again but the configuration and the state file
  --wrappers      install only the two files that slurm.conf names, which must be on every node of the cluster:
                  they call the hooks where these are, and otherwise do nothing
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
dry='' remove='' wrappers='' root='' program='' hooks=/etc/slurm/ofu-exporter
while [ $# -gt 0 ]; do
  case $1 in
    --dry-run) dry=yes ;;
    --remove) remove=yes ;;
    --wrappers) wrappers=yes ;;
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
slurm=$root/etc/slurm
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

# Before anything is made: too old a Python would leave a half of it.
check_python() {
  python=${PYTHON:-python3}
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) ||
    fail "$python does not run: PYTHON names a Python of version 3.10 or newer"
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    fail "$python is Python $version, and 3.10 or newer is needed: install one, and name it, as in PYTHON=python3.11"
  "$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "$python makes no virtual environments: install the package python$version-venv"
}

# An environment of another Python, or of one that is gone, is made anew.
make_environment() {
  there=$("$opt/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true)
  if [ -e "$opt/pyvenv.cfg" ] && [ "$there" != "$version" ]; then
    [ ! -e "$marker" ] || made=yes
    do_it "$python" -m venv --clear "$opt"
  else
    do_it "$python" -m venv "$opt"
  fi
}

install_program() {
  [ "$program" != "$opt/bin/ofu-exporter" ] || return 0 # it is where the hooks look for it
  [ -e "$opt" ] || made=yes
  if [ -n "$program" ]; then
    do_it mkdir -p "$opt/bin"
    do_it ln -sfn "$program" "$opt/bin/ofu-exporter"
  else
    make_environment
    do_it "$opt/bin/python" -m pip install --quiet --disable-pip-version-check "$source"
    [ -z "$root" ] || fit_for_image
  fi
  [ -z "${made-}" ] || do_it touch "$marker"
}

# pip writes where it is into what it installs, and in the image that is another place.
fit_for_image() {
  here_now=$(printf %s "$opt" | sed 's/[].[*^$\|]/\\&/g')
  do_it find "$opt/bin" "$opt/pyvenv.cfg" -type f -exec sed -i "s|$here_now|${opt#"$root"}|g" {} +
  linked=$(readlink -f "$(command -v "$python")")
  [ -e "$root$linked" ] ||
    echo "install.sh: the image has no $linked, with which the program is to run: PYTHON names another" >&2
}

install_hooks() {
  do_it mkdir -p "$root$hooks"
  do_it chmod 755 "$root$hooks"
  # hook.sh comes first, for the others call it.
  for name in hook agent prolog epilog prolog-agent epilog-agent epilog-slurmctld comment-running-jobs prometheus-targets; do
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

# What slurm.conf names: Slurm drains a node on which such a file is missing, so these two do without the hooks.
install_wrappers() {
  do_it mkdir -p "$slurm"
  for name in prolog epilog; do
    echo "+ write $slurm/ofu-$name.sh"
    [ -z "$dry" ] || continue
    cat >"$slurm/ofu-$name.sh.new" <<WRAPPER
#!/bin/sh
# $written: on every node Slurm calls this, and this calls ofu-exporter's hook where there is one.
[ ! -x "$hooks/$name.sh" ] || "$hooks/$name.sh" "\$@"
exit 0
WRAPPER
    chmod 755 "$slurm/ofu-$name.sh.new"
    mv -f "$slurm/ofu-$name.sh.new" "$slurm/ofu-$name.sh"
  done
}
written='Made by install.sh'

configurations() {
  for folder in etc/slurm etc/slurm-llnl opt/slurm/etc usr/local/etc run/slurm/conf; do
    find "$root/$folder" -path "$root$hooks" -prune -o \( -type f -o -type l \) -print 2>/dev/null || true
  done
}

# Slurm's settings as its files have them, and on a node also as slurmctld does.
slurm_settings() {
  configurations | grep '\.conf$' | tr '\n' '\0' | xargs -0 -r cat 2>/dev/null || true
  [ -n "$root" ] || timeout 10 scontrol show config 2>/dev/null || true
}

# Files that may call the hooks: Slurm's own, and those that its prologs and epilogs are, by name or by pattern.
callers() {
  configurations
  slurm_settings |
    sed -nE 's/^[[:space:]]*(Prolog|Epilog)(Slurmctld)?(\[[0-9]+\])?[[:space:]]*=[[:space:]]*(\/[^[:space:]#]+).*/\4/Ip' |
    while read -r pattern; do
      for file in "$root"$pattern; do # patterns are to be expanded
        case $file in "$root$hooks"/*) ;; *) echo "$file" ;; esac
      done
    done
}

calls_hooks() { # FILE
  ! sed -n 2p "$1" 2>/dev/null | grep -q "^# $written" || return 1 # it does without the hooks
  case $(readlink "$1") in "$hooks"/*) return 0 ;; esac
  case $(readlink -f "$1") in "$(readlink -f "$root$hooks")"/*) return 0 ;; esac
  grep -qs "^[^#]*$hooks" "$1"
}

# A hook that Slurm calls and that is gone fails, and Slurm drains the node.
check_unused() {
  named=$(callers | sort -u | while read -r file; do ! calls_hooks "$file" || printf '%s ' "$file"; done)
  [ -z "$named" ] ||
    fail "${named}still names the hooks: take them out first, and call scontrol reconfigure"
  if [ -z "$root" ] && timeout 10 scontrol show config 2>/dev/null | grep -qs "$hooks/"; then
    fail "Slurm still calls the hooks: take them out of slurm.conf first, and call scontrol reconfigure"
  fi
}

remove_wrappers() {
  if slurm_settings | grep -q '^[^#]*ofu-\(prolog\|epilog\)\.sh'; then
    echo "$slurm/ofu-prolog.sh and ofu-epilog.sh stay, because slurm.conf names them; without the hooks they do nothing"
  else
    do_it rm -f "$slurm/ofu-prolog.sh" "$slurm/ofu-epilog.sh"
  fi
}

remove_all() {
  check_unused
  remove_wrappers
  systemd disable --now ofu-exporter
  do_it rm -f "$unit" "$directories"
  systemd daemon-reload
  for name in prolog epilog prolog-agent epilog-agent epilog-slurmctld comment-running-jobs prometheus-targets agent hook; do
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
if [ -z "$wrappers" ]; then
  if [ -z "$program" ]; then check_python; else [ -x "$program" ] || fail "$program is no program"; fi
  install_program
  install_hooks
  make_directories
  install_agent
fi
install_wrappers
cat <<LINES

Once \`install.sh\`, or \`install.sh --wrappers\`, has run on EVERY node of the cluster, in slurm.conf:

    PrologFlags=Alloc
    Prolog=/etc/slurm/ofu-prolog.sh
    Epilog=/etc/slurm/ofu-epilog.sh

and then \`scontrol reconfigure\`. A node on which Slurm does not find these files is drained.
LINES
