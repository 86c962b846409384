#!/usr/bin/env bash
# A training that trains, and then runs out of memory when it logs its first images; launch takes the rung that fits, goes
# on from what the dying run saved, and it trains to the end. Usage: demo.sh cpu|gpu
. "$(dirname "$0")/../demo.bash"
begin main.py tinysr configs
recipe=configs/demo.yaml
before=$(sha256sum < "$recipe")

if [ "$kind" = cpu ]; then room 275; else room 105 TINYSR_MEMORY_FRACTION; fi
command=(main.py --train --base "$recipe" --gpus 0, --name demo --scale_lr False)

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
