# Two commands do everything on a fresh machine with Python 3.11 and make: `make demo` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# The one release that is tested. With an open range pip would take a build with gigabytes of CUDA packages.
TORCH := torch==2.13.0

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all fuzz torture torture-short lint format types layers docs check results figures lock niivue clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: $(VENV)/.installed ## Make .venv with everything pinned (does nothing when it is there)

# The lock holds a hash for every file of every package but torch, whose CPU and CUDA files differ from machine to machine.
$(VENV)/.installed: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "segpl needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check $(TORCH)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

niivue: setup ## Fetch NiiVue, which draws the scans of `segpl view` (setup does it too)
	$(BIN)/python hatch_build.py

demo: setup ## Train on built-in phantoms with and without the unlabelled ones, score both, draw them
	$(BIN)/segpl demo --out demo

test: setup ## Run the tests but for the slow ones
	$(BIN)/pytest -n 2 -m "not slow"

test-all: test ## Run all tests
	$(BIN)/pytest -n 2 -m slow

fuzz: setup ## Read 1,000 damaged files (half an hour): no traceback, no flood of memory, no wrong voxels
	$(BIN)/python tests/fuzz/fuzz.py

torture: setup ## Kill commands and cut the power, 1,000 times (an hour or less): nothing is lost
	$(BIN)/python tests/torture/torture.py

torture-short: setup ## The same, about 50 times (2 minutes)
	$(BIN)/python tests/torture/torture.py --changes 3 --moments 2 --pairs 2

lint: setup ## Ruff: style and likely mistakes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: setup ## Let ruff format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: setup ## Mypy
	$(BIN)/mypy

layers: setup ## Import-linter: data flows one way
	$(BIN)/lint-imports

docs: setup ## Build the documentation site into build/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

check: test-all lint types layers docs ## Everything that continuous integration runs

results: setup ## Write docs/results.md anew from the scores in studies/results
	$(BIN)/python studies/results.py

figures: setup ## Draw the diagrams and the thresholds of docs/paper.md anew
	$(BIN)/python studies/diagrams.py
	$(BIN)/python studies/thresholds.py

lock: ## Write requirements.lock anew from pyproject.toml
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/pip install --quiet pip-tools
	echo "$(TORCH)" > $(VENV)-lock/torch.txt
	CUSTOM_COMPILE_COMMAND="make lock" $(VENV)-lock/bin/pip-compile --quiet --upgrade --generate-hashes --strip-extras \
		--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --unsafe-package torch --all-extras \
		--constraint $(VENV)-lock/torch.txt \
		--output-file requirements.lock pyproject.toml
	rm -r $(VENV)-lock

clean: ## Remove the environment and the demo
	rm -rf $(VENV) demo
