# Start with `make run` and `make test`; the rest is for working on ccmux.

CARGO  ?= cargo
PREFIX ?= $(HOME)/.local
BIN     = target/release/ccmux

.PHONY: help run build install uninstall test test-root check bench bench-quick soak man clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## Build ccmux and open a pane (without a terminal: start the daemon)
	@$(BIN)

build: ## Build the release binary
	$(CARGO) build --release --locked -p ccmux

install: build ## Install the binary, man pages and completions under PREFIX (default: ~/.local)
	install -d $(PREFIX)/bin $(PREFIX)/share/man/man1 $(PREFIX)/share/bash-completion/completions
	install -m 755 $(BIN) $(PREFIX)/bin/ccmux
	$(BIN) man $(PREFIX)/share/man/man1
	$(BIN) completions bash > $(PREFIX)/share/bash-completion/completions/ccmux
	@case ":$$PATH:" in *:$(PREFIX)/bin:*) ;; *) echo "add $(PREFIX)/bin to PATH";; esac

uninstall: ## Remove what `make install` has installed; keeps your panes and ~/.ccmux
	rm -f $(PREFIX)/bin/ccmux $(PREFIX)/share/man/man1/ccmux.1 $(PREFIX)/share/man/man1/ccmux-*.1
	rm -f $(PREFIX)/share/bash-completion/completions/ccmux

man: build ## Write the man pages to target/man
	$(BIN) man target/man

test: ## Install the tools that the tests need, run all tests, and try the benchmark
	scripts/install-test-tools
	scripts/run-tests
	$(MAKE) --no-print-directory bench-quick

test-root: ## Run all tests as the current user, even as root
	scripts/install-test-tools
	scripts/run-tests root

check: ## Check formatting, lints, documentation, spelling and dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet
	scripts/check-spelling
	scripts/check-dependencies

bench: build ## Compare with tmux and a bare PTY; prints a table, writes JSON to bench-results/
	scripts/install-test-tools
	$(CARGO) build --release --locked -p ccmux-testkit --bin bench
	@mkdir -p bench-results
	target/release/bench --ccmux $(BIN) --json bench-results/bench.json

# Shows that the benchmark works, with the binaries that the tests built. The figures mean nothing.
bench-quick:
	$(CARGO) build --workspace --all-targets --locked
	@mkdir -p bench-results
	target/debug/bench --ccmux target/debug/ccmux --quick --json bench-results/quick.json

soak: ## Run the long tests: kills, lock contention, seven claudes, the API, ten minutes of churn
	scripts/install-test-tools
	CCMUX_SOAK_KILLS=1000 CCMUX_SOAK_INTERRUPTIONS=500 CCMUX_SOAK_LOCKS=100000 \
	CCMUX_SOAK_LOCK_PANES=50 CCMUX_SOAK_PREVIOUS="$$(scripts/build-previous-release)" \
	CCMUX_SOAK_RUNS=100 CCMUX_SOAK_HTTP_KILLS=5400 CCMUX_SOAK_CASES=200 \
	CCMUX_SOAK_EDITS=200 CCMUX_SOAK_PANES=120 CCMUX_SOAK_WORK=2000 CCMUX_SOAK_POWER_CUTS=50 \
	CCMUX_SOAK_SECONDS=$${CCMUX_SOAK_SECONDS:-600} \
		scripts/run-tests soak

clean: ## Remove everything that was built
	$(CARGO) clean
	rm -rf bench-results
