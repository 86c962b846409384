#!/usr/bin/env bash
# A failure that "it fits at step 1" does not see: the first epoch fits, its validation fits, a state is saved, and the
# first training step after that runs out of memory, because the validation's attention maps are still there. launch
# takes the next rung, at the same global batch of 16, puts the old states aside and starts over, since the trainer cannot
# resume. Usage: demo.sh cpu|gpu
. "$(dirname "$0")/../demo.bash"
begin train.py dualattn
export PYTHONDONTWRITEBYTECODE=1
settings=dualattn/configs/recognition.py
before=$(sha256sum < "$settings")

if [ "$kind" = cpu ]; then room 390; else room 250 DUALATTN_MEMORY_FRACTION; fi
train=(train.py --task fgvc --dataset shapes)

aside() { find . -name 'checkpoint_latest.pth*' -not -path ./checkpoints/checkpoint_latest.pth | grep -q .; }

say launch --as-asked "${room[@]}" -- python "${train[@]}"
echo "(--as-asked: as if nothing had been foreseen, so that what fails really fails)"
"$launch" --as-asked --json-file result.json "${room[@]}" -- "$python" "${train[@]}" | tee output.txt

echo
check "the training reached its end" grep -q 'Training completed!' output.txt
check "launch exited 0 for a program that succeeded" [ "$(json result.json "d['exit_code'], d['ending']")" = "0 succeeded" ]
check "the first attempt had trained an epoch, validated and saved before it ran out of memory" \
	[ "$(json result.json "[a['outcome']['ending'] for a in d['attempts']]"), $(grep -c '^Epoch 1/2' output.txt)" = "['out of memory', 'succeeded'], 2" ]
check "the second took 4 × 4 instead of 8 × 2" \
	[ "$(grep -E 'Physical|Accumulation|accumulation' output.txt | tr '\n' ';')" = "Physical batch size: 8;Gradient accumulation steps: 2;Physical batch size: 4;Gradient accumulation steps: 4;" ]
check "every attempt printed the global batch of 16" [ "$(grep 'Effective batch size' output.txt | sort | uniq -c | tr -s ' ')" = " 2 Effective batch size: 16" ]
check "it started over, with the old states put aside" aside
check "the settings are what they were, byte for byte" [ "$before" = "$(sha256sum < "$settings")" ]

rm -rf checkpoints*
say launch "${room[@]}" -- python "${train[@]}"
echo "(with foresight: no epoch is lost)"
"$launch" -q --json-file foreseen.json "${room[@]}" -- "$python" "${train[@]}" > output.txt
check "the first attempt trained to the end" [ "$(json foreseen.json "len(d['attempts']), d['ending']")" = "1 succeeded" ]
check "it was changed before it started, not after" [ "$(json foreseen.json "len(d['attempts'][0]['plan']['edits']) > 0")" = True ]
check "the global batch was 16" grep -q 'Effective batch size: 16' output.txt
say launch show last
"$launch" show last
