# Postern. `make help` says what there is. Every target does its own set-up.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --disable-pip-version-check --quiet --require-hashes --only-binary :all:
COMPILE := $(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --no-header --python-version 3.11
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help run test check lint format types contracts bench lock clean

help:  ## Show what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/ready  ## Run Postern on its embedded PostgreSQL, at http://127.0.0.1:8000
	@exec $(BIN)/postern serve

test: $(VENV)/ready-dev $(VENV)/ready-tools  ## Run every test
	$(BIN)/python -m pytest -n $(WORKERS) --cov --cov-report=term-missing:skip-covered --cov-fail-under=100

check: lint types contracts test  ## What CI runs: lint, format check, types, import contracts, tests

lint: $(VENV)/ready-dev  ## Lint, and check the formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/ready-dev  ## Format, and mend what the linter can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/ready-dev  ## Check the types
	$(BIN)/mypy

contracts: $(VENV)/ready-dev  ## Check who imports whom
	$(BIN)/lint-imports

bench: $(VENV)/ready-dev $(VENV)/ready-tools  ## Measure, and append the figures to docs/benchmarks.md
	$(BIN)/python -m ops.bench

lock: $(VENV)/ready-dev  ## Pin every dependency anew, with hashes
	$(COMPILE) pyproject.toml -o requirements.lock
	$(COMPILE) --extra dev -c requirements.lock pyproject.toml -o requirements-dev.lock
	$(COMPILE) -c requirements-dev.lock ops/requirements-build.in -o requirements-build.lock
	$(COMPILE) ops/requirements-cmake.in -o ops/requirements-cmake.lock

clean:  ## Remove the virtual environment and caches; data under .postern stays
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis .coverage* build dist *.egg-info

# The environment is usable once its stamp exists; a changed lock makes it anew.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Postern needs Python 3.11 or later; say PYTHON=... to name one")'
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/ready: requirements.lock requirements-build.lock pyproject.toml ops/build_argon2.py | $(BIN)/python
	@echo "Installing what Postern needs …"
	@$(PIP) -r requirements-build.lock -r requirements.lock
	@$(BIN)/python ops/build_argon2.py
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/ready-dev: requirements-dev.lock $(VENV)/ready
	@echo "Installing what the tests need …"
	@$(PIP) -r requirements-dev.lock
	@touch $@

$(VENV)/ready-tools: ops/install-test-tools | $(BIN)/python
	@ops/install-test-tools
	@touch $@
