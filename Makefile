# Short names for what people do here. The build itself is CMake's: see CMakePresets.json.
.DEFAULT_GOAL := help
.PHONY: help run build dist test test-python wheel python bench fuzz fuzz-readers cuda gpu-python gpu-test gpu-bench peers lint lint-format format \
        house site asan tsan clean bootstrap

SHELL := /bin/bash
JOBS ?= $(shell nproc)
# Several sources at a time: half the time for a first build. OFF for those who change them and build often.
JOIN ?= ON
RELEASE := build/release
FOVEA := $(RELEASE)/bin/fovea
VENV := build/venv
PYTHON := $(CURDIR)/$(VENV)/bin/python
CXX_SOURCES = $(wildcard $(shell git ls-files --cached --others --exclude-standard -- '*.h' '*.cc' '*.cu' '*.cuh'))

help:  ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

run: build  ## train a Transformer and a TransNormer on ListOps, side by side (about 4 minutes after the build)
	$(FOVEA) lra listops --attention transformer,transnormer-t2 --minutes 1.5

build: bootstrap $(RELEASE)/build.ninja  ## build the program: build/release/bin/fovea
	@ninja -C $(RELEASE) -j $(JOBS) fovea_cli

# The same program for ranks; the other one neither needs nor links MPI.
dist: bootstrap-dist  ## build the program for many ranks too: mpirun -n 2 build/release/bin/dist/fovea train ...
	@cmake --preset release -DFOVEA_JOIN=$(JOIN) -DFOVEA_MPI=ON >/dev/null
	@ninja -C $(RELEASE) -j $(JOBS) fovea_cli fovea_dist_cli

# ON: with the kernels for cards, compiled to be checked, and tests of them that need no card (docs/cuda.md).
CUDA_CHECK ?= OFF
test: bootstrap-dist bootstrap-test $(if $(filter ON,$(CUDA_CHECK)),bootstrap-cuda) $(VENV)/installed.txt house  ## build everything and run every test
	@cmake --preset release -DFOVEA_JOIN=$(JOIN) -DFOVEA_MPI=ON -DFOVEA_CUDA_CHECK=$(CUDA_CHECK) -DFOVEA_PYTHON=ON -DPython_EXECUTABLE=$(PYTHON) >/dev/null
	@ninja -C $(RELEASE) -j $(JOBS)
	@ctest --preset release -j $(JOBS)
	@$(MAKE) --no-print-directory test-python

# The package as it lies in the build folder; one of the tests installs it with pip. Ends in pytest's summary.
test-python:
	@OMP_WAIT_POLICY=passive PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$(RELEASE)/python $(PYTHON) -m pytest $(ARGS)

python: bootstrap $(VENV)/installed.txt  ## build the Python package: PYTHONPATH=build/release/python build/venv/bin/python
	@cmake --preset release -DFOVEA_JOIN=$(JOIN) -DFOVEA_PYTHON=ON -DPython_EXECUTABLE=$(PYTHON) >/dev/null
	@ninja -C $(RELEASE) -j $(JOBS) fovea_python

wheel: bootstrap  ## write wheels of the Python package for the Pythons of this machine into build/wheels
	@scripts/bootstrap python
	@scripts/wheel $(PYTHONS)

bench: bootstrap $(RELEASE)/build.ninja  ## time the kernels on this machine against its matrix-product rate
	@ninja -C $(RELEASE) -j $(JOBS) fovea_bench
	$(RELEASE)/bin/fovea_bench

MINUTES ?= 10
fuzz: bootstrap $(RELEASE)/build.ninja  ## random calls of every mechanism against its definition, MINUTES=10
	@ninja -C $(RELEASE) -j $(JOBS) fovea_fuzz
	@OMP_WAIT_POLICY=passive $(RELEASE)/bin/fovea_fuzz --minutes $(MINUTES) --seed $(or $(SEED),$$(date +%s)) $(ARGS)

CUDA_ARCHS ?= 90a
cuda: bootstrap-cuda  ## build the program and the tests with kernels for NVIDIA cards; CUDA_ARCHS="80;89;90a;100"
	@cmake --preset cuda -DFOVEA_JOIN=$(JOIN) "-DFOVEA_CUDA_ARCHS=$(CUDA_ARCHS)"
	@ninja -C build/cuda -j $(JOBS) fovea_cli gpu_policy_test gpu_ops_test gpu_optim_test gpu_tile_test gpu_scan_test gpu_inspect_test \
		gpu_train_test gpu_conformance_test gpu_ops_bench gpu_tile_bench gpu_scan_bench gpu_steps_bench

# A Python with nanobind and, for the tests, PyTorch for CUDA and pytest.
GPU_PYTHON ?= python3
gpu-python: bootstrap-cuda  ## build the Python package with kernels for NVIDIA cards, for GPU_PYTHON: build/cuda/python
	@cmake --preset cuda -DFOVEA_JOIN=$(JOIN) "-DFOVEA_CUDA_ARCHS=$(CUDA_ARCHS)" -DFOVEA_PYTHON=ON -DPython_EXECUTABLE=$$(command -v $(GPU_PYTHON))
	@ninja -C build/cuda -j $(JOBS) fovea_python

gpu-test: cuda  ## build and run the tests that need a card
	@tests/gpu/suite $(ARGS)
	@if $(GPU_PYTHON) -c 'import nanobind, torch, pytest; assert torch.cuda.is_available()' 2>/dev/null; then \
		$(MAKE) --no-print-directory gpu-python && GPU_PYTHON=$(GPU_PYTHON) tests/gpu/python/run; \
	else echo "tests/gpu/python not run: $(GPU_PYTHON) lacks nanobind, pytest or PyTorch with CUDA (GPU_PYTHON=...)"; fi

gpu-bench: cuda  ## time the kernels on this machine's card, and every mechanism beside PyTorch (GPU_PYTHON): docs/bench-gpu.md
	@build/cuda/bin/gpu_ops_bench
	@build/cuda/bin/gpu_tile_bench
	@build/cuda/bin/gpu_scan_bench
	@build/cuda/bin/gpu_steps_bench
	@if $(GPU_PYTHON) -c 'import nanobind, torch; assert torch.cuda.is_available()' 2>/dev/null; then \
		$(MAKE) --no-print-directory gpu-python && PYTHONPATH=build/cuda/python $(GPU_PYTHON) bench/gpu/table.py --out docs/bench-gpu $(ARGS); \
	else echo "docs/bench-gpu.md not made: $(GPU_PYTHON) lacks nanobind or PyTorch with CUDA (GPU_PYTHON=...)"; fi

peers: python  ## race PyTorch on this machine (installs it under build/ first); ARGS="--help" for options
	@scripts/bootstrap peers
	@ninja -C $(RELEASE) -j $(JOBS) fovea_peers
	@bench/peers/run $(ARGS)

lint: bootstrap lint-format house  ## check layout, house limits and clang-tidy; FILES="..." for some files only
	@cmake --preset release -B build/lint -DFOVEA_JOIN=OFF >/dev/null
	@scripts/tidy build/lint $(FILES)

lint-format: bootstrap-lint
	@clang-format --dry-run --Werror $(CXX_SOURCES)

format: bootstrap-lint  ## lay out every C++ file
	@clang-format -i $(CXX_SOURCES)

site:  ## write docs/ as a site of plain HTML: build/site/index.html
	@scripts/site

house:  ## print the table of house limits; fails over the hard ones
	@dev/house

asan: bootstrap-test  ## build and test under the address and undefined-behaviour sanitizers
	@cmake --preset asan-ubsan -DFOVEA_JOIN=$(JOIN)
	@ninja -C build/asan-ubsan -j $(JOBS)
	@ctest --preset asan-ubsan -j $(JOBS)

# GCC's thread sanitizer before version 14 cannot start where the kernel spreads memory over more than 28 bits.
UNSPREAD = $(shell test "$$(cat /proc/sys/vm/mmap_rnd_bits)" -le 28 || echo setarch --addr-no-randomize)

tsan: bootstrap-test  ## build and test under the thread sanitizer
	@cmake --preset tsan -DFOVEA_JOIN=$(JOIN)
	@$(UNSPREAD) ninja -C build/tsan -j $(JOBS)
	@$(UNSPREAD) ctest --preset tsan -j $(JOBS)

# In build/fuzz-readers/found: what was new, faults and logs. READERS="png csv" for some of them.
fuzz-readers: bootstrap-fuzz  ## try every reader of files with hostile ones, MINUTES=10 each (clang's libFuzzer)
	@cmake --preset fuzz-readers >/dev/null
	@ninja -C build/fuzz-readers -j $(JOBS) fuzz_readers fuzz_model_readers
	@rm -rf build/fuzz-readers/seeds && PYTHONDONTWRITEBYTECODE=1 tests/fuzz_readers/seeds.py build/fuzz-readers/seeds
	@cp -r tests/fuzz_readers/regressions/. build/fuzz-readers/seeds
	@tests/fuzz_readers/run build/fuzz-readers/bin build/fuzz-readers/seeds build/fuzz-readers/found $(or $(MINUTES),10) $(READERS)

clean:  ## remove the build folders
	rm -rf build

bootstrap:
	@scripts/bootstrap

.PHONY: bootstrap-test bootstrap-lint bootstrap-fuzz bootstrap-cuda bootstrap-dist
bootstrap-test: bootstrap
	@scripts/bootstrap test
bootstrap-dist:
	@scripts/bootstrap dist
bootstrap-cuda:
	@scripts/bootstrap cuda
bootstrap-lint:
	@scripts/bootstrap lint
bootstrap-fuzz:
	@scripts/bootstrap fuzz

# What the package is built and tested with, in a virtual environment.
$(VENV)/installed.txt: tests/python/requirements.txt
	@scripts/bootstrap python
	@test ! -L $(VENV) || { echo "$(VENV) is a link: remove it first, its target would be emptied" >&2; exit 1; }
	@python3 -m venv --clear $(VENV)
	@$(PYTHON) -m pip install -q --disable-pip-version-check -r $<
	@cp $< $@

# Ninja looks after changes of the CMake files from then on.
$(RELEASE)/build.ninja: | bootstrap
	@cmake --preset release -DFOVEA_JOIN=$(JOIN)
