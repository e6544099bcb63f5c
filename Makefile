# What a person does with this tree, one target each. `make` alone lists them.

.DEFAULT_GOAL := help
.PHONY: help run cluster test test-programs build install screens dist fmt fmt-check lint tidy deny sbom soak mcp-tools console-tools s3-tools schemathesis typescript npm python python-models wheel bench models-view clean

CARGO ?= cargo
DATA ?= $(CURDIR)/target/run

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

build: ## build the program for release
	@echo "Building shellkeep; the first time this takes some minutes."
	@start=$$(date +%s); $(CARGO) build --release --bin shellkeep && echo "Built in $$(($$(date +%s) - start)) s."

# DESTDIR=… stages it for a package.
PREFIX ?= /usr/local
install: build ## install the program, completions and man pages below PREFIX (/usr/local)
	deploy/stage.sh target/release/shellkeep "$(DESTDIR)$(PREFIX)"

DIST = shellkeep-$(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)-$(shell uname -m)-linux
screens: build ## take the pictures of docs/screens again; needs tmux and chromium
	docs/screens/take.py target/release/shellkeep

dist: build ## put a stripped tarball with completions and man pages, and its checksum, into dist/
	rm -rf "dist/$(DIST)"
	deploy/stage.sh target/release/shellkeep "dist/$(DIST)"
	strip "dist/$(DIST)/bin/shellkeep"
	tar -C dist --sort=name --owner=0 --group=0 --numeric-owner -czf "dist/$(DIST).tar.gz" "$(DIST)"
	rm -rf "dist/$(DIST)"
	cd dist && sha256sum "$(DIST).tar.gz" >"$(DIST).tar.gz.sha256"
	@ls -l dist/$(DIST).tar.gz*

run: build ## build and start the daemon in the foreground, its data in target/run (DATA=… for elsewhere)
	@mkdir -p "$(DATA)"
	@echo "In another terminal:  target/release/shellkeep run --socket $(DATA)/shellkeep.sock -s demo -- 'cd /tmp; export X=1'"
	@echo "and then:             target/release/shellkeep run --socket $(DATA)/shellkeep.sock -s demo -- 'pwd; echo \$$X'"
	target/release/shellkeep serve --data "$(DATA)" --socket "$(DATA)/shellkeep.sock"

cluster: build ## start Redis and three nodes that share it, print what to try, and end everything at Ctrl-C
	@deploy/cluster.sh target/release/shellkeep

# Clippy compiles our own crates here and its warnings are errors, so one pass lints and builds: `make lint` reads
# everything that others wrote once more. The tools that the tests need are fetched beside it.
test: export RUSTC_WORKSPACE_WRAPPER = clippy-driver
test: export CLIPPY_ARGS = -Dwarnings
# No line tables: a backtrace names its functions without them.
test: export CARGO_PROFILE_DEV_DEBUG = 0
test: fmt-check ## everything a change must pass
	@command -v clippy-driver >/dev/null || { echo "clippy-driver is missing; install it with: rustup component add clippy" >&2; exit 1; }
	@$(MAKE) --no-print-directory -j2 test-programs mcp-tools console-tools s3-tools
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
		$(CARGO) nextest run --workspace -E 'package(shellkeep-tidy)' && $(CARGO) nextest run --workspace; \
	else \
		$(CARGO) test --workspace; \
	fi
	@$(MAKE) --no-print-directory -j2 --output-sync=target python typescript schemathesis

test-programs:
	$(CARGO) build --workspace --all-targets

fmt: ## format the code
	$(CARGO) fmt --all

fmt-check: ## check the format
	$(CARGO) fmt --all --check

lint: ## clippy, warnings are errors
	$(CARGO) clippy --workspace --all-targets -- -D warnings

tidy: ## the rules of the house, as tests over the code itself
	$(CARGO) test --package shellkeep-tidy

# Without cargo-deny all but the advisories is checked: the tidy tests read deny.toml too.
deny: ## licences, sources, bans and advisories of what others wrote
	@if $(CARGO) deny --version >/dev/null 2>&1; then \
		$(CARGO) deny --locked check; \
	else \
		echo "cargo-deny is not installed, so advisories are not checked; the rest of deny.toml is"; \
		$(CARGO) test --package shellkeep-tidy --test supply; \
	fi

sbom: ## write the bill of materials (CycloneDX) to target/shellkeep.cdx.json
	@mkdir -p target
	@$(CARGO) metadata --locked --format-version 1 | $(CARGO) run --quiet --package shellkeep-tidy --example sbom >target/shellkeep.cdx.json
	@echo "target/shellkeep.cdx.json"

# The tests that read SHELLKEEP_SOAK or PROPTEST_CASES, and no others; docs/soak.md lists them.
SOAK ?= 20
SOAKED = binary(/^(cases|corpus|interrupted|powercut|redact)$$/) | package(shellkeep-store) & test(/damage::/) \
	| binary(checkpoints) & test(/^(model|rules)::/) \
	| binary(records) & test(every_single_change_of_a_recorded_session_is_found) \
	| binary(tenant) & test(/^(followers_that_never_read|half_requests|an_agent_at_every_limit)/) \
	| binary(door) & test(a_large_node_is_as_quick_as_a_small_one) \
	| binary(place) & test(/a_killed_node_s_files_are_on_the_next_owner|nothing_is_missing_or_double/) \
	| binary(place) & test(/^(load::|diverged::|promoted::|nodes::(one_name_is_created|a_node_that_was_asleep))/)
soak: ## the long forms of the tests that repeat something, SOAK times as often (20)
	SHELLKEEP_SOAK=$(SOAK) PROPTEST_CASES=$$((256 * $(SOAK))) $(CARGO) nextest run --profile soak --workspace -E '$(SOAKED)'
	$(CARGO) nextest run --profile soak --package shellkeep --run-ignored only -E 'binary(services)'
	$(CARGO) nextest run --profile soak --package shellkeep --features s3 --test place -E 'test(/^bucket::/)'
	SHELLKEEP_SOAK=10 crates/shellkeep/tests/openapi/run.sh

# Where they cannot be had the tests that need them say so; with CI set they fail.
mcp-tools: ## fetch the MCP clients that the tests drive, into target/mcp-tools
	@crates/shellkeep/tests/mcp/install.sh || true

# Every result and error of the MCP tests in one file, to be read as a model would.
models-view: ## run the MCP tests and write what a model reads in them to target/tmp/models-view.txt
	rm -f target/tmp/models-view.txt
	$(CARGO) test --package shellkeep --test mcp
	@echo target/tmp/models-view.txt

console-tools: ## fetch what the tests of the console drive chromium with, into target/console-tools
	@crates/shellkeep/tests/console/install.sh || true

s3-tools: ## fetch the server that the tests of s3:// talk to, into target/s3-tools
	@crates/s3/tests/install.sh || true

# It runs what was built; SHELLKEEP_SOAK=10 makes it ten minutes.
schemathesis: ## call every route as /openapi.json describes it, and otherwise, for a minute
	@crates/shellkeep/tests/openapi/run.sh

# It runs what was built; what it compiles is in target/typescript.
typescript: ## generate the TypeScript client's types from /openapi.json, compile it, and test it with Node
	@sdk/typescript/test/run.sh

npm: build typescript ## pack the Node client, and the program for it, into dist/npm
	sdk/typescript/tools/pack.sh target/release/shellkeep dist/npm

# It runs what was built.
python: ## check the types of the Python package and run its tests
	@sdk/python/tests/run.sh

python-models: ## regenerate the Python package's models from the /openapi.json of the debug build, and its sync client
	@SHELLKEEP_BIN=$(CURDIR)/target/debug/shellkeep sdk/python/tools/generate.sh

wheel: ## build one wheel into dist/: the program and the Python package, for glibc 2.28 and newer
	@sdk/python/tools/wheel.sh

# BENCH="--quick --no-peers" for a glance; see `target/release/shellkeep-bench --help`.
bench: ## measure against the floor and the peers; writes the table and the plot under docs/
	$(CARGO) build --release --package shellkeep --package shellkeep-bench
	target/release/shellkeep-bench $(BENCH)

clean: ## remove what was built
	$(CARGO) clean
