# `make demo` and `make test` do all the set-up they need, on a fresh machine too.
.DEFAULT_GOAL := help
bin := .venv/bin
# Tests start some hundred Python programs, which take twice as long if each compiles itself.
unexport PYTHONDONTWRITEBYTECODE
# Test files at once: one more than cores, because some of them wait for a time to pass.
WORKERS ?= 3

.PHONY: help setup engine oracle demo test checks lint types layers generated reference docs chaos lock format clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

setup: ## Python environment and, on Debian as root, system packages
	@tools/bootstrap

engine: setup ## the Kubernetes programs: found, downloaded or built once
	@$(bin)/edgewise local engine

demo: setup ## see it at work
	@$(bin)/edgewise demo

# The first build of the engine waits for the network at times: the checks run beside it.
test: setup ## everything that CI checks; DOMAIN=sessions: one domain and what lies below it
	@$(MAKE) --no-print-directory -j 2 oracle checks
	$(if $(DOMAIN),,EDGEWISE_TEST_BUDGET=1) $(bin)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=25 $(if $(DOMAIN),--domain $(DOMAIN))

oracle: engine ## the judge of network policies, built once for the tests
	@$(bin)/python -m tests.oracles.network_policy

checks: lint types layers generated docs ## what needs no cluster: style, types, layers, files, docs

lint: setup ## style and common mistakes
	$(bin)/ruff check .
	$(bin)/ruff format --check .

types: setup ## strict type checking
	$(bin)/mypy

layers: setup ## each layer imports only from the layers below it
	$(bin)/lint-imports

generated: setup ## generated files are what the code says
	$(bin)/edgewise crds check
	$(bin)/python tools/reference.py --check
	$(bin)/python tools/pictures.py --check
	$(bin)/python tools/evaluation.py --check

reference: setup ## write CRDs, reference pages and pictures from the code
	$(bin)/edgewise crds generate
	$(bin)/python tools/reference.py
	$(bin)/python tools/pictures.py
	$(bin)/python tools/evaluation.py

docs: setup ## build the site into site/, strictly
	NO_MKDOCS_2_WARNING=1 $(bin)/mkdocs build --strict --quiet

chaos: engine ## the long fault suites
	EDGEWISE_CHAOS=1 $(bin)/pytest -m chaos -n $(WORKERS) --dist loadfile --no-loadscope-reorder

format: setup ## let ruff rewrite what it can
	$(bin)/ruff check --fix .
	$(bin)/ruff format .

lock: setup ## rewrite requirements.lock from pyproject.toml
	@tools/lock

clean: ## remove what was made here (not the cache outside the repository)
	rm -rf .venv site dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -exec rm -rf {} +
