#!/usr/bin/env bash
# The main job, for real: a training that runs out of memory in its first iteration, and, once that is met, in its first
# validation; launch meets both and it trains to the end. Usage: demo.sh cpu|gpu
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
cp -r "$here"/{train.py,gen_data.py,sisr,options} "$work"
cd "$work"
export XDG_STATE_HOME=$work/state
"$python" gen_data.py
recipe=options/demo.yml
before=$(sha256sum < "$recipe")

case $kind in
cpu) room=(--device cpu --memory "${DEMO_MEMORY:-800MiB}") ;;
gpu)
	# The card is made small: torch may take that much of it, and launch is told to leave the rest free.
	limit=$((${DEMO_MEMORY_MIB:-800} * 1024 * 1024))
	total=$("$launch" gpus --json | "$python" -c 'import json,sys; d=json.load(sys.stdin); print(d[0]["total_bytes"] - d[0]["used_bytes"] if d else 0)')
	[ "$total" -gt 0 ] || { echo "there is no NVIDIA GPU here that launch can see" >&2; exit 1; }
	SISR_MEMORY_FRACTION=$("$python" -c "print($limit / $total)")
	export SISR_MEMORY_FRACTION CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0} CUDA_DEVICE_ORDER=PCI_BUS_ID
	room=(--reserve "$((total - limit))") ;;
*) echo "usage: demo.sh cpu|gpu" >&2; exit 2 ;;
esac

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }
check() { # check WHAT TEST...: what is claimed is tested
	local what=$1; shift
	if "$@"; then echo "  ok: $what"; else echo "  NOT SO: $what" >&2; exit 1; fi
}
json() { "$python" -c "import json,sys; d=json.load(open(sys.argv[1])); print($2)" "$1"; }

say launch plan "${room[@]}" -- python train.py -opt $recipe
"$launch" plan "${room[@]}" -- "$python" train.py -opt $recipe || true

say launch --as-asked "${room[@]}" -- python train.py -opt $recipe
echo "(--as-asked: as if nothing had been foreseen, so that what fails really fails)"
"$launch" --as-asked --json-file result.json "${room[@]}" -- "$python" train.py -opt $recipe | tee output.txt

echo
check "the training reached its end" grep -q 'End of training' output.txt
check "launch exited 0 for a program that succeeded" [ "$(json result.json "d['exit_code'], d['ending']")" = "0 succeeded" ]
check "an out-of-memory in training and one in validation were met" \
	[ "$(json result.json "sorted({a['outcome']['phase'] for a in d['attempts'] if a['outcome']['ending'] == 'out of memory'})")" = "['training', 'validation']" ]
check "every attempt kept the global batch" \
	[ "$(json result.json "{a['plan']['batch']['micro'] * a['plan']['batch']['accumulation'] for a in d['attempts']} == {d['job']['batch']['micro'] * d['job']['batch']['accumulation']}")" = True ]
check "the validation's failure cost no training: it went on from a saved state" \
	[ "$(json result.json "d['attempts'][-1]['plan']['resume']['iteration'] > 0")" = True ]
check "the recipe is what it was, byte for byte" [ "$before" = "$(sha256sum < "$recipe")" ]

rm -rf experiments
say launch "${room[@]}" -- python train.py -opt $recipe
echo "(with foresight: no attempt is lost)"
"$launch" -q --json-file foreseen.json "${room[@]}" -- "$python" train.py -opt $recipe > output.txt
check "the first attempt trained to the end" \
	[ "$(json foreseen.json "len(d['attempts']), d['ending']")" = "1 succeeded" ]
check "it was changed before it started, not after" [ "$(json foreseen.json "len(d['attempts'][0]['plan']['edits']) > 0")" = True ]
say launch show last
"$launch" show last
