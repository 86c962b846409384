# What the demos have in common; each sources it, with its own arguments: cpu|gpu.
#
# cpu: the host's memory is the room, with a limit that the kernel enforces. gpu: a card made small by a memory fraction.
# A demo works in a folder of its own, and checks what it claims; DEMO_KEEP=1 keeps the folder.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[1]}")" && pwd)
launch=${LAUNCH:-$here/../../bin/launch}
python=${PYTHON:-/usr/bin/python3}
kind=${1:-cpu}
[ "$kind" = cpu ] || [ "$kind" = gpu ] || { echo "usage: demo.sh cpu|gpu" >&2; exit 2; }

# begin FILE...: goes into a folder of the demo's own that holds these of its files.
begin() {
	work=$(mktemp -d)
	[ -n "${DEMO_KEEP:-}" ] && echo "working in $work" || trap 'rm -rf "$work"' EXIT
	local f
	for f in "$@"; do cp -r "$here/$f" "$work"; done
	cd "$work"
	export XDG_STATE_HOME=$work/state
}

# room MIB VARIABLE: puts into the array room the flags that leave the job so much memory. On a card torch may take that
# much of it, by the share that the trainer reads from the variable, and launch is told to leave the rest free.
room() {
	if [ "$kind" = cpu ]; then
		room=(--device cpu --memory "${DEMO_MEMORY_MIB:-$1}MiB")
		return
	fi
	local limit=$((${DEMO_MEMORY_MIB:-$1} * 1024 * 1024)) total
	total=$("$launch" gpus --json | "$python" -c 'import json,sys; d=json.load(sys.stdin); print(d[0]["total_bytes"] - d[0]["used_bytes"] if d else 0)')
	[ "$total" -gt 0 ] || { echo "there is no NVIDIA GPU here that launch can see" >&2; exit 1; }
	export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0} CUDA_DEVICE_ORDER=PCI_BUS_ID
	export "$2=$("$python" -c "print($limit / $total)")"
	room=(--reserve "$((total - limit))")
}

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }

# check WHAT TEST...: what is claimed is tested.
check() {
	local what=$1; shift
	if "$@"; then echo "  ok: $what"; else echo "  NOT SO: $what" >&2; exit 1; fi
}

# json FILE EXPRESSION: a Python expression of the document d.
json() { "$python" -c "import json,sys; d=json.load(open(sys.argv[1])); print($2)" "$1"; }
