# make demo   the main job and the last words, for real, on a machine without a GPU; demo-moco, demo-stablesr, demo-dualattn, demo-lm: the other families
# make demo-sweep   twelve trials on a machine without a GPU, killed half-way and resumed
# make test   all tests
# These install what they need from Debian, if it is missing: python3-torch (1.13, CPU), PyYAML, Pillow; make test also gcc, grpcio, Slurm.
# make test also downloads torch 2 from PyPI, once: 560 MB, 1.4 GB in ~/.cache/launch-tests
# make check  every day: format, vet, lint and the fast tests; needs no torch

# make dist   what a release consists of, in the folder dist: tarballs, Debian packages, wheels, checksums (docs/install.md)

# go-nvml's headers mark dozens of functions as deprecated, and cgo warns of each, used or not.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations

GO     ?= go
PYTHON ?= /usr/bin/python3
export LAUNCH_TEST_PYTHON := $(PYTHON)

.PHONY: nocard build install check lint format test race mutation demo demo-moco demo-stablesr demo-dualattn demo-lm demo-sweep demo-gpu failures bench bench-truth check-declarations refresh-declarations test-declarations test-install test-trace card card-pack attack attack-kill deps demo-deps fmt man site site-tools check-site pictures docs-update dist

# What `launch version` prints of the commit. Go would record it by itself (-buildvcs), but not where git is told not to be asked, and
# it fails where git refuses; here what git does not answer is left out.
stamp = $(foreach v,commit=$(call git,rev-parse HEAD) date=$(call git,log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ) \
	modified=$(if $(call git,status --porcelain),true),-X main.$v)
git = $(shell TZ=UTC git $1 2>/dev/null)

# The networks call a tape's short methods from thousands of lines: inlined there, they make the program 2.3 MB larger, and
# no plan faster (tools/dist/build.go has the same).
small := -gcflags='github.com/launch-ml/launch/plugins/...=-l'

# Where no C compiler is found, Go builds without cgo, and launch asks nvidia-smi in place of NVIDIA's library (docs/install.md).
build:
	$(GO) build $(small) -ldflags '-s -w $(stamp)' -o bin/launch ./cmd/launch

install:
	$(GO) install $(small) -ldflags '$(stamp)' ./cmd/launch

# dist builds a release of the commit that is checked out, for amd64 and arm64; VERSION is v1.2.3, else that of the commit's tag. It
# needs git and pip, and downloads its tools once, from PyPI and by the Go module proxy. A C compiler of the machine is not used.
ZIG       := bin/zig-0.17.1/ziglang/zig
NFPM      := bin/nfpm-v2.44.2
CYCLONEDX := bin/cyclonedx-gomod-v1.10.0
$(NFPM): tool = github.com/goreleaser/nfpm/v2/cmd/nfpm
$(CYCLONEDX): tool = github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
$(ZIG): tools/dist/zig.txt
	rm -rf bin/zig-*
	PIP_ROOT_USER_ACTION=ignore $(PIP) install -q --disable-pip-version-check --no-deps --require-hashes -r $< --target $(dir $(@D))
	touch $@
dist: $(ZIG) $(NFPM) $(CYCLONEDX)
	$(GO) run ./tools/dist -out dist -zig $(ZIG) -nfpm $(NFPM) -cyclonedx-gomod $(CYCLONEDX) -python $(firstword $(PIP)) $(if $(VERSION),-version $(VERSION))

# nocard builds the libraries with which a trace runs without a driver (core/trace/driver).
nocard: $(ZIG)
	for a in x86_64:amd64 aarch64:arm64; do $(ZIG) cc -target $${a%:*}-linux-gnu -shared -fPIC -nostdlib -Os -s -Wl,-soname,libcuda.so.1 \
		-o core/trace/driver/nocard_$${a#*:}.so core/trace/driver/nocard.c || exit 1; done

# What the demos and the tests run on, from Debian. As root by apt-get, else through sudo; else it says what is missing.
demo-deps deps: which = $(if $(filter deps,$@),test,demo)
demo-deps deps:
	@tools/deps.sh $(which) $(PYTHON)

format:
	@test -z "$$(gofmt -l cmd core plugins sdk tools)" || { gofmt -l cmd core plugins sdk tools; echo 'gofmt would change these'; exit 1; }

# The linters are built from source, which the Go checksum database vouches for: no registry has their released binaries.
GOLANGCI := bin/golangci-lint-v2.15.0
DEADCODE := bin/deadcode-v0.52.0
$(GOLANGCI): tool = github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(DEADCODE): tool = golang.org/x/tools/cmd/deadcode
$(GOLANGCI) $(DEADCODE) $(NFPM) $(CYCLONEDX):
	CGO_ENABLED=0 GOBIN=$(CURDIR)/bin $(GO) install -ldflags '-s -w' $(tool)@$(lastword $(subst -v, v,$@))
	mv bin/$(notdir $(tool)) $@

# What is not in this commit follows two more rules: a line of Go has at most 120 characters, a commit's subject at most 72.
LINT_SINCE ?= 59e0aae74d09823f68673967827ee40dda8bcaa7

# lint: .golangci.yml has the limits; tools/lint/deadcode.txt lists the functions that may stay though nothing here calls them.
lint: $(GOLANGCI) $(DEADCODE)
	$(GOLANGCI) run ./...
	$(PYTHON) tools/lint/longlines.py $(GOLANGCI) $(LINT_SINCE)
	@! git log --no-merges --format='%h %s' $(LINT_SINCE)..HEAD 2>/dev/null | awk 'length($$0) - index($$0, " ") > 72' | grep . || \
		{ echo 'these subjects of commits have more than 72 characters'; exit 1; }
	@dead=$$($(DEADCODE) -test -f '{{range .Funcs}}{{$$.Path}}.{{.Name}}{{println}}{{end}}' ./...) && \
		! printf '%s\n' "$$dead" | grep . | grep -vxFf tools/lint/deadcode.txt || { echo 'nothing reaches these functions'; exit 1; }

# check-workflows looks at the workflows of GitHub as far as that goes without a runner.
.PHONY: check-workflows
check-workflows:
	$(GO) run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12 -shellcheck= -pyflakes=

# check leaves these tests to `make test`: the first eight need torch, the others are slow. -short shortens some more.
SLOW := ^(TestScripts|TestDocs|TestTorch|TestExample|TestPyTorchLoadsThePatchedCopy|TestCaptureWithoutGPU|TestCardDay|TestCardDayOnAStub|TestPromises|TestExamples|TestCounts|TestProblems|TestEnd|TestCache|TestEachByte|TestSameSlowly|TestProgram)$$
# A package has TIMEOUT for its tests, which is long for a busy machine; what they have started ends with them (tools/ends).
TIMEOUT ?= 40m
ENDS    := bin/ends
$(ENDS): tools/ends/main.go
	CGO_ENABLED=0 $(GO) build -o $@ ./tools/ends
gotest = $(ENDS) $(GO) test -vet=off -timeout $(TIMEOUT) # lint has vet
check: format lint $(ENDS)
	$(gotest) -short -skip '$(SLOW)' ./...

# Many tests wait for a program of theirs, so two halves run side by side. The longest package is cmd/launch.
test: export LAUNCH_TEST_SLURM := 1
test: deps format lint $(ENDS)
	@test -n "$$LAUNCH_TEST_TORCH" || $(PYTHON) tools/tracetorch/env.py >/dev/null 2>&1 & # downloads while the rest is tested
	$(MAKE) --no-print-directory -j2 test-go test-beside
	$(MAKE) test-trace # alone: its traces have a time limit

.PHONY: test-go test-beside
test-go: $(ENDS)
	$(gotest) -parallel 4 ./...
test-beside: $(ENDS)
	$(gotest) -race ./plugins/sisr ./core/plugin/host ./core/attempt ./core/observe ./core/record # prices on several cores, talks to a process, watches
	$(gotest) -race -run 'Line|Bytes|Screen|Voice|Patien|Title|Stuck|FullDisk' ./core/proc # share a terminal
	for e in sisr moco stablesr; do (cd examples/$$e && $(PYTHON) -m unittest -q) || exit 1; done
	cd sdk/python && PYTHONPATH=src $(PYTHON) -m unittest -q -b
	$(MAKE) test-declarations
	$(MAKE) test-install
	$(MAKE) attack QUICK=--quick

# mutation makes small faults in the packages that decide what happens to a run, and prints how many their tests find: FAULTS in each
# package, drawn by SEED, within TIME_LIMIT. PACKAGES names other packages. The tree stays as it is (tools/mutation).
FAULTS ?= 20
SEED   ?= 1
TIME_LIMIT ?= 30m
mutation:
	$(GO) run ./tools/mutation -n $(FAULTS) -seed $(SEED) -time $(TIME_LIMIT) $(PACKAGES)

race: $(ENDS)
	$(gotest) -race ./core/... ./plugins/... ./cmd/...

demo: demo-deps build
	./examples/sisr/demo.sh cpu
	./examples/lastwords/demo.sh cpu

demo-moco demo-stablesr demo-dualattn: demo-deps build
	./examples/$(@:demo-%=%)/demo.sh cpu

# LM_PYTHON names interpreters that have transformers or llamafactory, to run the real ones, too (examples/lm/README.md).
demo-lm: demo-deps build
	LM_PYTHON="$(LM_PYTHON)" ./examples/lm/demo.sh cpu

demo-sweep: demo-deps build
	./examples/sisr/sweep.sh cpu

demo-gpu: build
	./examples/sisr/demo.sh gpu

# failures provokes what trainings die of, for real, and checks the verdict on each: out of memory by a cgroup's limit,
# workers and ranks killed, /dev/shm and disks full, and so on. As root it provokes all of it, else what it can, and says so.
# TORCHRUN is an interpreter whose torchrun starts, if that of PYTHON does not: torch 1.13's does not with Python 3.11.
failures: deps build
	$(PYTHON) tools/failures/failures.py --launch bin/launch $(if $(TORCHRUN),--torchrun $(TORCHRUN))

# attack tries what must not happen: another account's files believed, a wrong result called a success, a training stopped. As
# root it makes all of it, from a second account and in namespaces of its own; else what it can, and says so. `make test` makes the quick part.
attack: deps build
	$(GO) build -o bin/attack-plugin ./tools/attack/plugin
	$(PYTHON) tools/attack/attack.py $(QUICK) --launch bin/launch --plugin bin/attack-plugin

# attack-kill kills launch, its keeper, the program and the plugin at 200 random moments of examples/sisr, on pipes and on a terminal.
attack-kill: deps build
	$(PYTHON) tools/attack/kill9.py --sisr -n 200 --launch bin/launch

bench: build
	$(GO) run ./tools/bench -- bin/launch

# bench-truth compares the estimates with what PyTorch was recorded to need, and fails where a limit is broken.
bench-truth:
	$(GO) run ./tools/truth

# check-declarations compares what the ready declarations rely on with the packages on PyPI: those versions that are recorded, or with
# NEWEST=--newest the newest ones. pip downloads them (20 MB) and installs nothing. refresh-declarations records it anew, from a folder
# of checkouts (nanoGPT, examples, pytorch-image-models, diffusers, sd-scripts) and from the newest packages.
PIP    ?= python3 -m pip
WHEELS := bin/wheels
wheels  = rm -rf $(WHEELS) && $(PIP) download -q --no-deps -d $(WHEELS) $$($(PYTHON) tools/declarations/refresh.py --download $1) || { \
	echo 'pip cannot download the packages: is a package index within reach?'; exit 1; }
check-declarations:
	$(call wheels,$(NEWEST))
	$(PYTHON) tools/declarations/refresh.py --check --wheels $(WHEELS)

# test-declarations is check-declarations where pip and a package index are within reach. Elsewhere the tests compare the declarations
# with what is recorded of those packages (TestReadyFacts).
test-declarations:
	@$(PIP) --version >/dev/null 2>&1 || { echo 'no pip here: the ready declarations were compared with the recorded tables only'; exit 0; }; \
		rm -rf $(WHEELS); $(PIP) download -q --no-deps -d $(WHEELS) $$($(PYTHON) tools/declarations/refresh.py --download) || { \
		echo 'no package index here: the ready declarations were compared with the recorded tables only'; exit 0; }; \
		$(PYTHON) tools/declarations/refresh.py --check --wheels $(WHEELS)

# test-trace tests the tracer with torch 2 (LAUNCH_TEST_TORCH), which tools/tracetorch downloads once where a package index is within reach.
test-trace:
	@python=$${LAUNCH_TEST_TORCH:-$$($(PYTHON) tools/tracetorch/env.py)} || { test $$? = 75 || exit 1; \
		echo 'no package index here: no script was traced, and the tracer (core/trace/trace.py) was not tested'; exit 0; }; \
		LAUNCH_TEST_TORCH=$$python $(GO) test ./core/trace -count=1 -v -run '^TestTracer' && \
		LAUNCH_TEST_PYTHON=$$python $(GO) test ./core/overlay -count=1 -run '^TestWordsOf(OneThatSavesItself|Melk)' # optimizers show their steps since torch 2

# test-install installs a wheel of launch with pip, pipx and uv, each in a fresh environment, where a package index is within reach.
CLIENTS := bin/clients
test-install: build
	@rm -rf $(CLIENTS); $(PYTHON) -m venv $(CLIENTS) || { echo 'apt-get install python3-venv'; exit 1; }; \
		$(CLIENTS)/bin/pip download -q --no-deps -d $(CLIENTS)/probe pipx >/dev/null 2>&1 || { \
		echo 'no package index here: the wheel was not installed with pipx and uv'; exit 0; }; \
		$(CLIENTS)/bin/pip install -q --require-hashes -r tools/dist/clients.txt && \
		LAUNCH_TEST_CLIENTS=$(CURDIR)/$(CLIENTS) LAUNCH_TEST_PROGRAM=$(CURDIR)/bin/launch \
			$(GO) test ./tools/dist -count=1 -v -run '^TestClients$$'

refresh-declarations:
	@test -n "$(CHECKOUTS)" || { echo 'CHECKOUTS=DIR names the folder that has the checkouts'; exit 2; }
	$(call wheels,--newest)
	$(PYTHON) tools/declarations/refresh.py --wheels $(WHEELS) --checkouts $(CHECKOUTS)

# card measures what is worth measuring on this machine's NVIDIA card, a piece of MINUTES at a time, into the folder RECORDS: run it
# again until it prints that nothing is left, and then `go run ./tools/truth -take $(RECORDS)`. A machine without Go needs
# bin/card alone, which card-pack makes (bin/card.tar.gz is the same): there it is `card/card.sh RECORDS --minutes 9`.
CARD_PYTHON ?= python3
RECORDS     ?= bin/records
MINUTES     ?= 9
card-pack: build
	rm -rf bin/card bin/card.tar.gz
	mkdir -p bin/card/capture
	cp bin/launch bin/card/launch
	cp tools/capture/*.py bin/card/capture/
	tar -cf - --exclude=__pycache__ --exclude=datasets --exclude=experiments --exclude=tb_logger examples | tar -xf - -C bin/card
	printf '#!/bin/sh\nexec "$${PYTHON:-python3}" "$$(dirname "$$0")/capture/card.py" "$$@"\n' > bin/card/card.sh
	chmod +x bin/card/card.sh
	tar -C bin -czf bin/card.tar.gz card

card:
	@test -x bin/card/card.sh || $(MAKE) card-pack
	PYTHON=$(CARD_PYTHON) bin/card/card.sh $(RECORDS) --minutes $(MINUTES)

# docs-update writes anew what the pages show of launch: the outputs of their commands, the lists of commands, flags and exit codes, and
# the schemas. Look at what has changed.
docs-update: deps
	$(GO) test ./cmd/launch -count=1 -run TestDocs -update

# man makes the man pages of all commands, in bin/man. Their date is SOURCE_DATE_EPOCH, else that of the commit.
man site: export SOURCE_DATE_EPOCH ?= $(call git,log -1 --format=%ct)
man:
	rm -rf bin/man
	mkdir -p bin/man
	$(GO) test ./cmd/launch -count=1 -run '^TestMan$$' -man $(CURDIR)/bin/man

# site makes the site of docs/, in bin/site, without a network. site-tools installs what it is made with into bin/site-tools: MkDocs and its
# theme from PyPI, of the versions and checksums in tools/site/requirements.txt. check-site opens every page in Chromium.
SITE_PYTHON ?= bin/site-tools/bin/python
site-tools:
	python3 -m venv bin/site-tools
	bin/site-tools/bin/python -m pip install -q --require-hashes -r tools/site/requirements.txt

site:
	@$(SITE_PYTHON) -c 'import material' 2>/dev/null || { \
		echo 'the site is made with MkDocs and its theme material: make site-tools installs them (apt-get install python3-venv)'; exit 1; }
	$(SITE_PYTHON) tools/site/site.py bin/site-sources bin/site
	@echo 'bin/site/index.html'

check-site: site
	python3 tools/site/check.py bin/site

# pictures makes all pictures of the pages anew: every docs/*picture.py does its own.
pictures: deps build
	for p in docs/*picture.py; do $(PYTHON) $$p || exit 1; done

fmt:
	gofmt -w cmd core plugins sdk tools
