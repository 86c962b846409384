#!/usr/bin/env bash
# A sweep of twelve short trainings. The four with the largest micro-batch run out of memory as asked, and finish on a lower
# rung. The sweep is killed half-way, with -9, and resumed: no row is lost, and none is trained twice. Usage: sweep.sh cpu
. "$(dirname "$0")/../demo.bash"
[ "$kind" = cpu ] || { echo "this demo runs on the CPU" >&2; exit 2; }
begin train.py gen_data.py sisr options
"$python" gen_data.py --val-size 24
room 250 SISR_MEMORY_FRACTION
for batch in 2 4 32; do # recipes that need very different amounts of memory
	sed "s/batch_size_per_gpu: 32.*/batch_size_per_gpu: $batch/; s/lq_size: 40.*/lq_size: 24/" options/demo.yml > "options/batch$batch.yml"
done
before=$(cat options/*.yml | sha256sum)
sweep=(--name lrs --jobs 2 --grid batch=2,4,32 --grid --manual_seed=1..4 "${room[@]}")
train=("$python" train.py -opt "options/batch{batch}.yml" --name "{name}")

say launch sweep plan "${sweep[@]}" -- python "${train[@]:1}"
"$launch" sweep plan "${sweep[@]}" -- "${train[@]}" || true

say launch sweep --as-asked "${sweep[@]}" -- python "${train[@]:1}"
echo "(--as-asked: as if nothing had been foreseen, so that what fails really fails)"
"$launch" sweep --as-asked "${sweep[@]}" -- "${train[@]}" &
driver=$!
ended() { "$launch" sweep export --lines lrs 2> /dev/null | grep -c '"state":"succeeded"' || true; }
until [ "$(ended)" -ge 5 ]; do
	kill -0 $driver 2> /dev/null || break
	sleep 0.2
done
kill -9 $driver 2> /dev/null || true
wait $driver 2> /dev/null || true

say "launch sweep status    (after kill -9)"
"$launch" sweep status lrs
check "the sweep was killed half-way" [ "$(ended)" -lt 12 ]

say launch sweep resume
"$launch" sweep resume --json-file sweep.json

say launch sweep status
"$launch" sweep status

echo
of() { json sweep.json "sorted(r['trial'] for r in d['rows'] if $1)"; }
journal=$XDG_STATE_HOME/launch/sweeps/lrs/journal.jsonl
check "all twelve rows succeeded" [ "$(of "r['state'] == 'succeeded'")" = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]" ]
check "the four rows with the largest micro-batch ran out of memory as asked" [ "$(of "r['out_of_memory'] > 0")" = "[9, 10, 11, 12]" ]
check "they are marked, with what was changed" [ "$(of "r['changes'] != ''")" = "[9, 10, 11, 12]" ]
check "each row's values are proven, those that an edited copy of a recipe brought as well" \
	[ "$(of "r.get('not_proven')")" = "[]" ]
check "each kept its global batch" \
	[ "$(json sweep.json "{(dict((s['key'], s['value']) for s in r['assignment'])['batch'], r['global_batch']) for r in d['rows']} == {('2', 2), ('4', 4), ('32', 32)}")" = True ]
check "in the journal each start has its end, and each row succeeded once" \
	[ "$(grep -c '"event":"started"' "$journal") 12" = "$(grep -c '"event":"ended"' "$journal") $(grep -c '"result":{"ending":"succeeded"' "$journal")" ]
check "by the programs' own logs, each was trained to its end once" \
	[ "$(grep -h 'End of training' experiments/*/train_*.log | wc -l) $(grep -l 'End of training' experiments/*/train_*.log | sort -u | wc -l)" = "12 12" ]
check "the recipes are what they were, byte for byte" [ "$before" = "$(cat options/*.yml | sha256sum)" ]
"$launch" sweep status lrs --json > status.json
page lrs status.json
