# `make help` lists the targets. Everything lives in .venv and build/; a second run does only what has changed.
PYTHON ?= $(shell command -v python3.11 || command -v python3 || echo python3.11)
JOBS ?= $(shell nproc)
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check

.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help setup build run train test check format unit pytest coverage conformance conformance-full ops-table fuzz bench docs clean eval-demo check-large check-models check-faults

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*##/  make \1 -/p' $(MAKEFILE_LIST)

setup: build  ## .venv with every dependency, and the extension built into python/torchport

$(VENV)/.created: tools/preflight.py
	@command -v $(PYTHON) >/dev/null || { echo "[python] must be Python 3.11, got none. Try: install it, or name one: make setup PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) tools/preflight.py
	@echo "[setup 1/4] virtual environment in $(VENV)"
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null && $(PYTHON) -m venv $(VENV) \
	  || { $(PYTHON) -m venv --without-pip $(VENV) && $(PYTHON) -m pip --python $(PY) install -q pip; }
	@touch $@

# torch first and pinned, so that no later package can bring in another one.
$(VENV)/.installed: $(VENV)/.created pyproject.toml
	@echo "[setup 2/4] build requirements (torch, CMake, Ninja, the CPU plugin)"
	@$(PIP) install torch==2.13.0 "scikit-build-core>=0.11" cmake ninja xla-cpu-pjrt || $(PY) tools/preflight.py --pip-failed
	@echo "[setup 3/4] torchport (editable) with its test requirements"
	@$(PIP) install --no-build-isolation -e ".[test,check]" || $(PY) tools/preflight.py --pip-failed
	@touch $@

build/build.ninja: $(VENV)/.installed CMakeLists.txt tools/locate.py
	@echo "[setup 4/4] configuring and building the extension with $(JOBS) jobs (a few minutes the first time)"
	@$(VENV)/bin/cmake -B build -G Ninja -DPython_EXECUTABLE=$(CURDIR)/$(PY) -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(VENV)/bin/ninja
	@touch $@

build: build/build.ninja  ## build what changed in core/
	@$(VENV)/bin/ninja -C build -j $(JOBS)

run: setup  ## the first look: train on cpu and on the device and compare; check the GPT for TARGETS=tpu:v6e,tpu:v5e,tpu:7x,cuda:h100
	@$(PY) examples/run.py $(if $(TARGETS),--targets $(TARGETS))

train: setup  ## the training part of it alone, with the CPU's runs made anew
	$(PY) examples/train.py

eval-demo: setup  ## scan, port, seal, measure, decide and report on examples/cuda_service (minutes)
	$(PY) examples/eval_demo.py --out out/eval-demo

test: setup check unit pytest  ## everything CI runs

check: $(VENV)/.installed  ## text, layers, sizes, ruff
	@$(PY) tools/text.py
	@$(PY) tools/layers.py
	@$(PY) tools/sizes.py
	@$(VENV)/bin/ruff check --quiet . && echo "ruff: 0 findings"

unit: build  ## C++ unit tests, without torch
	@$(VENV)/bin/ninja -C build -j $(JOBS) unit_tests
	@$(VENV)/bin/ctest --test-dir build --output-on-failure -j $(JOBS) --progress

pytest: build  ## Python tests
	$(PY) -m pytest tests

coverage: setup  ## which lowerings no line of tests/ops runs (3 minutes)
	$(PY) -m pytest tests/ops -m coverage

conformance: setup  ## PyTorch's op_db against CPU (slow, not part of make test)
	@mkdir -p out
	$(PY) tests/conformance/run.py --jobs $(JOBS) --out out/conformance.jsonl

conformance-full: setup  ## all of op_db, twelve dtypes, wrong calls too; an interrupted run goes on (hours)
	@mkdir -p out
	$(PY) tests/conformance/run.py --full --jobs $(JOBS) --out out/conformance-full.jsonl --causes \
	  --min-agree 99.5 --min-errors 98 --max-fallback 3

ops-table: setup  ## run the ops OPS=a,b (or all) again, through libtpu too where it is installed, and write docs/ops.md
	@mkdir -p out
	$(PY) tests/conformance/run.py --full --samples 4 $(if $(OPS),--ops $(OPS)) --jobs $(JOBS) --min-agree 0 --max-fallback 100 \
	  --programs out/programs --out out/ops-table.jsonl
	$(PY) tests/conformance/targets.py --read out/ops-table.jsonl --programs out/programs --out out/v6e.json --min-compiled 0
	$(PY) tests/conformance/write.py --read out/ops-table.jsonl --compiled out/v6e.json $(if $(OPS),--merge)
	$(PY) tools/tables.py

fuzz: setup  ## 10,000 random programs on the CPU and on the device (half an hour)
	$(PY) tests/fuzz/run.py --programs 10000 --jobs $(JOBS)

bench: setup  ## benchmarks against torch CPU, tables and JSON in out/
	@for name in dispatch recompile models memory_flat; do $(PY) benchmarks/$$name.py --out out/$$name.json || exit 1; done

docs: setup  ## write the generated tables of docs/
	$(PY) tools/tables.py
	$(PY) -m torchport.check.estimates --write docs/estimates.md

check-large: setup  ## whole models on whole slices through libtpu (20 minutes, needs pip install libtpu), docs/check-large.md
	$(PY) tests/check/large.py --write docs/check-large.md

check-models: setup  ## the examples and five transformers models for a TPU v6e (minutes, needs pip install libtpu), docs/check-models.md
	$(PY) tests/check/models.py --write docs/check-models.md

check-faults: setup  ## ops that the real TPU compiler refuses, a program too large for its memory (a minute, needs pip install libtpu)
	$(PY) -m pytest tests/check/real_faults.py

format: $(VENV)/.installed  ## format the C++ and Python files in place
	@find core tests/unit -name '*.cpp' -o -name '*.h' | xargs $(VENV)/bin/clang-format -i
	@$(VENV)/bin/ruff format .

clean:  ## remove build/, out/ and the built extension; .venv stays
	rm -rf build out python/torchport/_C*.so
