# make audit      an environment with the core install, and the main job
# make test-fast  the inner loop: tests of tests/ that take less than a quarter of a second each; a few take more
# make test       an environment of its own; style, types, import contracts, tests, warnings as errors
# make test-thorough  tests of more than two CPU seconds: whole campaigns, frozen stores; PART=1/2 runs the first half
# make test-installed  real environments: the core install alone on each Python, the newest versions, the oldest polars
# make test-validity  one twelfth of the claims about error rates, chosen by the number of commits; SHARD=3/12 SEED=... repeats a run
# make test-slow  every claim about an error rate, long simulations, clusters of Ray (hours on two cores)
# make test-storage  campaigns against a server of S3, in an environment of their own (needs the network)
# make docs       the documentation as a site, warnings as errors
# make bench      timings as ratios against the straightforward way; fails where one grew by 1.3 in two runs
# make look       a page of every kind in a browser: screenshots, and what is wrong with them
# make peers      public tools beside ours (needs the network)
# make experiments  the small forms of the papers' tables and figures (an hour); what lacks its data is left out with a line
PYTHON ?= python3
VENV ?= .venv
DEV ?= .venv-dev
S3 ?= .venv-s3
PIP_FLAGS := --quiet --disable-pip-version-check --no-input
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 2

.PHONY: audit test-fast test test-thorough test-installed test-validity test-slow test-storage docs bench look peers experiments lint clean

audit: $(VENV)/.installed
	$(VENV)/bin/miaudit demo --overwrite

# Contiguous halves (worksteal): what a module prepares is prepared in one process.
PYTEST := $(DEV)/bin/python -m pytest -n 2 --dist worksteal

# Tests are compiled once, not in each run, whatever the environment says: that is half a minute. Two processes collect and
# run their own half of the files; those of pytest-xdist would both collect all of them.
test-fast: $(DEV)/.installed
	@$(MAKE) --no-print-directory --jobs 2 --keep-going --output-sync=target fast-1 fast-2

fast-%:
	PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/$(DEV)/bytecode PYTHONPATH=tests $(DEV)/bin/python -m pytest \
	-p parts --part $*/2 tests -q -m "not slow and not long and not thorough" --durations 10 --durations-min 1

test: $(DEV)/.installed lint docs
	$(PYTEST) -m "not slow and not thorough"

test-thorough: $(DEV)/.installed
	PYTHONPATH=tests $(PYTEST) tests -m "thorough and not slow" -p parts $(if $(PART),--part $(PART))

test-installed: $(DEV)/.installed
	$(DEV)/bin/python tools/installed.py

# The arguments of a run that is repeated; nothing is skipped then, unless UNSEEN=1.
VALIDITY := $(if $(SHARD),--shard $(SHARD)) $(if $(SEED),--seed $(SEED)) $(if $(UNSEEN),--unseen)

test-validity: $(DEV)/.installed
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(DEV)/bin/python -m validity $(VALIDITY)

test-slow: $(DEV)/.installed
	$(PYTEST) tests -m slow

test-storage: $(S3)/.installed
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(S3)/bin/python -m pytest -p no:xdist tests/slow/test_object_store.py tests/io/test_storage.py

lint: $(DEV)/.installed
	$(DEV)/bin/ruff check .
	$(DEV)/bin/ruff format --check .
	$(DEV)/bin/mypy
	$(DEV)/bin/lint-imports
	$(DEV)/bin/python tools/house.py --limits

docs: $(DEV)/.installed
	NO_MKDOCS_2_WARNING=1 $(DEV)/bin/mkdocs build --quiet

bench: $(DEV)/.installed
	$(DEV)/bin/python benchmarks/start.py
	$(DEV)/bin/python benchmarks/run.py
	$(DEV)/bin/python benchmarks/ratios.py --check
	$(DEV)/bin/python benchmarks/propensity.py
	$(DEV)/bin/python benchmarks/effects.py
	$(DEV)/bin/python benchmarks/ridge.py
	$(DEV)/bin/python benchmarks/calibration.py
	$(DEV)/bin/python benchmarks/one_run.py
	$(DEV)/bin/python benchmarks/zero_run.py
	$(DEV)/bin/python benchmarks/attacks.py
	$(DEV)/bin/python benchmarks/training.py
	$(DEV)/bin/python benchmarks/shadow.py
	$(DEV)/bin/python benchmarks/disclosure.py
	$(DEV)/bin/python benchmarks/features.py
	$(DEV)/bin/python benchmarks/synthesis.py
	$(DEV)/bin/python benchmarks/table_audit.py
	$(DEV)/bin/python benchmarks/step_audit.py
	$(DEV)/bin/python benchmarks/collect_tokens.py
	$(DEV)/bin/python benchmarks/generations.py --quick

look: $(DEV)/.installed
	$(DEV)/bin/python tools/look.py results/look

# needs the network: each tool goes into an environment of its own
peers: $(DEV)/.installed
	$(DEV)/bin/python benchmarks/peers/run.py --install --json benchmarks/peers/measured.json --docs benchmarks/peers/scores.md

experiments: $(DEV)/.installed
	$(DEV)/bin/python experiments/small_forms.py

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install $(PIP_FLAGS) -c constraints.txt -e .
	touch $@

$(DEV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(DEV)
	$(DEV)/bin/python -m pip install $(PIP_FLAGS) -c constraints.txt -e ".[dev]"
	touch $@

# s3fs asks for an older python-dateutil than the constraints have, so it is in no other environment.
$(S3)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(S3)
	grep -v '^python-dateutil==' constraints.txt > $(S3)/constraints.txt
	$(S3)/bin/python -m pip install $(PIP_FLAGS) -c $(S3)/constraints.txt -e ".[storage]" pytest hypothesis pandas pyarrow \
	s3fs==2026.9.0 aiobotocore==3.10.0 boto3==1.43.117 moto==5.2.5 flask flask-cors
	touch $@

clean:
	rm -rf $(VENV) $(DEV) $(S3) results .pytest_cache .mypy_cache .ruff_cache .hypothesis
