#!/usr/bin/env bash
# Installs what `make dist` made as a new user would, and runs it: in a Debian 11, 12 and 13 without Go and gcc by pip, .deb,
# tarball, pipx and uv; in a root with musl and busybox; for arm64 by qemu-user; by pip, pipx and uv in fresh environments of
# this machine. As root, on Debian, with debootstrap, qemu-user-static and gcc; about 10 GB and an hour. Usage: try.sh DIST WORK [PART...]
set -euo pipefail
dist=$(realpath "$1") work=$(mkdir -p "$2" && realpath "$2")
shift 2
parts=${*:-debian11 debian12 debian13 musl arm64 python start same}
repo=$(cd "$(dirname "$0")/../.." && pwd)
number=$(basename "$dist"/launch-ml-*-linux-amd64.tar.gz -linux-amd64.tar.gz)
number=${number#launch-ml-}

rm -rf "$work/start" && mkdir "$work/start" && tar -C "$work/start" --strip-components=1 -xzf "$dist/launch-ml-$number-linux-amd64.tar.gz"

say() { printf '\n== %s\n' "$*"; }

# within ROOT COMMAND...: runs it in the root, with /proc and /dev, which end with it. A root trusts what this machine does.
export certs=/etc/ssl/certs/ca-certificates.crt
within() {
	unshare --mount sh -ec 'root=$1; shift
		mkdir -p "$root/proc" "$root/dev" "$root/tmp"
		mount -t proc proc "$root/proc"; mount --rbind /dev "$root/dev"
		exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LANG=C.UTF-8 \
			PIP_CERT=$certs SSL_CERT_FILE=$certs chroot "$root" "$@"' sh "$@"
}

# plan ROOT: launch plans a recipe of examples/sisr.
plan() {
	within "$1" sh -ec 'launch version; cd /sisr
		launch plan --vram 4GiB -- python3 train.py -opt options/train_attn.yml | grep -e "^plan:" -e planned'
}

# debian SUITE NUMBER: each way to install in a root of that release, with its own Python and torch.
debian() {
	local root=$work/debian$2 way launch
	[ -e "$root/etc/debian_version" ] || debootstrap --variant=minbase --include=python3,python3-pip,python3-venv,ca-certificates "$1" "$root"
	within "$root" sh -ec 'export DEBIAN_FRONTEND=noninteractive
		dpkg -s python3-torch python3-yaml python3-pil python3-venv >/dev/null 2>&1 ||
		apt-get install -y -q --no-install-recommends python3-torch python3-yaml python3-pil python3-numpy python3-venv' > "$root.txt"
	within "$root" sh -c '! command -v gcc && ! command -v go; cat /etc/debian_version; ldd --version | head -1
		python3 -c "import torch; print(\"torch\", torch.__version__)"'
	rm -rf "$root"/{dist,sisr,examples,venv,pipx,uv}
	cp "$certs" "$root$certs"
	cp -r "$dist" "$root/dist"
	cp -r "$repo/examples" "$root/examples"
	cp -r "$repo/examples/sisr" "$root/sisr"
	[ "$2" != 11 ] || old "$root"
	within "$root" sh -c 'cd /sisr && python3 gen_data.py'
	for way in pip deb tarball pipx uv; do
		say "Debian $2, by $way"
		case $way in
		pip) within "$root" sh -ec 'python3 -m venv --system-site-packages /venv
			/venv/bin/pip install -q --no-index --find-links /dist launch-ml' ;;
		deb) within "$root" sh -ec 'dpkg -i /dist/launch-ml_*_amd64.deb' ;;
		tarball) within "$root" sh -ec 'tar -C /usr/local --strip-components=1 -xzf /dist/launch-ml-*-linux-amd64.tar.gz' ;;
		pipx) within "$root" sh -ec 'python3 -m venv /pipx; /pipx/bin/pip install -q pipx
			/pipx/bin/pipx install /dist/launch_ml-*x86_64*.whl > /tmp/pipx.txt' ;;
		uv) within "$root" sh -ec 'python3 -m venv /uv; /uv/bin/pip install -q uv; /uv/bin/uv tool install -q /dist/launch_ml-*x86_64*.whl' ;;
		esac
		within "$root" sh -ec 'export PATH=/venv/bin:/root/.local/bin:$PATH; command -v launch launch-ml; launch-ml version
			cd /sisr; launch plan --vram 4GiB -- python3 train.py -opt options/train_attn.yml | grep -e "^plan:" -e planned'
		case $way in pip | deb)
			within "$root" sh -ec 'PATH=/venv/bin:$PATH
				LAUNCH=$(command -v launch) bash /examples/sisr/demo.sh cpu > /tmp/demo.txt 2>&1 || { tail -40 /tmp/demo.txt; exit 1; }
				grep -c "^  ok:" /tmp/demo.txt' ;;
		esac
		case $way in
		pip) within "$root" /venv/bin/pip uninstall -q -y launch-ml ;;
		deb) within "$root" dpkg -r launch-ml ;;
		tarball) within "$root" sh -ec 'cd /usr/local
			tar -tzf /dist/launch-ml-*-linux-amd64.tar.gz | cut -d/ -f2- | grep -v "/$" | xargs rm' ;;
		pipx) within "$root" /pipx/bin/pipx uninstall launch-ml ;;
		uv) within "$root" /uv/bin/uv tool uninstall -q launch-ml ;;
		esac
		within "$root" sh -c 'PATH=/venv/bin:/root/.local/bin:$PATH; ! command -v launch' || { echo "launch is still there"; exit 1; }
	done
}

# old ROOT: Debian 11's torch is 1.7: it lacks what the example's trainer uses of 1.13, and after a training, with launch or
# without, it aborts when Python ends.
old() {
	sed -i -e 's/-> torch.autocast:/:/' -e 's/torch.autocast(.*)$/torch.cuda.amp.autocast(enabled=self.opt.use_amp)/' \
		-e 's/torch.inference_mode()/torch.no_grad()/' -e 's/, weights_only=True//' -e 's/hasattr(torch.amp, "GradScaler")/False/' \
		"$1"/{sisr,examples/sisr}/sisr/model.py
	printf '    sys.stdout.flush()\n    os._exit(0)\n' | tee -a "$1"/{sisr,examples/sisr}/train.py > /dev/null
	sed -i '1,20s/^import sys$/import os, sys/' "$1"/{sisr,examples/sisr}/train.py
}

debian11() { debian bullseye 11; }
debian12() { debian bookworm 12; }
debian13() { debian trixie 13; }

musl() {
	local root=$work/musl
	say "musl and busybox"
	rm -rf "$root" && mkdir -p "$root/bin" "$root/lib" "$root/deb" "$root/root"
	(cd "$root/deb" && apt-get download -q busybox-static musl 2>/dev/null && for d in *.deb; do dpkg -x "$d" "$root/deb"; done)
	cp "$root"/deb/bin/busybox "$root/bin/" 2>/dev/null || cp "$root"/deb/usr/bin/busybox "$root/bin/"
	cp -P "$root"/deb/lib/ld-musl-* "$root/lib/"
	mkdir -p "$root/usr/lib" && cp -r "$root/deb/usr/lib/x86_64-linux-musl" "$root/usr/lib/" 2>/dev/null || :
	rm -rf "$root/deb"
	for c in sh ls cat grep; do ln -sf busybox "$root/bin/$c"; done
	tar -C "$root" --strip-components=1 -xzf "$dist/launch-ml-$number-linux-amd64.tar.gz"
	cp -r "$repo/examples/sisr" "$root/sisr"
	plan "$root"
	within "$root" launch gpus
	within "$root" sh -c 'printf "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 11.00 GiB total capacity; 9.00 GiB already allocated; 1.00 GiB free; 9.50 GiB reserved in total by PyTorch)\n" | launch explain -'
	within "$root" sh -c 'launch -- sh -c "echo it runs; exit 3"; echo "exit code $?"'
}

arm64() {
	say "arm64, by $(command -v qemu-aarch64-static)"
	rm -rf "$work/arm64" && mkdir "$work/arm64"
	tar -C "$work/arm64" --strip-components=1 -xzf "$dist/launch-ml-$number-linux-arm64.tar.gz"
	(cd "$repo/examples/sisr" && qemu-aarch64-static "$work/arm64/bin/launch" version &&
		qemu-aarch64-static "$work/arm64/bin/launch" plan --vram 4GiB -- python3 train.py -opt options/train_attn.yml | grep -e '^plan:')
}

python() {
	local env=$work/python
	rm -rf "$env" && mkdir "$env"
	say "pip in a fresh environment"
	python3 -m venv "$env/venv" && "$env/venv/bin/pip" install -q --no-index --find-links "$dist" launch-ml
	"$env/venv/bin/launch" version && "$env/venv/bin/launch-ml" version
	say "pip, upgrade and uninstall"
	"$env/venv/bin/pip" install -q --no-index --find-links "$dist" --upgrade --force-reinstall launch-ml
	"$env/venv/bin/pip" uninstall -q -y launch-ml && ! ls "$env/venv/bin/launch" 2>/dev/null
	"$env/venv/bin/pip" install -q pipx uv
	export PIPX_HOME=$env/pipx PIPX_BIN_DIR=$env/pipx/bin PIPX_MAN_DIR=$env/pipx/man
	export UV_TOOL_DIR=$env/uv UV_TOOL_BIN_DIR=$env/uv/bin UV_CACHE_DIR=$env/uv/cache
	local whl
	whl=$(ls "$dist"/launch_ml-*x86_64*.whl)
	say "pipx"
	"$env/venv/bin/pipx" install -q "$whl" && "$PIPX_BIN_DIR/launch" version && "$PIPX_BIN_DIR/launch-ml" version
	"$env/venv/bin/pipx" uninstall launch-ml
	say "uv tool install"
	"$env/venv/bin/uv" tool install -q "$whl" && "$UV_TOOL_BIN_DIR/launch" version && "$UV_TOOL_BIN_DIR/launch-ml" version
	"$env/venv/bin/uv" tool uninstall launch-ml
	say "uvx"
	"$env/venv/bin/uvx" -q --from "$whl" launch version
	"$env/venv/bin/uvx" -q "$whl" version
}

start() {
	say "start of the released program beside make build's, alternately, 50 pairs"
	make -s -C "$repo" build
	python3 - "$work/start/bin/launch" "$repo/bin/launch" <<'EOF'
import statistics, subprocess, sys, time
def took(program, *args):
    begin = time.perf_counter()
    subprocess.run([program, *args], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin
for args in (["version"], ["gpus"], ["--", "true"]):
    pairs = [(took(sys.argv[1], *args), took(sys.argv[2], *args)) for _ in range(50)]
    ratios = sorted(a / b for a, b in pairs)
    print(f"launch {' '.join(args)}: median {statistics.median(a for a, _ in pairs) * 1e3:.1f} ms beside "
          f"{statistics.median(b for _, b in pairs) * 1e3:.1f} ms; paired ratio {statistics.median(ratios):.2f} "
          f"(quartiles {ratios[12]:.2f} to {ratios[37]:.2f})")
EOF
}

same() {
	say "a second build of the commit, in another folder and without Go's cache"
	rm -rf "$work/second" && git clone -q "$repo" "$work/second"
	git -C "$work/second" checkout -q "$("$work/start/bin/launch" version --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["commit"])')"
	(cd "$work/second" && GOCACHE=$work/gocache go run ./tools/dist -out dist -zig "$(echo "$repo"/bin/zig-*/ziglang/zig)" \
		-nfpm "$(echo "$repo"/bin/nfpm-*)" -cyclonedx-gomod "$(echo "$repo"/bin/cyclonedx-gomod-*)") > "$work/second.txt" 2>&1 ||
		{ tail "$work/second.txt"; exit 1; }
	diff "$dist/SHA256SUMS" "$work/second/dist/SHA256SUMS" && echo "the checksums are the same"
}

for part in $parts; do $part; done
