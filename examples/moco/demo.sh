#!/usr/bin/env bash
# The main job, for real: a training that runs out of memory in its first step, met by a smaller micro-batch at the same
# global batch; and one that leaves memory unused, which --fill doubles the micro-batch of. Usage: demo.sh cpu|gpu
. "$(dirname "$0")/../demo.bash"
begin main.py gen_data.py src
"$python" gen_data.py

large=()
if [ "$kind" = cpu ]; then
	room 400
	large=("${room[@]}")
fi
if [ "$kind" = cpu ]; then room 280 MOCO_MEMORY_FRACTION; else room 200 MOCO_MEMORY_FRACTION; fi
small=("${room[@]}")
settings() { sed -i "s/^from src\.config_[a-z]* import/from src.config_$1 import/" src/training/train_moco.py; }
globals_kept="{a['plan']['batch']['micro'] * a['plan']['batch']['accumulation'] * a['plan']['batch']['ranks'] for a in d['attempts']} == {256}"

settings wide # an optimizer step takes its 256 images at once
before=$(cat src/config_*.py | sha256sum)

say launch plan "${small[@]}" -- python main.py
"$launch" plan "${small[@]}" -- "$python" main.py || true

say launch --as-asked "${small[@]}" -- python main.py
echo "(--as-asked: as if nothing had been foreseen, so that what fails really fails)"
"$launch" --as-asked --json-file result.json "${small[@]}" -- "$python" main.py

echo
check "launch exited 0 for a program that succeeded" [ "$(json result.json "d['exit_code'], d['ending']")" = "0 succeeded" ]
check "an out-of-memory was met" [ "$(json result.json "d['attempts'][0]['outcome']['ending']")" = "out of memory" ]
check "every attempt kept the global batch of 256" [ "$(json result.json "$globals_kept")" = True ]
check "the program says itself that it took the smaller micro-batch" \
	[ "$(json result.json "int(d['attempts'][-1]['outcome']['settings']['micro-batch']) == d['attempts'][-1]['plan']['batch']['micro'] < 256")" = True ]
check "it trained to the end and saved" [ -n "$(find checkpoints -name last.pth)" ]
check "the settings are what they were, byte for byte" [ "$before" = "$(cat src/config_*.py | sha256sum)" ]

rm -rf checkpoints
say launch "${small[@]}" -- python main.py
echo "(with foresight: no attempt is lost)"
"$launch" -q --json-file foreseen.json "${small[@]}" -- "$python" main.py 2>/dev/null
check "the first attempt trained to the end" [ "$(json foreseen.json "len(d['attempts']), d['ending']")" = "1 succeeded" ]

unset MOCO_MEMORY_FRACTION
settings thrifty # 64 images at a time, four times
for fill in "" --fill; do
	rm -rf checkpoints
	say launch $fill "${large[@]}" -- python main.py
	"$launch" -q $fill --allow numerics --json-file "run$fill.json" "${large[@]}" -- "$python" main.py 2> "run$fill.txt"
done
check "--fill at least doubled the micro-batch" [ "$(json run--fill.json "d['attempts'][-1]['plan']['batch']['micro'] >= 2 * d['job']['batch']['micro']")" = True ]
check "at the same global batch" [ "$(json run--fill.json "$globals_kept")" = True ]
check "and trained to the end" [ "$(json run--fill.json "d['ending']")" = succeeded ]
"$python" - <<'END'
import json, re
def of(name):
    batch = json.load(open(name + ".json"))["attempts"][-1]["plan"]["batch"]
    pace = re.findall(r"([\d.]+)it/s", open(name + ".txt", encoding="utf-8").read())[-1]  # by the program's own count
    return batch, float(pace) * batch["micro"] * batch["ranks"]
(one, slow), (two, fast) = of("run"), of("run--fill")
print(f"\nsamples per second: {slow:.0f} with {one['micro']} × {one['accumulation']}, {fast:.0f} with {two['micro']} × {two['accumulation']}: {fast / slow:.2f} times as many")
END
