# From a bare clone: `make demo` shows the program at work, `make test` passes its tests. Both install what they need.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help demo test check fmt bench clean
.DEFAULT_GOAL := help

help:  ## Show what can be made
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[cpu,dev]'
	touch $(READY)

demo: $(READY)  ## Build the index of catalogs/ and ask it something
	$(BIN)/retrieve build --catalog catalogs/tools.jsonl
	$(BIN)/retrieve query "segment lungs in CT"

test: $(READY)  ## Run the tests; coverage below 85 % fails
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage report

check: $(READY)  ## Lint, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fmt: $(READY)  ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## Quality on SciFact, and speed against a naive peer (needs ../shared/data)
	$(BIN)/python -m benchmarks.run

clean:  ## Remove what was built, the virtual environment and the index included
	rm -rf $(VENV) artifacts build *.egg-info .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis
