# Everything starts from a machine that has make, Python 3.11 or newer, and the package registries.
# `make help` lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := protocol/deputy_protocol agents/deputy_agents server/deputy_server
WORKERS ?= 2
LOCK := uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-header --no-emit-index-url

.DEFAULT_GOAL := help
.PHONY: help venv demo try-nvim vsix test lint lint-nvim bench lock generate clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(VENV)/.runtime ## Set up .venv with Deputy in it; leaves .venv/bin/deputy

demo: $(VENV)/.runtime ## Watch agents work on this folder (no key needed; changes nothing here)
	@$(BIN)/deputy demo

try-nvim: $(VENV)/.dev ## Try the Neovim plugin on a sample project (offline model, unless a key is set)
	@$(BIN)/python editors/nvim/try/run.py

vsix: ## Pack the VS Code extension (needs Node.js with npm)
	npm --prefix editors/vscode ci --silent
	npm --prefix editors/vscode run --silent check
	npm --prefix editors/vscode run --silent build
	npm --prefix editors/vscode run --silent package

test: $(VENV)/.dev ## Run the tests (WORKERS=2 processes)
	$(BIN)/pytest -n $(WORKERS)

lint: $(VENV)/.dev ## Style, format, types, layers, generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -m deputy_protocol.generate --check

lint-nvim: ## Style and format of the Neovim plugin (needs npm and luacheck)
	npm --prefix editors/nvim ci --silent
	node editors/nvim/format.mjs --check
	cd editors/nvim && luacheck -q . ../../tests/editors/nvim/*.lua

bench: $(VENV)/.dev ## Measure, beside a bare loop in the same run
	$(BIN)/python -m tests.bench

generate: $(VENV)/.dev ## Write the schema and the reference pages anew from the code
	$(BIN)/python -m deputy_protocol.generate

lock: $(VENV)/.dev ## Resolve the dependencies of pyproject.toml anew into the hashed files
	$(BIN)/$(LOCK) pyproject.toml --group build -o requirements.txt
	$(BIN)/$(LOCK) pyproject.toml --group build --group dev -c requirements.txt -o requirements-dev.txt

clean: ## Remove the virtual environment and all caches
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The first interpreter that is new enough; a name may exist and still not start (version managers leave such shims).
$(VENV)/bin/python:
	@for python in "$(PYTHON)" python3.14 python3.13 python3.12 python3.11; do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "Setting up $(VENV) with $$("$$python" --version)"; \
	    "$$python" -m venv $(VENV) && exit 0; \
	    rm -rf $(VENV); \
	    echo "This Python cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; \
	  fi; \
	done; \
	echo "Deputy needs Python 3.11 or newer, and none was found. Name one with: make PYTHON=/path/to/python3.11" >&2; exit 1

# Build without isolation: the build backend is among the hashed requirements, so nothing unpinned is fetched.
$(VENV)/.runtime: requirements.txt pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	$(BIN)/python -m compileall -q $(PACKAGES)
	@touch $@

$(VENV)/.dev: requirements-dev.txt $(VENV)/.runtime
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	@touch $@
