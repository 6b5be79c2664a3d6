# Every target does its own set-up: a virtual environment in .venv with the versions pinned in
# constraints.txt. Nothing but Python 3.11 or newer is needed for `demo`, `test` and `check`.
PYTHON ?= python3
VENV := .venv
# Many tests wait for processes, so there are more workers than cores; a file stays in one worker,
# and files that wait are mixed with files that compute (tests/conftest.py).
TEST_WORKERS ?= 5
# More arguments for pytest, such as --last-failed or -k NAME.
PYTEST_ARGS ?=
# What `test-cluster` runs: everything that needs a real Kubernetes.
CLUSTER_TESTS ?= tests
BIN := $(VENV)/bin
# Most tests start processes, and one without cached bytecode starts three times slower; the caches
# stay beside the sources, ignored by git, whatever the caller's environment says.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test coverage test-slow check audit bench bench-cluster agent.pyz release image image-pins cluster-up cluster-down test-cluster conformance constraints docs clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z.-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.runtime ## See an edit reach processes, without any cluster
	@$(BIN)/hotmap demo

test: $(VENV)/.development ## Run the tests: minutes, without root or a cluster
	@$(BIN)/python -m pytest -q -m "not cluster and not slow" \
	  --numprocesses $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

coverage: $(VENV)/.development ## Print how much the quick tests reach
	@mkdir -p build/coverage
	@COVERAGE_FILE=$(CURDIR)/build/coverage/data $(BIN)/python -m pytest -q -m "not cluster and not slow" \
	  --numprocesses $(TEST_WORKERS) --cov --cov-report=term:skip-covered \
	  tests/core tests/kube tests/controller tests/volume

test-slow: $(VENV)/.development ## Run the tests that take longer
	@$(BIN)/python -m pytest -q -m "slow and not cluster" --numprocesses $(TEST_WORKERS) $(PYTEST_ARGS)

check: $(VENV)/.development ## Run the checks: ruff, mypy, import-linter
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# STRICT=1 fails where no advisory service can be reached, as for a release.
audit: $(VENV)/.development ## Check licenses and known vulnerabilities of dependencies
	@[ -x build/audit/bin/pip-audit ] || { $(PYTHON) -m venv build/audit && \
	  build/audit/bin/pip install --quiet --disable-pip-version-check pip-audit; } || true
	@$(BIN)/python -m tools.audit build/audit/bin/pip-audit $(if $(STRICT),--strict)

bench: $(VENV)/.development ## Measure speed and size on the local control plane
	@$(BIN)/python -m benchmarks

agent.pyz: $(VENV)/.runtime ## Write the agent as one file, build/agent.pyz
	@mkdir -p build
	@$(BIN)/python -m hotmap.agent.build build/$@
	@sha256sum build/$@

release: $(VENV)/.development ## Write all files of VERSION=… to dist/
	@[ -n "$(VERSION)" ] || { echo "name the version: make release VERSION=0.2.0" >&2; exit 1; }
	@$(BIN)/python -m tools.release $(VERSION)

image: $(VENV)/.development ## Write both images to build/images (Debian)
	@$(BIN)/python -m tools.image

image-pins: $(VENV)/.development ## Pin the current Debian packages and wheels of the images
	@$(BIN)/python -m tools.image.refresh

cluster-up: $(VENV)/.development ## Build and start a real Kubernetes (root, Go)
	@$(BIN)/python -m tests.cluster up

cluster-down: $(VENV)/.development ## Stop it; nothing is left running
	@$(BIN)/python -m tests.cluster down

# One cluster serves all its tests, so they run in the order of their files.
test-cluster: $(VENV)/.development ## Run the tests that need a real one (root, Go)
	@$(BIN)/python -m tests.cluster build --kwok 1 || true
	@$(BIN)/python -m pytest -q -p no:randomly -m cluster $(PYTEST_ARGS) $(CLUSTER_TESTS)

bench-cluster: $(VENV)/.development ## Measure propagation on a real Kubernetes
	@$(BIN)/python -m benchmarks --cluster

conformance: $(VENV)/.development ## Run upstream's e2e.test on a local plane (root, Go)
	@$(BIN)/python -m tests.conformance.e2e

constraints: $(VENV)/.development ## Pin what is installed now in constraints.txt
	@{ echo '# Every version that `make` installs. Made by `make constraints`.'; \
	   $(BIN)/pip freeze --exclude-editable; } > constraints.txt

docs: $(VENV)/.development ## Write the flags of every command into the CLI reference
	@$(BIN)/python docs/cli_reference.py

clean: ## Remove the virtual environment and the tools' caches
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	@find benchmarks docs src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "hotmap needs Python 3.11 or newer: $(PYTHON) is not; name another with make PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual environment; install its venv module (Debian: python3-venv)" >&2; exit 1; }

# Bytecode of the sources is cached too: where PYTHONDONTWRITEBYTECODE is set, as in many containers,
# each `hotmap status` would compile 150 of them again.
$(VENV)/.runtime: pyproject.toml constraints.txt | $(BIN)/python
	@echo "setting up $(VENV) (once) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[local]'
	@$(BIN)/python -m compileall -q -j 0 src
	@touch $@

$(VENV)/.development: pyproject.toml constraints.txt | $(BIN)/python
	@echo "setting up $(VENV) with the development tools (once) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@$(BIN)/python -m compileall -q -j 0 src
	@touch $(VENV)/.runtime $@
