#!/bin/sh
# Installs from Debian what the demos or the tests run on, where it is missing. Usage: deps.sh demo|test PYTHON
set -eu
python=$2
packages='python3-torch python3-yaml python3-pil python3-numpy'
modules='torch, yaml, PIL, numpy'
programs=
if [ "$1" = test ]; then
	packages="$packages gcc libc6-dev python3-grpcio python3-pip python3-venv slurmctld slurmd slurm-client munge"
	modules="$modules, grpc, pip, ensurepip"
	programs='cc slurmctld slurmd sbatch munged'
fi
if said=$("$python" -c "import $modules" 2>&1); then missing=; else missing=$(printf '%s\n' "$said" | tail -1); fi
for p in $programs; do
	PATH=$PATH:/usr/sbin command -v "$p" >/dev/null || missing="$missing; no $p"
done
[ -n "$missing" ] || exit 0
missing="$python lacks something (${missing#; })"
if [ "$python" != /usr/bin/python3 ]; then
	echo "$missing: install it there, or leave PYTHON out" >&2
	exit 1
fi
command -v apt-get >/dev/null || { echo "$missing, and there is no apt-get here: name a Python that has it, make PYTHON=…" >&2; exit 1; }
sudo=
if [ "$(id -u)" != 0 ]; then
	# without a terminal sudo cannot ask for a password
	command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; } ||
		{ echo "$missing: ask root for apt-get install --no-install-recommends $packages" >&2; exit 1; }
	sudo=sudo
fi
echo "$missing: installing $packages"
$sudo apt-get update -q
# shellcheck disable=SC2086 # a list
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $packages
