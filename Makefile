# make run    set up everything and start the app on http://127.0.0.1:8501
# make test   set up everything, then run all checks and tests, the browser's included
# make check  format, lint, types, direction of imports

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8501
SETUP := $(VENV)/.set-up
SETUP_TEST := $(VENV)/.set-up-test

.PHONY: run test test-long check lock screenshots answers clean

run: $(SETUP)
	$(BIN)/fenestra serve --port $(PORT)

test: $(SETUP_TEST) check
	$(BIN)/python -m pytest

test-long: $(SETUP_TEST)
	$(BIN)/python -m pytest -m long

check: $(SETUP_TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Draws docs/comparison.png anew, with the real embedded model.
screenshots: $(SETUP_TEST)
	SCREENSHOTS=docs $(BIN)/python -m pytest tests/browser/test_token_question.py

answers: $(SETUP)
	$(BIN)/python -m rag.evals.answers

lock: $(SETUP_TEST)
	$(BIN)/pip list --format=freeze --exclude-editable --exclude pip --exclude setuptools \
		| sed 's/+cpu$$//' > requirements.lock

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and "Fenestra needs Python 3.11 or newer; this is %d.%d. Say which to use: make run PYTHON=python3.11" % v[:2])'
	$(PYTHON) -m venv $(VENV)

# The lock file holds versions as constraints: a platform installs only what it needs.
$(SETUP): $(BIN)/python pyproject.toml requirements.lock
	$(BIN)/pip install --quiet --constraint requirements.lock --editable '.[local]'
	@touch $@

$(SETUP_TEST): $(SETUP)
	$(BIN)/pip install --quiet --constraint requirements.lock --editable '.[local,postgres,test]'
	sh tests/set-up.sh $(BIN)
	@touch $@
