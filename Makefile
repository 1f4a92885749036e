PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help attack demo test test-lowest dist format bench reference docs clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

$(VENV)/.base: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	touch $@

$(VENV)/.demo: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --editable ".[demo]"
	touch $@

$(VENV)/.test: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --editable ".[all]" --group dev
	touch $@

$(VENV)/.bench: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	touch $@

demo: $(VENV)/.demo  ## set up; fit, compare and report on real flights, into demo/
	$(BIN)/python -m reproduction.demo

attack: $(VENV)/.test  ## 1,400 kills, full disks, 200,000 bodies, swaps, 20,000 damaged models: eleven minutes
	$(BIN)/python scripts/attack.py
	$(BIN)/python -W error scripts/attack_models.py 20000

format: $(VENV)/.test  ## format and mend what ruff can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: $(VENV)/.test  ## set everything up and run every check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal --cov --cov-report=term:skip-covered

test-lowest: $(VENV)/.test  ## the core of the tests with the lowest versions that pyproject.toml promises
	$(BIN)/nox -s lowest

dist: $(VENV)/.test  ## build sdist and wheel into dist/, try every extra and README in fresh environments
	$(BIN)/python scripts/check_dist.py

bench: $(VENV)/.bench  ## set up the peers and measure speed and memory, into docs/benchmarks.md
	$(BIN)/python benchmarks/speed.py

reference: $(VENV)/.test  ## write docs/reference from the code
	$(BIN)/python scripts/write_reference.py

docs: $(VENV)/.test  ## build the site into site/, warnings are errors
	$(BIN)/python scripts/write_reference.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:  ## remove the environment and all caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage .nox dist htmlcov site demo
