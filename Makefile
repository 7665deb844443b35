# make demo   set up and run the main example
# make test   set up with development tools and run the tests
# make check  style, types and tests
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test check lint types docs clean

demo: $(VENV)/.run
	$(BIN)/python examples/main_job.py

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto

check: lint types test

lint: $(VENV)/.dev
	$(BIN)/python -m ruff check unity tests tools examples benchmarks
	$(BIN)/python -m ruff format --check unity tests tools examples benchmarks

types: $(VENV)/.dev
	$(BIN)/python -m mypy

docs: $(VENV)/.dev
	$(BIN)/python tools/make_docs.py

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

clean:
	rm -rf $(VENV) build dist *.egg-info
