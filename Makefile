# make demo   set up and run the main example
# make test   set up with development tools and run the tests, and a quick part of them on the other Pythons found; on a slow machine
#             the long tests that have not begun after LONG_UNTIL minutes are passed over, and Pythons 20 minutes later
#             (LONG_UNTIL=999: none is)
# make quick  the core tests of every room, in under two minutes
# make check  style, types and tests
# make metrics  size and shape of the package
# make gpu-tools  builds pycuda, which has no wheel, from packages and a C compiler; its tests run then, with or without a GPU
# make test PYTHON=python3.13  all tests on one Python, in an environment of its own
PYTHON ?= python3
LONG_UNTIL ?= 40
ifndef BEGAN
BEGAN := $(shell date +%s)
export BEGAN
endif
VENV ?= .venv$(patsubst %,-%,$(notdir $(filter-out python3,$(PYTHON))))
BIN := $(VENV)/bin
OTHERS := 3.11 3.12 3.13 3.14
QUICK := $(addprefix tests/, test_architecture.py support ffi/test_dtype.py ffi/test_tensor.py ffi/test_registry.py ffi/test_engine.py \
  ffi/test_driver.py ir arith/test_simplify.py arith/test_layout.py te/test_te.py op/test_against_numpy.py op/test_type_rules.py \
  op/test_block_builder.py script/test_reader.py script/test_print_module.py script/test_syntax_forms.py script/test_decorators.py \
  test_golden.py transform/schedule/test_schedule_base.py transform/schedule/test_schedule_loops.py transform/test_default_schedules.py \
  target/test_statements.py target/test_signature.py vm/test_interpret.py vm/test_vm_main_job.py vm/test_limits.py \
  e2e/test_end_to_end.py e2e/test_bad_input.py cli)

.PHONY: demo test quick others check lint types docs metrics gpu-tools clean

demo: $(VENV)/.run
	$(BIN)/python examples/main_job.py

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --dist worksteal --long-until $(LONG_UNTIL)
ifeq ($(PYTHON),python3)
	@$(MAKE) --no-print-directory others
endif

quick: $(VENV)/.test
	$(BIN)/python -m pytest -n auto --dist worksteal $(QUICK)

# a Python is found on the path or in pyenv's folder; one that is the main one, or does not start, is passed over
others: $(VENV)/bin/python
	@for version in $(OTHERS); do \
	  $(BIN)/python -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$$version')" && continue; \
	  found=; \
	  for python in $$(command -v python$$version) $(HOME)/.pyenv/versions/$$version.*/bin/python$$version; do \
	    if $$python -c "" 2>/dev/null; then found=$$python; break; fi; \
	  done; \
	  if [ $$(($$(date +%s) - $(BEGAN))) -gt $$((($(LONG_UNTIL) + 20) * 60)) ]; then \
	    echo "Python $$version is passed over: the tests have taken more than $$(($(LONG_UNTIL) + 20)) minutes"; continue; fi; \
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

gpu-tools: $(VENV)/.dev
	$(BIN)/python tools/gpu_tools.py

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
