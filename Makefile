# `make selfcheck` and `make test` set up, build and run; a second call only runs.

PYTHON ?= python3
TORCH ?= torch==2.13.0
CUDA ?= auto
ARCHS ?= 86;90
BUILD ?= build
VENV ?= .venv
SELFCHECK_ARGS ?=
PYTEST_ARGS ?=

ready := $(VENV)/ready-$(CUDA)
setup_files := $(addprefix cmake/,setup_environment.py cuda_toolkit.py requirements-cuda.txt \
  requirements-nvrtc.txt)
bin := $(VENV)/bin
cpp_files = $(shell git ls-files '*.h' '*.cuh' '*.cu' '*.cpp')

.PHONY: help selfcheck test build build-tests configure format lint clean distclean

help:
	@echo "make selfcheck    set up, build, compare and time the six cases"
	@echo "make test         set up, build, run the tests"
	@echo "make build        set up, build the module"
	@echo "make format       lay out Python and C++"
	@echo "make lint         check Python and C++"
	@echo "make clean        remove what was built; make distclean: the environment too"
	@echo "Variables: PYTHON TORCH CUDA=auto|machine|packages ARCHS BUILD VENV"
	@echo "           SELFCHECK_ARGS PYTEST_ARGS"

selfcheck: build
	@$(bin)/python selfcheck.py $(SELFCHECK_ARGS)

test: build-tests
	@RAGGED_ATTENTION_BUILD_DIR="$(abspath $(BUILD))" $(bin)/python -m pytest $(PYTEST_ARGS)

build: configure
	@$(bin)/cmake --build $(BUILD) --target _native

build-tests: configure
	@$(bin)/cmake --build $(BUILD)

configure: $(ready)
	@$(bin)/cmake -S . -B $(BUILD) -G Ninja --log-level=WARNING \
	  -DPython_EXECUTABLE="$(abspath $(bin)/python)" -DCMAKE_MAKE_PROGRAM="$(abspath $(bin)/ninja)" \
	  -DCMAKE_CUDA_ARCHITECTURES="$(ARCHS)" -DRAGGED_ATTENTION_CUDA=$(CUDA) \
	  -DRAGGED_ATTENTION_BUILD_TESTS=ON >/dev/null

$(ready): pyproject.toml $(setup_files)
	@$(PYTHON) cmake/setup_environment.py --folder $(VENV) --torch "$(TORCH)" --cuda $(CUDA)
	@touch $@

format: $(ready)
	@$(bin)/ruff check --fix-only --quiet .
	@$(bin)/ruff format .
	@$(bin)/clang-format -i $(cpp_files)

lint: $(ready)
	@$(bin)/ruff check .
	@$(bin)/ruff format --check .
	@$(bin)/clang-format --dry-run -Werror $(cpp_files)

clean:
	rm -rf $(BUILD) python/ragged_attention/_native.*.so

distclean: clean
	rm -rf $(VENV)
