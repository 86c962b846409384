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

# room MIB VARIABLE: puts into the array room the flags that leave the job so much memory. On a card torch's allocator may take that
# much and cuBLAS's workspaces, by the share that the trainer reads from the variable; launch has room for the
# context as well, which no share limits. The limits for cards follow from the estimates: no card has run them yet.
room() {
	if [ "$kind" = cpu ]; then
		room=(--device cpu --memory "${DEMO_MEMORY_MIB:-$1}MiB")
		return
	fi
	export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0} CUDA_DEVICE_ORDER=PCI_BUS_ID
	local limit free total workspace context
	read -r free total < <("$launch" gpus --json | "$python" -c 'import json, sys
d = json.load(sys.stdin)
known = d and d[0]["total_bytes"] is not None
print(d[0]["total_bytes"] - d[0]["used_bytes"], d[0]["total_bytes"]) if known else print(0, 0)')
	[ "$total" -gt 0 ] || { echo "there is no NVIDIA GPU here that launch can see" >&2; exit 1; }
	read -r workspace context < <("$launch" estimate --arch compact --json --receipts=false | "$python" -c 'import json, sys
lines = json.load(sys.stdin)["phases"][0]["items"]
print(*(sum(l["bytes"] for l in lines if l.get("what", "").startswith(what)) for what in ("cuBLAS", "CUDA context")))')
	limit=$((${DEMO_MEMORY_MIB:-$1} * 1024 * 1024 + workspace))
	export "$2=$("$python" -c "print($limit / $total)")"
	room=(--reserve "$((free - limit - context))")
}

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }

# check WHAT TEST...: what is claimed is tested.
check() {
	local what=$1; shift
	if "$@"; then echo "  ok: $what"; else echo "  NOT SO: $what" >&2; exit 1; fi
}

# json FILE EXPRESSION: a Python expression of the document d.
json() { "$python" -c "import json,sys; d=json.load(open(sys.argv[1])); print($2)" "$1"; }

# page NAME DOCUMENT: the page of a run or a sweep has the numbers of its JSON document, and, where there is a Chromium, opens without
# an error and without a network.
page() {
	say launch report "$1" --output page.html
	"$launch" report "$1" --output page.html > /dev/null
	check "the page has the numbers of the JSON, in less than 2 MB" "$python" "$here/../report_numbers.py" page.html "$2"
	command -v chromium > /dev/null || { echo "  not checked: there is no chromium to open the page in"; return 0; }
	local root=()
	[ "$(id -u)" != 0 ] || root=(--no-sandbox)
	timeout 120 chromium --headless=new "${root[@]}" --disable-gpu --disable-dev-shm-usage --user-data-dir="$work/chromium" \
		--host-resolver-rules="MAP * ~NOTFOUND" --enable-logging=stderr --dump-dom "file://$PWD/page.html" > dom.html 2> browser.txt || true
	check "Chromium opened it" grep -q 'launch report</title>' dom.html
	check "Chromium's console is empty" [ -z "$(grep CONSOLE browser.txt)" ]
}
