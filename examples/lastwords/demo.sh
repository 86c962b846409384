#!/usr/bin/env bash
# The last words: a training saves every fourth step, and runs out of memory in its seventh, whose texts are long. The process
# itself saves the sixth before it ends, and launch goes on from there: no step is made twice. Usage: demo.sh cpu
. "$(dirname "$0")/../demo.bash"
begin train.py transformers .launch-job.yaml
[ "$kind" = cpu ] || { echo "this demo is for the CPU" >&2; exit 2; }
export OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
room 750 ''

say python train.py
echo "(without a limit, for comparison)"
"$python" train.py | tee plain.txt | tail -2
rm -rf out

say launch --as-asked "${room[@]}" -- python train.py
"$launch" --as-asked --trace=never --json-file result.json "${room[@]}" -- "$python" train.py > output.txt 2> launch.txt ||
	{ tail -30 launch.txt >&2; exit 1; }
grep '^launch:' launch.txt

# losses FILE: the numbers of the steps and their losses, to so many digits as a sum in another order keeps.
losses() { sed -n 's/^step \([0-9]*\) of .* loss \([0-9]*\.[0-9][0-9][0-9][0-9]\).*/\1 \2/p' "$1"; }

echo
check "the step before the out-of-memory was saved, and the program itself had saved none since step 4" \
	[ "$(json result.json "d['attempts'][0]['outcome']['last_words']['step']")" = 6 ]
check "launch says from which step it goes on" grep -q 'resumes from checkpoint-6' launch.txt
check "launch says that no step was lost" grep -q 'no reported iteration was trained twice' launch.txt
check "so it is: each of the ten steps was made once, in their order" \
	[ "$(losses output.txt | cut -d' ' -f1 | tr '\n' ' ')" = "1 2 3 4 5 6 7 8 9 10 " ]
check "their losses are those of the training without a limit" [ "$(losses output.txt)" = "$(losses plain.txt)" ]
check "the global batch is what it was" \
	[ "$(json result.json "{a['plan']['batch']['micro'] * a['plan']['batch']['accumulation'] for a in d['attempts']}")" = "{8}" ]
