# Each target sets itself up: Python 3.11 or newer, pip and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The peers that benchmarks compare with have their own environment.
PEERS := .peers
# So have the frameworks whose loops are tested, to keep the main environment small: the newest
# releases, and the oldest ones that an integration supports.
FRAMEWORKS := .frameworks
OLDER := .frameworks-older
# torch's CPU and CUDA builds share a version but not a hash, so it is in no lock file.
TORCH := torch==2.13.0
# What the main environment has; frameworks are not among it.
EXTRAS := all
# Frameworks depend on torch; the lock files must not.
without_torch := --override tests/frameworks/without-torch.txt --no-emit-package torch
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
# Takes a title and a command that prints nothing for long; prints a dot every two seconds, and the seconds.
patiently = @began=$$(date +%s); printf '==> %s ' '$(1)'; ($(2)) & work=$$!; \
	while kill -0 $$work 2>/dev/null; do printf .; sleep 2; done; \
	wait $$work && printf ' %d s\n' $$(($$(date +%s) - began))
# Takes an environment, what it has, and options of pytest.
frameworks = @printf '==> pytest, %s\n' '$(2)'; $(1)/bin/python -m pytest -q -n $(WORKERS) --dist worksteal \
	-p tests.progress -o console_output_style=classic --confcutdir tests/frameworks $(3) tests/frameworks

.DEFAULT_GOAL := help
.PHONY: help demo test parts format docs site wheel lock soak bench sizes clean

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The demo needs four packages. An environment that has everything will do, too.
demo: $(VENV)/$(if $(wildcard $(VENV)/.locked),.locked,.demo) ## Train a small model and score with it under constant evictions.
	@PYTHONPATH="$(CURDIR)/src" $(RUN) -m outlast demo

test: $(VENV)/.torch $(FRAMEWORKS)/.ready $(OLDER)/.ready parts ## Run every check: format, lint, types, imports, tests, docs.
	$(call check,ruff format,$(BIN)/ruff format --check .)
	$(call check,ruff check,$(BIN)/ruff check .)
	$(call check,lint-imports,$(BIN)/lint-imports --no-cache --no-logo)
	$(call check,mypy,$(BIN)/mypy)
	@printf '==> pytest, %s processes, SEED=%s\n' $(WORKERS) $(SEED)
	@PYTHONHASHSEED=$(SEED) $(RUN) -m pytest -q -n $(WORKERS) --dist worksteal -p tests.progress -o console_output_style=classic
	$(call frameworks,$(FRAMEWORKS),newest frameworks)
	$(call frameworks,$(OLDER),oldest supported frameworks,-m older)

parts: $(VENV)/.locked
	@$(RUN) -m tests.parts install

format: $(VENV)/.locked ## Format the code and apply safe fixes.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.locked ## Rewrite the generated pages and the API snapshot.
	$(RUN) -m tests.generated

site: $(VENV)/.locked ## Build the documentation site into build/website/html.
	@$(RUN) -m website

wheel: $(VENV)/.locked ## Build the wheel into dist, and try it in an empty environment.
	@rm -rf dist
	@$(PYTHON) -m pip --disable-pip-version-check --quiet --quiet wheel --no-deps --wheel-dir dist .
	@$(PYTHON) -m tests.wheel dist

lock: $(VENV)/.locked ## Resolve the dependencies into the lock files again.
	$(BIN)/uv pip compile --quiet --universal --upgrade --python-version 3.11 --generate-hashes \
		--no-header --no-annotate $(addprefix --extra ,$(EXTRAS)) --group dev pyproject.toml \
		--output-file requirements.lock
	$(BIN)/uv pip compile --quiet --universal --upgrade --python-version 3.11 --generate-hashes \
		--no-header --no-annotate --constraint requirements.lock pyproject.toml \
		--output-file requirements-demo.lock
	$(BIN)/uv pip compile --quiet --universal --upgrade --python-version 3.11 --generate-hashes \
		--no-header --no-annotate --group torch-needs pyproject.toml tests/frameworks/requirements.in \
		$(without_torch) --constraint requirements.lock --output-file tests/frameworks/requirements.lock
	$(BIN)/uv pip compile --quiet --universal --upgrade --python-version 3.11 --generate-hashes \
		--no-header --no-annotate --group torch-needs pyproject.toml tests/frameworks/older.in \
		$(without_torch) --output-file tests/frameworks/older.lock

soak: $(VENV)/.torch parts ## Run what only fails over many repetitions; takes an hour.
	$(RUN) -m pytest -m soak -o faulthandler_timeout=0

bench: $(VENV)/.locked $(PEERS)/.ready $(FRAMEWORKS)/.ready ## Measure against limits and peers; takes hours (TOPICS="guard exec" selects).
	OUTLAST_BENCH_PYTHON=$(CURDIR)/$(PEERS)/bin/python OUTLAST_BENCH_FRAMEWORKS=$(CURDIR)/$(FRAMEWORKS)/bin/python $(RUN) -m bench $(TOPICS)

sizes: ## Print the sizes of folders, modules and functions (gates nothing).
	@$(PYTHON) bench/sizes.py

clean: ## Remove the environments and the demo folders.
	rm -rf $(VENV) $(PEERS) $(FRAMEWORKS) $(OLDER) classify-run outlast-demo

define new_environment
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "error: Outlast needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ".\nhint:  Choose another Python: make PYTHON=python3.12.")'
	@$(PYTHON) -m venv --without-pip $(VENV)
endef

$(VENV)/.demo: requirements-demo.lock
	$(new_environment)
	$(call patiently,installing $< into $(VENV),$(PIP) install --require-hashes -r $<)
	@touch $@

$(VENV)/.locked: requirements.lock pyproject.toml
	$(new_environment)
	$(call patiently,installing requirements.lock into $(VENV),$(PIP) install --require-hashes -r requirements.lock \
		&& $(PIP) install --no-deps --no-build-isolation -e .)
	@touch $@

$(VENV)/.torch: $(VENV)/.locked
	$(call patiently,installing torch for the tests,$(PIP) install $(TORCH) torchdata==0.11.0)
	@touch $@

$(FRAMEWORKS)/.ready: tests/frameworks/requirements.lock pyproject.toml
	$(call install_frameworks,$(FRAMEWORKS),$<)

$(OLDER)/.ready: tests/frameworks/older.lock pyproject.toml
	$(call install_frameworks,$(OLDER),$<)

# Takes an environment and a lock file, which is complete except for torch.
define install_frameworks
	@$(PYTHON) -m venv --without-pip $(1)
	$(call patiently,installing $(2) into $(1),$(call pip_into,$(1)) install --require-hashes --no-deps -r $(2) \
		&& $(call pip_into,$(1)) install $(TORCH) && $(call pip_into,$(1)) install --no-deps --no-build-isolation -e .)
	@touch $@
endef

$(PEERS)/.ready: bench/requirements.txt
	@$(PYTHON) -m venv --without-pip $(PEERS)
	$(call patiently,installing $< into $(PEERS),$(call pip_into,$(PEERS)) install -r $<)
	@touch $@
