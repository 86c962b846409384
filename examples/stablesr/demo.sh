#!/usr/bin/env bash
# A training that trains, and then runs out of memory when it logs its first images; launch takes the rung that fits, goes
# on from what the dying run saved, and it trains to the end. Usage: demo.sh cpu|gpu
#
# cpu: the host's memory is the room, with a limit that the kernel enforces. gpu: a card made small by a memory fraction.
# Works in a folder of its own, and checks what it claims; DEMO_KEEP=1 keeps the folder.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
launch=${LAUNCH:-$here/../../bin/launch}
python=${PYTHON:-/usr/bin/python3}
kind=${1:-cpu}

work=$(mktemp -d)
[ -n "${DEMO_KEEP:-}" ] && echo "working in $work" || trap 'rm -rf "$work"' EXIT
cp -r "$here"/{main.py,tinysr,configs} "$work"
cd "$work"
export XDG_STATE_HOME=$work/state
recipe=configs/demo.yaml
before=$(sha256sum < "$recipe")

case $kind in
cpu) room=(--device cpu --memory "${DEMO_MEMORY:-275MiB}") ;;
gpu)
	# The card is made small: torch may take that much of it, and launch is told to leave the rest free.
	limit=$((${DEMO_MEMORY_MIB:-400} * 1024 * 1024))
	total=$("$launch" gpus --json | "$python" -c 'import json,sys; d=json.load(sys.stdin); print(d[0]["total_bytes"] - d[0]["used_bytes"] if d else 0)')
	[ "$total" -gt 0 ] || { echo "there is no NVIDIA GPU here that launch can see" >&2; exit 1; }
	TINYSR_MEMORY_FRACTION=$("$python" -c "print($limit / $total)")
	export TINYSR_MEMORY_FRACTION CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0} CUDA_DEVICE_ORDER=PCI_BUS_ID
	room=(--reserve "$((total - limit))") ;;
*) echo "usage: demo.sh cpu|gpu" >&2; exit 2 ;;
esac
command=(main.py --train --base "$recipe" --gpus 0, --name demo --scale_lr False)

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }
check() { # check WHAT TEST...: what is claimed is tested
	local what=$1; shift
	if "$@"; then echo "  ok: $what"; else echo "  NOT SO: $what" >&2; exit 1; fi
}
json() { "$python" -c "import json,sys; d=json.load(open(sys.argv[1])); print($2)" "$1"; }

say launch plan "${room[@]}" -- python "${command[@]}"
"$launch" plan "${room[@]}" -- "$python" "${command[@]}" || true

say launch --as-asked "${room[@]}" -- python "${command[@]}"
echo "(--as-asked: as if nothing had been foreseen, so that what fails really fails)"
"$launch" --as-asked --json-file result.json "${room[@]}" -- "$python" "${command[@]}" | tr '\r' '\n' > output.txt
grep -a -e 'Summoning' -e 'Restored all states' -e 'global step' output.txt || true

echo
check "launch exited 0 for a program that succeeded" [ "$(json result.json "d['exit_code'], d['ending']")" = "0 succeeded" ]
check "the job as asked ran out of memory, and not before it had trained" \
	[ "$(json result.json "d['attempts'][0]['outcome']['ending'], d['attempts'][0]['outcome']['iteration'] > 0")" = "out of memory True" ]
check "every attempt kept the global batch of 16" \
	[ "$(json result.json "{a['plan']['batch']['micro'] * a['plan']['batch']['accumulation'] for a in d['attempts']}")" = "{16}" ]
check "every micro-batch divides the pool of 48" \
	[ "$(json result.json "all(48 % a['plan']['batch']['micro'] == 0 for a in d['attempts'])")" = True ]
check "the last attempt went on from what the dying run saved" \
	[ "$(json result.json "d['attempts'][-1]['plan']['resume']['path'].endswith('/checkpoints/last.ckpt')")" = True ]
check "it is one run in one folder" [ "$(ls logs | wc -l)" = 1 ]
check "the program itself says that it took the settings" \
	[ "$(json result.json "d['attempts'][-1]['outcome']['settings']['micro-batch'] == str(d['attempts'][-1]['plan']['batch']['micro'])")" = True ]
check "the recipe is what it was, byte for byte" [ "$before" = "$(sha256sum < "$recipe")" ]

rm -rf logs
say launch "${room[@]}" -- python "${command[@]}"
echo "(with foresight: no attempt is lost)"
"$launch" -q --json-file foreseen.json "${room[@]}" -- "$python" "${command[@]}" > output.txt
check "the first attempt trained to the end" \
	[ "$(json foreseen.json "len(d['attempts']), d['ending']")" = "1 succeeded" ]
check "it was changed before it started, not after" [ "$(json foreseen.json "len(d['attempts'][0]['plan']['edits']) > 0")" = True ]
say launch show last
"$launch" show last
