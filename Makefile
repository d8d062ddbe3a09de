# Each target sets itself up: Python 3.11 or newer, pip and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The peers that benchmarks compare with have their own environment.
PEERS := .peers
# So have the frameworks whose loops are tested, to keep the main environment small.
FRAMEWORKS := .frameworks
# torch's CPU and CUDA builds share a version but not a hash, so it is in no lock file.
TORCH := torch==2.13.0
# pip runs from outside the environment, so that Debian's Python needs no python3-venv package.
# Quiet twice: shows errors, but no warning for each index that lacks a package.
pip_into = $(PYTHON) -m pip --python $(1)/bin/python --disable-pip-version-check --quiet --quiet
PIP := $(call pip_into,$(VENV))
RUN := PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python
# Tests wait more than they compute, so use more processes than cores.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(8, 2 * (os.cpu_count() or 1)))')
# Sets have another order in each process, and the processes must agree on the names of tests.
SEED := $(or $(SEED),$(shell $(PYTHON) -c 'import random; print(random.randrange(2**32))'))
# Takes a name and a command; prints the name, the seconds it took and, if it failed, its output.
check = @began=$$(date +%s); printf '==> %-14s' '$(1)'; \
	if printed=$$($(2) 2>&1); then printf '%4d s\n' $$(($$(date +%s) - began)); \
	else code=$$?; printf ' failed\n%s\n' "$$printed"; exit $$code; fi

.DEFAULT_GOAL := help
.PHONY: help demo test parts format docs lock soak bench sizes clean

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.locked ## Train a small model and score with it under constant evictions.
	@$(RUN) -m outlast demo

test: $(VENV)/.torch $(FRAMEWORKS)/.ready parts ## Run every check: format, lint, types, imports, tests, docs.
	$(call check,ruff format,$(BIN)/ruff format --check .)
	$(call check,ruff check,$(BIN)/ruff check .)
	$(call check,lint-imports,$(BIN)/lint-imports --no-cache --no-logo)
	$(call check,mypy,$(BIN)/mypy)
	@printf '==> pytest, %s processes, SEED=%s\n' $(WORKERS) $(SEED)
	@PYTHONHASHSEED=$(SEED) $(RUN) -m pytest -q -n $(WORKERS) --dist worksteal -p tests.progress -o console_output_style=classic
	$(call check,frameworks,$(FRAMEWORKS)/bin/python -m pytest -q -n 2 --confcutdir tests/frameworks tests/frameworks)

parts: $(VENV)/.locked
	@$(RUN) -m tests.parts install

format: $(VENV)/.locked ## Format the code and apply safe fixes.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.locked ## Rewrite the generated pages and the API snapshot.
	$(RUN) -m tests.generated

lock: $(VENV)/.locked ## Resolve the dependencies into the lock files again.
	$(BIN)/uv pip compile --quiet --universal --upgrade --python-version 3.11 --generate-hashes \
		--no-header --no-annotate --all-extras --group dev pyproject.toml --output-file requirements.lock
	$(BIN)/uv pip compile --quiet --universal --upgrade --python-version 3.11 --generate-hashes \
		--no-header --no-annotate --group torch-needs pyproject.toml tests/frameworks/requirements.in \
		--constraint requirements.lock --output-file tests/frameworks/requirements.lock

soak: $(VENV)/.torch parts ## Run what only fails over many repetitions; takes an hour.
	$(RUN) -m pytest -m soak -o faulthandler_timeout=0

bench: $(VENV)/.locked $(PEERS)/.ready ## Measure against limits and peers; takes an hour (TOPICS="guard exec" selects).
	OUTLAST_BENCH_PYTHON=$(CURDIR)/$(PEERS)/bin/python $(RUN) -m bench $(TOPICS)

sizes: ## Print the sizes of folders, modules and functions (gates nothing).
	@$(PYTHON) bench/sizes.py

clean: ## Remove the environments and the demo folders.
	rm -rf $(VENV) $(PEERS) $(FRAMEWORKS) classify-run outlast-demo

$(VENV)/.locked: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "error: Outlast needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ".\nhint:  Choose another Python: make PYTHON=python3.12.")'
	@printf '==> installing requirements.lock into %s\n' $(VENV)
	@$(PYTHON) -m venv --without-pip $(VENV)
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.torch: $(VENV)/.locked
	@printf '==> installing torch for the tests\n'
	@$(PIP) install $(TORCH) torchdata==0.11.0
	@touch $@

$(FRAMEWORKS)/.ready: tests/frameworks/requirements.lock pyproject.toml
	@printf '==> installing tests/frameworks/requirements.lock into %s\n' $(FRAMEWORKS)
	@$(PYTHON) -m venv --without-pip $(FRAMEWORKS)
	@$(call pip_into,$(FRAMEWORKS)) install --require-hashes -r tests/frameworks/requirements.lock
	@$(call pip_into,$(FRAMEWORKS)) install $(TORCH)
	@$(call pip_into,$(FRAMEWORKS)) install --no-deps --no-build-isolation -e .
	@touch $@

$(PEERS)/.ready: bench/requirements.txt
	$(PYTHON) -m venv --without-pip $(PEERS)
	$(PYTHON) -m pip --python $(PEERS)/bin/python --disable-pip-version-check install --quiet -r $<
	@touch $@
