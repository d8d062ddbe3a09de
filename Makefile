# Each target does its own set-up: Python 3.11 or newer, pip and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What the benchmarks measure against has an environment of its own.
PEERS := .peers
# pip from outside fills the environment, so Debian's Python needs no python3-venv package.
PIP := $(PYTHON) -m pip --python $(BIN)/python --disable-pip-version-check
RUN := PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python

.DEFAULT_GOAL := help
.PHONY: help demo test parts format docs lock soak bench sizes clean
.PHONY: .tests-of-processes .tests-of-the-rest

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.locked ## Train a small model and score with it, evicted all the while.
	@$(RUN) -m outlast demo

test: $(VENV)/.torch parts ## Run every check: format, lint, types, imports, tests, docs.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo
	@$(MAKE) --no-print-directory -j2 --output-sync=target .tests-of-processes .tests-of-the-rest

# Tests that start processes mostly wait, so they run beside the others.
.tests-of-processes:
	$(RUN) -m pytest tests/drill tests/docs

.tests-of-the-rest:
	$(RUN) -m pytest --ignore tests/drill --ignore tests/docs

parts: $(VENV)/.locked
	@$(RUN) -m tests.parts install

format: $(VENV)/.locked ## Format the code and apply safe fixes.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.locked ## Write the generated pages and the API snapshot anew.
	$(RUN) -m tests.generated

lock: $(VENV)/.locked ## Resolve the dependencies anew into requirements.lock.
	$(BIN)/uv pip compile --quiet --universal --upgrade --python-version 3.11 --generate-hashes \
		--no-header --no-annotate --all-extras --group dev pyproject.toml --output-file requirements.lock

soak: $(VENV)/.torch parts ## Repeat what only shows itself over many repetitions; takes minutes.
	$(RUN) -m pytest -m soak

bench: $(VENV)/.locked $(PEERS)/.ready ## Measure everything against its limits and peers; takes an hour.
	OUTLAST_BENCH_PYTHON=$(CURDIR)/$(PEERS)/bin/python $(RUN) -m bench $(TOPICS)

sizes: ## Print the sizes of modules and functions (gates nothing).
	@$(PYTHON) bench/sizes.py

clean: ## Remove the environments and what the demo left.
	rm -rf $(VENV) $(PEERS) classify-run outlast-demo

$(VENV)/.locked: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "error: Outlast needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ".\nhint:  Name another with make PYTHON=python3.12.")'
	$(PYTHON) -m venv --without-pip $(VENV)
	$(PIP) install --quiet --require-hashes -r requirements.lock
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.torch: $(VENV)/.locked
	$(PIP) install --quiet torch==2.13.0 torchdata==0.11.0
	@touch $@

$(PEERS)/.ready: bench/requirements.txt
	$(PYTHON) -m venv --without-pip $(PEERS)
	$(PYTHON) -m pip --python $(PEERS)/bin/python --disable-pip-version-check install --quiet -r $<
	@touch $@
