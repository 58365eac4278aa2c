# `make` alone lists the targets. The real work is done by scripts/bootstrap, cargo, pytest and weir.
MAKEFLAGS += --no-print-directory
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := $(CURDIR)/.venv
export PATH := $(VENV)/bin:$(PATH):$(HOME)/.cargo/bin:/usr/sbin:/sbin
# PyO3 builds for this interpreter. With different ones for cargo and maturin it would be built twice.
export PYO3_PYTHON := $(VENV)/bin/python
# Containers often set it; then every process that a test starts would compile all of Weir again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test kills lint lint-python lint-rust audit fuzz bench bench-model bench-tap bench-wired bench-opening bench-trace bench-esp bench-tcp bench-planted bench-foreign bench-devices bench-campaigns bench-chain bench-disturbed bench-gate bench-guests bench-later bench-link bench-psock bench-programs bench-managing bench-rulesets bench-hostile bench-prefixes bench-shares bench-simulators psock-schedules voice-numbers build install-psock webui wheel deb release docs manual format lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

demo: build ## Measure a firewall, model it, predict, verify, report (a simulated one without root)
	@weir run firewall-rules

test: ## Install what tests need (as root), and run every test that this machine can run
	@scripts/bootstrap --test
	@scripts/test

kills: build ## Kill every long-running command and check what is left (root; ARGS="--kills 20")
	@python tests/kills $(ARGS)

lint: build ## Check style, types and layers, in Python and in Rust
	@$(MAKE) --jobs --keep-going --output-sync=target --old-file=build lint-python lint-rust

lint-python: build ## Check style, types and layers in Python
	ruff check .
	ruff format --check .
	mypy
	lint-imports --no-logo

lint-rust: build ## Check style in Rust
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
	cargo metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null

audit: build ## Check locks, licences and published vulnerabilities of what Weir is made of (network, cargo-deny, npm)
	@python scripts/audit

fuzz: ## Fuzz the parsers of untrusted bytes for an hour of CPU time (nightly, cargo-fuzz; ARGS="esp 3600")
	@scripts/fuzz $(ARGS)

bench: ## Compare the generator with trafgen, xdp-trafficgen, mgen and iperf3 (root)
	@scripts/bootstrap --bench
	@python bench/peers.py

bench-model: build ## Score predictions on held-out trials (root; not with ARGS="--lab sim")
	@python bench/model.py $(ARGS)

bench-tap: build ## What copying costs a link, and what is lost, compared with tcpdump (root)
	@python bench/tap.py $(ARGS)

bench-wired: build ## The same device in a namespace and between two ports (root; ARGS=rounds)
	@python bench/wired.py $(ARGS)

bench-opening: build ## What opening a large capture in weir web costs (ARGS="--packets 9000000")
	@python bench/opening.py $(ARGS)

bench-trace: ## Time the trace analysis against tcptrace and tshark (ARGS=capture.pcap)
	@scripts/bootstrap --bench
	@python bench/trace.py $(ARGS)

bench-esp: build ## What ESP costs per packet; published findings checked, gateways compared (root for these)
	@python bench/esp.py $(ARGS)

bench-tcp: ## Bulk transfers compared with iperf3, and what watching connections costs (root)
	@scripts/bootstrap --bench
	@python bench/tcp.py $(ARGS)

bench-planted: build ## Diagnose slow transfers with planted causes (root)
	@python bench/planted.py $(ARGS)

bench-foreign: build ## Diagnose captures that others published, judged by hand (ARGS=folder with the captures)
	@python bench/foreign.py $(ARGS)

bench-devices: build ## Profile bridge, NAT, flowtable, Open vSwitch, tc flower, xdp-filter, with a chart (root)
	@python bench/devices.py $(ARGS)

bench-campaigns: build ## What a campaign adds to its steps, and whether deaths change it (ARGS="--steps 10000 --no-kills")
	@python bench/campaigns.py $(ARGS)

bench-chain: build ## Compare a plan for a chain of devices with the chain itself (root)
	@python bench/chain.py $(ARGS)

bench-disturbed: build ## What a busy machine costs: valid attempts, time and error, quiet and disturbed (root)
	@python bench/disturbed.py $(ARGS)

bench-gate: build ## How often weir compare --measure is right, in an hour (root; ARGS="--rounds 5", "--failover")
	@python bench/gate.py $(ARGS)

bench-guests: build ## Weir inside a guest of QEMU with emulated cards, a second guest as the router (root; ARGS="--cards e1000e")
	@python bench/guests.py $(ARGS)

bench-later: build ## Verify a quick profile by later runs, quiet and disturbed (root; ARGS="--runs 8 --minutes-apart 20")
	@python bench/later.py $(ARGS)

bench-link: build ## Throughput, accuracy and lateness of the link emulator, compared with netem (root)
	@python bench/link.py $(ARGS)

bench-psock: build ## Parallel sockets at full speed, compared with TCP and multipath TCP (root)
	@python bench/psock.py $(ARGS)

bench-programs: build ## Fifty programs over parallel sockets: plain, by BPF, by seccomp (root; ARGS="--only curl")
	@python bench/programs.py $(ARGS)

bench-managing: build ## What changes to a managed plan of 100,000 prefixes cost (ARGS="--prefixes 20000")
	@python bench/managing.py $(ARGS)

bench-rulesets: build ## Compare orders of random rulesets in the kernel (root; ARGS="--nft 5000 --iptables 1000")
	@python bench/rulesets.py $(ARGS)

bench-hostile: build ## Serve a user of the page beside hostile clients (ARGS="--clients 200 --seconds 20")
	@python bench/hostile.py $(ARGS)

bench-prefixes: build ## What checking, looking up and serving a plan of 100,000 prefixes costs (root for BIND)
	@python bench/prefixes.py $(ARGS)

bench-shares: build ## One capture of 10 GB read by one process, and by 1 and 3 workers that share its flows (ARGS="--gigabytes 1")
	@python bench/shares.py $(ARGS)

bench-simulators: build ## Measured devices in ns-3, the simulated lab and as predictions: how far apart (libns3-dev)
	@python bench/simulators.py $(ARGS)

psock-schedules: ## Check 10,000 random schedules of a simulated network (SCHEDULES=10000)
	@PSOCK_SCHEDULES=$(or $(SCHEDULES),10000) cargo test --locked --package weir-psock --test simulated -- --nocapture

voice-numbers: build ## Check 10,000 random numbers at name servers, 300 at Kamailio, against the plan (root; NUMBERS=10000)
	@WEIR_VOICE_NUMBERS=$(or $(NUMBERS),10000) python -m pytest -q tests/netns/test_voice_numbers.py

build: ## Install what is missing and build the engine
	@scripts/bootstrap

install-psock: ## Build and install the C library of parallel sockets (PREFIX=/usr/local, DESTDIR=)
	@cargo build --release --locked --package weir-psock-c
	@crates/psock-c/install "$${CARGO_TARGET_DIR:-target}/release" "$(or $(PREFIX),/usr/local)"

webui: ## Build the page of weir web into python/weirlab/web/static (needs Node 20.19 or later)
	cd webui && npm ci --ignore-scripts --no-progress && npm run check && npm run build
	@python3 scripts/sbom

wheel: build ## Build the wheel into dist/
	@maturin build --release --out dist

deb: wheel ## Build a Debian package of the wheel and all that it rests on into dist/, for the release that this runs on
	@packaging/deb

release: build ## Build and check what is uploaded for a version, into dist/release (ARGS=--rehearse)
	@scripts/release $(ARGS)

docs: build ## Build the documentation site in build/docs/site, and check its links and its spelling
	@.venv/bin/python docs/site.py "$$(scripts/tools)"

manual: build ## Regenerate weir(1) and the lines of weir --help from the help of the commands
	@scripts/manual

format: build ## Format Python and Rust
	ruff check --fix --select I .
	ruff format .
	cargo fmt --all

lock: build ## Update the locked versions, the licences of redistributed software, and the bill of materials
	scripts/lock
	cargo update
	cargo update --manifest-path fuzz/Cargo.toml
	@scripts/bootstrap
	python scripts/licences
	python scripts/sbom

clean: ## Remove everything that was built here
	rm -rf build dist target .venv webui/node_modules .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	rm -f python/weirlab/_engine*.so
