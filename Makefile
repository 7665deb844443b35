# make demo   set up and run the main example
# make test   set up with development tools and run the tests, and a quick part of them on the other Pythons found
# make check  style, types and tests
# make metrics  size and shape of the package
# make test PYTHON=python3.13  all tests on one Python, in an environment of its own
PYTHON ?= python3
VENV ?= .venv$(patsubst %,-%,$(notdir $(filter-out python3,$(PYTHON))))
BIN := $(VENV)/bin
OTHERS := 3.11 3.12 3.13 3.14
QUICK := tests/ir tests/e2e/test_bad_input.py tests/script/test_decorators.py tests/vm/test_interpret.py

.PHONY: demo test quick others check lint types docs metrics clean

demo: $(VENV)/.run
	$(BIN)/python examples/main_job.py

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto
ifeq ($(PYTHON),python3)
	@$(MAKE) --no-print-directory others
endif

quick: $(VENV)/.test
	$(BIN)/python -m pytest -n auto $(QUICK)

# a Python is found on the path or in pyenv's folder; one that is the main one, or does not start, is passed over
others: $(VENV)/bin/python
	@for version in $(OTHERS); do \
	  $(BIN)/python -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$$version')" && continue; \
	  found=; \
	  for python in $$(command -v python$$version) $(HOME)/.pyenv/versions/$$version.*/bin/python$$version; do \
	    if $$python -c "" 2>/dev/null; then found=$$python; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then echo "Python $$version is passed over: none here that starts"; continue; fi; \
	  echo "The quick part of the tests on $$found"; \
	  $(MAKE) --no-print-directory quick PYTHON=$$found || exit 1; \
	done

check: lint types test

lint: $(VENV)/.dev
	$(BIN)/python -m ruff check unity tests tools examples benchmarks
	$(BIN)/python -m ruff format --check unity tests tools examples benchmarks

types: $(VENV)/.dev
	$(BIN)/python -m mypy

docs: $(VENV)/.dev
	$(BIN)/python tools/make_docs.py

metrics: $(VENV)/bin/python
	@$(BIN)/python tools/metrics.py

$(VENV)/bin/python:
	@$(PYTHON) -c "import ensurepip" 2>/dev/null || { \
	  echo "Python's venv module is incomplete; installing the package python3-venv"; \
	  apt-get update -qq && apt-get install -y -qq python3-venv; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@ $(VENV)/.run

$(VENV)/.test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test]"
	touch $@ $(VENV)/.run

clean:
	rm -rf .venv .venv-* build dist *.egg-info
