# Two commands matter on a fresh machine: `make eval` (sets up, runs the main job) and `make test` (sets up, runs every test).
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup system eval test check e2e unit bench clean

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "make setup needs Python 3.11 or later; name one: make setup PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable ".[dev,port]"
	touch $@

system:
	tools/system-packages

eval: setup system
	PATH="$(CURDIR)/$(BIN):$$PATH" examples/panda-eval

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: setup
	$(BIN)/pytest -m "not e2e and not ray and not slow"

e2e: setup system
	$(BIN)/pytest -m "e2e or ray or slow"

# Two at once, since most of the time they wait for real processes; those that are held to real time one by one.
test: setup system
	$(BIN)/pytest -n 2 --dist loadfile -m "not realtime"
	$(BIN)/pytest -m realtime

bench: setup
	$(BIN)/python -m bench

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache
