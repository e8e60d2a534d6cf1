# Everything is installed into this checkout: Python packages and Node into .venv, the CDK into infra/cdk.
# It needs Python 3.11 to 3.13 and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
POLICIES ?= policies

# The tests and tools must see this checkout, not packages that a shell exports; the CDK (jsii) must see this Node.
unexport PYTHONPATH PYTHONHOME
export PATH := $(CURDIR)/$(BIN):$(PATH)
export JSII_NODE := $(CURDIR)/$(BIN)/node
export CDK_DISABLE_CLI_TELEMETRY := true
export PIP_DISABLE_PIP_VERSION_CHECK := 1

INSTALLED := $(VENV)/.installed
CDK_INSTALLED := infra/cdk/node_modules/.installed
CDK := infra/cdk/node_modules/.bin/cdk
PYTEST := $(BIN)/pytest -n 2 --dist loadgroup

.PHONY: help install demo test simulate check lint local local-down synth deploy clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

install: $(INSTALLED) $(CDK_INSTALLED)  ## everything that the other targets need

demo: install  ## the whole system on this machine, from a filled bucket to balanced books
	$(BIN)/python -m infra.local.demo

test: install  ## every test
	$(PYTEST) tests

simulate: install  ## SEEDS=n histories of everything that can go wrong; SEED=k tells one of them
	$(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),2000) $(if $(SEED),--seed $(SEED))

check: lint  ## format, lint, strict types, unit and infra tests: about a minute once all is installed and cached
	$(PYTEST) tests/unit tests/infra

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

local: install  ## deploy to an emulator that keeps running; POLICIES=dir for other policies
	$(BIN)/python -m infra.local.stage up --policies "$(POLICIES)"

local-down:  ## stop it, and throw its buckets, ledger and evidence away
	@if [ -e $(INSTALLED) ]; then $(BIN)/python -m infra.local.stage down; \
	elif [ -e .local/emulator.json ]; then \
	  echo "error: a stage may still run, and what stops it is not installed any more." >&2; \
	  echo "hint:  make install, then make local-down" >&2; exit 1; \
	else echo "nothing runs"; fi

synth: install  ## the CloudFormation template, into cdk.out
	$(CDK) synth --quiet -c policies="$(POLICIES)" $(CDK_ARGS)

deploy: install  ## to the account of the current AWS configuration; CDK_ARGS="-c stage=beta -c alarm_email=..."
	$(CDK) deploy -c policies="$(POLICIES)" $(CDK_ARGS)

clean: local-down  ## remove what was built and installed
	rm -rf $(VENV) infra/cdk/node_modules build cdk.out .local .mypy_cache .ruff_cache .pytest_cache functions/*.egg-info

$(VENV)/bin/python:
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo "error: there is no program $(PYTHON) here." >&2; \
	  echo "hint:  name a Python 3.11 to 3.13: make $(or $(MAKECMDGOALS),install) PYTHON=python3.13" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { \
	  echo "error: Sexton needs Python 3.11 to 3.13, and $(PYTHON) is $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "hint:  name another one: make $(or $(MAKECMDGOALS),install) PYTHON=python3.13" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# Everything is pinned, so there is nothing to resolve; the check tells if a pin is missing.
$(INSTALLED): requirements.txt functions/requirements.txt pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --no-compile --no-deps -r requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	$(BIN)/python -m pip check
	@touch $@

$(CDK_INSTALLED): infra/cdk/package.json infra/cdk/package-lock.json | $(INSTALLED)
	$(BIN)/npm ci --prefix infra/cdk --no-audit --no-fund --loglevel=error
	@touch $@
