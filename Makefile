# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
#
# `make` lists the targets. They install only into .venv and the user's cache.

SHELL = /bin/sh
.DEFAULT_GOAL = help
.PHONY: help demo test test-long attack check check-modules dkms-source check-p4 bench bench-growth lab wheel docs lock clean env-run env-dev env-long env-flent

# or each of the thousands of commands that tests start compiles all that it imports
unexport PYTHONDONTWRITEBYTECODE

BIN = .venv/bin
PYTEST = $(BIN)/python -m pytest
SHELL_FILES = tools/*.sh .ci/run kernels/lab/node/init kernels/lab/node/start
C_FILES = $(wildcard kernels/lab/guest/*.c kernels/lab/guest/*.h examples/*/*.c senders/*/*.c)

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 14

demo: env-run ## from a fresh clone to a decision table; the second time takes seconds
	@$(BIN)/l4sbench lab build
	@$(BIN)/l4sbench run matrices/quickstart.yaml

test: ## the test suite, including the lab, without tests that take minutes each
	@+$(MAKE) --no-print-directory --jobs=2 lab env-flent $(STATIC)
	@$(PYTEST) -m "not long" $(AT_ONCE)

# four files of tests at a time, as some mostly wait; tests/conftest.py gives them out, the longest first
AT_ONCE = -n 4 --no-loadscope-reorder

test-long: env-long env-flent lab ## tests that take minutes each: fidelity, full comparisons
	@$(PYTEST) -m long

attack: env-long ## hostile inputs, and faults in runs, from L4SBENCH_ATTACK_SEED: very many
	@$(PYTEST) -q tests/attack

check: check-static ## linters, types, layers, licences and unit tests
	@$(PYTEST) -q -m "not long" tests/unit tests/p4

check-modules: env-run ## compile and install our kernel modules with the kernel headers of Debian 13 and sid (100 MB each)
	@$(BIN)/python tools/module_headers.py

dkms-source: env-run ## write our kernel modules as packages of DKMS to build/dkms, and print how to install them
	@$(BIN)/python tools/dkms_source.py

# one target each, so that `make -k check` reports everything that is wrong; two at a time
STATIC = check-prose check-ruff check-types check-layers check-shell check-workflows check-c check-licences check-ansible
.PHONY: check-static $(STATIC)
check-static: env-dev
	@+$(MAKE) --no-print-directory --jobs=2 --output-sync=target $(STATIC)
$(STATIC): env-dev

check-ruff:
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .

check-prose:
	@$(BIN)/python tools/check_prose.py

check-types:
	@$(BIN)/mypy

check-layers:
	@$(BIN)/lint-imports --no-logo

check-shell:
	@$(BIN)/shellcheck $(SHELL_FILES)

check-workflows:
	@tools/actionlint.sh

check-c:
	@$(BIN)/clang-format --dry-run --Werror $(C_FILES)
	@tools/checkpatch.sh

check-ansible:
	@ANSIBLE_ROLES_PATH=roles PATH="$(CURDIR)/$(BIN):$$PATH" \
		$(BIN)/ansible-lint --offline --profile production -q playbooks roles

check-licences:
	@$(BIN)/reuse lint --quiet || $(BIN)/reuse lint

check-p4: env-run ## compile p4/ncf for Tofino 1 and 2 and print its stages, where a p4c for Tofino is on PATH
	@$(BIN)/python tools/check_p4.py || test $$? -eq 77

BENCH_JSON ?= runs/bench.json
bench: env-run ## measure the lab beside ns-3: virtual seconds per CPU second, cost per trial
	@$(BIN)/python -m pip --disable-pip-version-check --quiet install --require-hashes --no-deps \
		-r requirements/bench.txt || echo "without ns-3, which has no wheel for this machine" >&2
	@mkdir -p $(dir $(BENCH_JSON))
	@$(BIN)/python tools/bench.py --json $(BENCH_JSON)

bench-growth: env-run ## measure the lab for other rates, numbers of flows and round-trip times
	@$(BIN)/python tools/bench.py --growth

lab: env-dev ## build the lab kernel and its guest into the cache
	@$(BIN)/l4sbench lab build

wheel: env-dev ## build sdist and wheel into dist/
	@$(BIN)/python -m build --no-isolation

docs: env-run ## make the site of the documents in build/site; a broken link is an error
	@$(BIN)/python -m pip --disable-pip-version-check --quiet install --require-hashes --no-deps \
		-r requirements/docs.txt
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "the site: build/site/index.html"

lock: env-dev ## rewrite requirements/*.txt
	@tools/lock.sh

clean: ## remove everything built here; runs/ and the cache stay
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

env-run:
	@tools/bootstrap.sh run

env-dev:
	@tools/bootstrap.sh dev

env-long:
	@tools/bootstrap.sh long

# in a folder of its own, where tests/unit/reports/test_flent.py looks: only those need matplotlib
env-flent: env-dev ## install flent, which some tests run and skip without
	@cksum requirements/flent.txt | cmp -s - .venv/flent/installed || { \
		rm -rf .venv/flent && \
		$(BIN)/python -m pip --disable-pip-version-check --quiet install --no-compile --require-hashes \
			--target .venv/flent -r requirements/flent.txt && \
		cksum requirements/flent.txt >.venv/flent/installed; }
