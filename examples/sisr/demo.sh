#!/usr/bin/env bash
# The main job, for real: a training that runs out of memory in its first iteration, and, once that is met, in its first
# validation; launch meets both and it trains to the end. Usage: demo.sh cpu|gpu
. "$(dirname "$0")/../demo.bash"
begin train.py gen_data.py sisr options
"$python" gen_data.py
recipe=options/demo.yml
before=$(sha256sum < "$recipe")

room 800 SISR_MEMORY_FRACTION

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
check "the validation's failure cost one iteration: it went on from the state of iteration 1, and trained iteration 2 again" \
	[ "$(json result.json "d['attempts'][-2]['outcome']['iteration'], d['attempts'][-1]['plan']['resume']['iteration']")" = "2 1" ]
rates=$(grep -o 'iter: *2, lr:([^)]*' output.txt | sed 's/.*(//' | tr '\n' ' ')
check "it did so at half the learning rate: the trainer saves a failed iteration's schedule, and a milestone lay there" \
	[ "$rates" = "2.000e-04 1.000e-04 " ]
check "launch says so: that iteration counts twice in the result" \
	[ "$(json result.json "[c.split(',')[0] for c in d['attempts'][-1]['outcome']['changed']]")" = \
	"['the program saved its state of step 1 after it had reported step 2']" ]
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
echo
"$launch" show last --json > shown.json
page last shown.json
