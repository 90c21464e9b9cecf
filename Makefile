# make crawl   crawl the sample site and drop its near-duplicates
# make test    run all tests
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: crawl test lint bench bench-fingerprint docs clean

crawl: $(VENV)/.crawler
	$(BIN)/scrapy crawl news

test: $(VENV)/.dev
	$(BIN)/python -m pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: bench-fingerprint $(VENV)/.bench
	$(BIN)/python -m benchmarks.index

bench-fingerprint: $(VENV)/.bench
	$(BIN)/python -m benchmarks.signature
	$(BIN)/python -m benchmarks.text

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

# One stamp for each set of packages; a change of pyproject.toml installs anew.
$(VENV)/.venv:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.crawler: $(VENV)/.venv pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[crawler]'
	touch $@

$(VENV)/.dev: $(VENV)/.venv pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[crawler,dev]'
	touch $@

$(VENV)/.bench: $(VENV)/.venv pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[crawler,dev,bench]'
	touch $@

$(VENV)/.docs: $(VENV)/.venv pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[crawler,docs]'
	touch $@

clean:
	rm -rf .scrapy news.jsonl news.db news.db-wal news.db-shm
