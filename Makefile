# Every target starts from a bare checkout with Python 3.11 to 3.13 and make. The environment is .venv;
# it is made once and extended only when pyproject.toml or constraints.txt change.
#
#   PYTHON=...        the interpreter to build .venv with
#   PYTEST_ARGS=...   more words for pytest, for example PYTEST_ARGS="tests/forest -k prune"

SHELL := /bin/sh
comma := ,
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Two installs into one environment must not run at once, and the tests bring their own two processes.
.NOTPARALLEL:

IN_RANGE := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
# A pyenv shim is found on PATH even where its version is not installed, so each candidate has to run.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	if $$p -c "$(IN_RANGE)" >/dev/null 2>&1; then echo $$p; break; fi; done)

BIN := .venv/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt
PYTEST_ARGS ?=
# EnvPool is 740 MB; its tests are skipped where it is missing, but not in continuous integration.
DEV := dev$(if $(CI),$(comma)envpool)

.PHONY: help demo test lint bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

demo: .venv/.core ## learn one tree of a real table and write out/demo/report.html
	$(BIN)/python examples/demo.py

test: lint ## lint, then run every test, README and docstring examples included
	$(BIN)/python -m pytest -n 2 $(PYTEST_ARGS)

lint: .venv/.dev ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/.bench ## quick benchmarks
	$(BIN)/python benchmarks/routing.py --quick
	$(BIN)/python benchmarks/predict.py --quick

clean: ## remove the environment, caches and outputs
	rm -rf .venv out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

# A checkout that was moved or copied holds an environment that still points at the old place: make it anew.
ifneq ($(shell test -x $(BIN)/python && cat .venv/.home),$(CURDIR))
.PHONY: .venv/.home
endif

.venv/.home:
	@if [ -z "$(PYTHON)" ]; then \
		echo "hardwood needs Python 3.11, 3.12 or 3.13, and none of python3, python3.13, python3.12, python3.11" >&2; \
		echo "on PATH is one. Install one, or name one: make PYTHON=/path/to/python3.12 ..." >&2; exit 1; fi
	@$(PYTHON) -c "$(IN_RANGE)" || { \
		echo "$(PYTHON) is not Python 3.11, 3.12 or 3.13; name one: make PYTHON=/path/to/python3.12 ..." >&2; exit 1; }
	@echo "making .venv with $(PYTHON)"
	@$(PYTHON) -m venv --clear .venv
	@printf '%s\n' "$(CURDIR)" > $@

.venv/.core: .venv/.home pyproject.toml constraints.txt
	@echo "installing hardwood (once; a minute or two)"
	@$(PIP) --editable .
	@touch $@

.venv/.dev: .venv/.core
	@echo "installing the development tools (once)"
	@$(PIP) --editable '.[$(DEV)]'
	@touch $@

.venv/.bench: .venv/.core
	@echo "installing the benchmark's peers (once)"
	@$(PIP) --editable '.[bench]'
	@touch $@
