# make crawl   crawl the sample site and drop its near-duplicates
# make check   linters, types, and the quick tests: no server, no browser, no Java, no other process
# make test    run all tests
PYTHON ?= python3
VENV ?= .venv
# A run of the tests starts hundreds of interpreters: none shall compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE
# Python compiles the modules that are imported; pip would compile those of all packages, tests included.
export PIP_COMPILE = 0
# PySpark comes as a source: pip packs a wheel of it and unpacks that, which need not be compressed.
# A configuration of the user's own stays.
export DIST_EXTRA_CONFIG ?= $(CURDIR)/.ci/wheels.cfg
# The build of an editable installation would install numba once more to compile the kernels.
export DEDUP_SHIP_KERNELS = 0
# Compiles them with that of the environment, unless they are there for the sources as they are.
# Where that is not possible a line says why, and numba compiles what a process uses.
KERNELS = $(BIN)/python -m dedup_middleware.base.aot dedup_middleware || true
CORES := $(shell $(PYTHON) -c 'import os; print(os.cpu_count())')
# Processes that run all tests. Most of the slow ones wait for servers, leases and other processes.
JOBS ?= $(shell expr $(CORES) + 4)
BIN := $(VENV)/bin

.PHONY: crawl check test warm lint bench bench-batch bench-fingerprint bench-spark evaluate docs clean test-matrix dist dist-kernels

crawl: $(VENV)/.crawler
	$(BIN)/scrapy crawl news

LINT := $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy
QUICK := not services and not processes and not empty_cache and not slow

# Linters run meanwhile; the target fails if either fails.
check: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n $(CORES) --dist worksteal --fewer-examples -m '$(QUICK)' & \
		tests=$$!; $(LINT); linted=$$?; wait $$tests && exit $$linted

# Chromium, Java and Redis come through apt while pip fills the environment and the kernels are compiled,
# which all processes would do at once on a new machine: those of processes that tests start, and those
# that are tested in the processes that run tests.
# A file is run by one process, so that what its tests share is made once.
test: $(VENV)/.venv
	PYTHON=$(PYTHON) bash .ci/tools chromium java redis & \
		tools=$$!; $(MAKE) --no-print-directory warm; made=$$?; wait $$tools && exit $$made
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

# Kernels need the plugin alone: they are compiled while pip installs what only the tests need. A new
# clone's tests are also read once: each process would rewrite their assertions otherwise.
warm: $(VENV)/.crawler
	DEDUP_COMPILE=1 $(BIN)/python -m tests.kernels & \
		compiling=$$!; $(MAKE) --no-print-directory $(VENV)/.dev && { [ -d tests/index/__pycache__ ] || \
		$(BIN)/python -m pytest --collect-only -q >/dev/null || true; }; made=$$?; wait $$compiling; exit $$made

lint: $(VENV)/.dev
	$(LINT)

bench: bench-fingerprint $(VENV)/.bench
	$(BIN)/python -m benchmarks.index
	$(BIN)/python -m benchmarks.index_size
	$(BIN)/python -m benchmarks.shared
	$(BIN)/python -m benchmarks.load
	$(BIN)/python -m benchmarks.crawl

# Kernels come compiled, as in an installation: numba in each process would be measured too.
# Against text-dedup and datatrove, which get an environment of their own in build/peers.
bench-batch: $(VENV)/.bench
	$(KERNELS)
	$(BIN)/python -m benchmarks.batch $(PAGES)

# TEXTS names files of JSON lines, or a folder of them; without it texts are made up.
bench-spark: $(VENV)/.bench
	$(KERNELS)
	$(BIN)/python -m benchmarks.spark $(TEXTS) $(if $(PAGES),--pages $(PAGES))

bench-fingerprint: $(VENV)/.bench
	$(BIN)/python -m benchmarks.signature
	$(BIN)/python -m benchmarks.text
	$(BIN)/python -m benchmarks.text --linear --plot build/linear.svg
	$(BIN)/python -m benchmarks.fingerprint $(if $(PAGES),--pages $(PAGES))
	$(BIN)/python -m benchmarks.startup

# PAIRS and DOCUMENTS name files of your own; without them pages are made up.
evaluate: $(VENV)/.evaluate
	$(BIN)/python -m research all --out build/evaluation \
		$(if $(PAIRS),--pairs $(PAIRS)) $(if $(DOCUMENTS),--documents $(DOCUMENTS))

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

# One stamp for each set of packages; a change of pyproject.toml installs anew.
$(VENV)/.venv:
	PYTHON=$(PYTHON) bash .ci/tools venv
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.crawler: $(VENV)/.venv pyproject.toml
	$(BIN)/python -m pip install --quiet setuptools --editable '.[crawler]'
	touch $@

$(VENV)/.dev: $(VENV)/.venv pyproject.toml
	$(BIN)/python -m pip install --quiet setuptools --editable '.[crawler,dev]'
	touch $@

$(VENV)/.bench: $(VENV)/.venv pyproject.toml
	$(BIN)/python -m pip install --quiet setuptools --editable '.[crawler,dev,bench]'
	touch $@

$(VENV)/.evaluate: $(VENV)/.venv pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[evaluate]'
	touch $@

$(VENV)/.docs: $(VENV)/.venv pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[crawler,docs]'
	touch $@

# SESSION names one session of noxfile.py; without it all are run whose Python is installed.
test-matrix: $(VENV)/.matrix
	$(BIN)/nox $(if $(SESSION),--session $(SESSION))

# What a release uploads: the source, the wheel, and whether a package page can show them.
dist: $(VENV)/.matrix
	rm -rf dist
	DEDUP_SHIP_KERNELS=0 $(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*

# A wheel with compiled kernels, for this Python and platform; needs no cache to start fast.
dist-kernels: $(VENV)/.matrix
	DEDUP_SHIP_KERNELS=1 $(BIN)/python -m build --wheel --outdir dist
	$(BIN)/twine check --strict dist/*

$(VENV)/.matrix: $(VENV)/.venv pyproject.toml
	$(BIN)/python -m pip install --quiet 'build>=1.2' 'nox[uv]>=2025.10.14' 'twine>=6.1'
	touch $@

# What these targets make, but for the environment, which takes minutes; a compilation that was
# killed leaves a folder .kernels-*. Of other folders, such as another environment, nothing is removed.
SOURCES := benchmarks crawler dedup_middleware docs research settings tests
clean:
	rm -rf build dist docs/_build .scrapy news.jsonl news.db news.db-journal news.db-wal news.db-shm
	rm -rf dedup_middleware/_kernels_* dedup_middleware/.kernels-*
	rm -rf .hypothesis .mypy_cache .nox .pytest_cache .ruff_cache __pycache__
	for folder in $(wildcard $(SOURCES)); do find $$folder -name __pycache__ -prune -exec rm -rf {} +; done
