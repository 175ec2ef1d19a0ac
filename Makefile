# Everything sets itself up on a machine that has Python 3.11+, make and git.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2

.PHONY: demo test test-fast system check bench sim docs format inspect-shared clean

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "bigiron needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: $(READY)  ## a simulated fleet, faults injected, found and explained
	$(BIN)/bigiron demo

test: $(READY)  ## every test; those on real servers say why where a server is missing
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup

test-fast: $(READY)  ## without real servers and long tests
	$(BIN)/pytest -n $(WORKERS) -m "not system and not slow"

check: $(READY)  ## style, types, layers, docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/docs.py --check

bench: $(READY)  ## the figures of docs/limits.md, measured here and now
	$(BIN)/python bench/run.py

sim: $(READY)  ## record a simulated fleet, replay it, score what was found
	$(BIN)/python bench/sim.py

docs: $(READY)  ## write the generated pages anew
	$(BIN)/python tools/docs.py

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

inspect-shared: $(READY)  ## what `bigiron inspect` says of captured inputs beside the checkout
	$(BIN)/python tools/inspect_shared.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
