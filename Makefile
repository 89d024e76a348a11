# Everything here sets up what it needs: a fresh machine wants Python 3.11 or newer, git and make.
.DEFAULT_GOAL := help
SHELL := /bin/bash
BIN := .venv/bin
export UV_PROJECT_ENVIRONMENT := $(CURDIR)/.venv

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

# Compiled once here: each of the many processes that the tests start would do it again where caches are not written.
# The stamp is renewed when what it is made from changes, so that a second call costs nothing.
.venv/.ready: pyproject.toml uv.lock
	@python=$$(for name in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	    command -v $$name >/dev/null 2>&1 && $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	    && { echo $$name; break; }; done); \
	  test -n "$$python" || { echo "adjourn needs Python 3.11 or newer; none was found" >&2; exit 1; }; \
	  test -x $(BIN)/python || $$python -m venv .venv
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check "uv>=0.8"
	@$(BIN)/uv sync --locked --quiet --compile-bytecode --python $(BIN)/python
	@touch $@

setup: .venv/.ready ## make .venv and install what uv.lock says

demo: .venv/.ready ## an assistant works on a bundled incident, and stops to ask
	@$(BIN)/adjourn demo

test: .venv/.ready ## all tests but the slow proofs
	@$(BIN)/python -m pytest -n auto --maxprocesses 4 -m "not alone"
	@$(BIN)/python -m pytest -m alone

coverage: .venv/.ready ## the same, and which lines they miss: half as long again
	@$(BIN)/python -m pytest -n auto --maxprocesses 4 -m "not alone" --cov --cov-report= --cov-fail-under=0
	@$(BIN)/python -m pytest -m alone --cov --cov-append --cov-report=term

lint: .venv/.ready ## style, types, direction of imports
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/pyright
	@$(BIN)/lint-imports

bench: .venv/.ready ## the store beside LangGraph's own savers, long streams beside the bare client, agents beside create_agent
	@$(BIN)/python tests/bench/bench_store.py
	@$(BIN)/python tests/bench/bench_stream.py
	@$(BIN)/python tests/bench/bench_turns.py
	@$(BIN)/python tests/bench/bench_loop.py
	@$(BIN)/python tests/bench/bench_start.py

compared: .venv/.ready ## the tables of docs/compared.md, made anew: about five minutes on a quiet machine
	@$(BIN)/python tests/bench/faults.py --docs
	@$(BIN)/python tests/bench/bench_turns.py --docs
	@$(BIN)/python tests/bench/where.py --docs
	@$(BIN)/python tests/bench/bench_loop.py --docs
	@$(BIN)/python tests/bench/bench_start.py --docs

soak: .venv/.ready ## everything at once for ten minutes (ADJOURN_SOAK_S), with kills; judged by SQL alone
	@$(BIN)/python tests/soak/run_soak.py

scale: .venv/.ready ## the proofs of scale: a minute of writing, races, 1,000 runs that wait, workers that die, restarts, creations cut off, runs detached
	@ADJOURN_SOAK_S=60 ADJOURN_AGENTS=100 $(BIN)/python -m pytest tests/store/test_scale.py --timeout 600
	@ADJOURN_RACES=500 ADJOURN_WAITING=1000 $(BIN)/python -m pytest tests/store/test_races.py -s
	@ADJOURN_FLEET_RUNS=2000 ADJOURN_FLEET_WORKERS=4 ADJOURN_FLEET_PAUSE_S=14 $(BIN)/python -m pytest tests/store/test_fleet.py -s
	@ADJOURN_RESTARTS=120 ADJOURN_RESTART_CLIENTS=12 ADJOURN_RESTART_WORKERS=2 $(BIN)/python -m pytest tests/server/test_restarts.py -s
	@ADJOURN_CUTS=1 $(BIN)/python -m pytest tests/store/test_cuts.py --timeout 600
	@ADJOURN_DETACHED=1 $(BIN)/python -m pytest tests/runs -n auto --maxprocesses 4

langgraph-tests: .venv/.ready ## LangGraph's own tests on this saver: make langgraph-tests CHECKOUT=DIR
	@$(BIN)/python tests/store/langgraph_suite.py $(CHECKOUT)

faults: .venv/.ready ## what happens when something goes wrong, beside create_agent
	@$(BIN)/python tests/bench/faults.py

crash: .venv/.ready ## kill runs at every point, 2,000 times
	@ADJOURN_KILLS=2000 $(BIN)/python -m pytest tests/crash -s

build: .venv/.ready ## the wheel, and the smoke test against it in an empty environment
	@$(BIN)/python tests/packaging/build_and_smoke.py

docs: .venv/.ready ## the documentation as a site, in build/docs/site
	@$(BIN)/python tests/docs/website.py

format: .venv/.ready ## let ruff write the code its way
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

.PHONY: help setup demo test coverage lint bench compared soak scale faults langgraph-tests crash build docs format
