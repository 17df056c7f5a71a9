# Finds the CUTLASS headers: CUTLASS_DIR (a checkout or its include folder), else the package
# nvidia-cutlass. Makes the target ragged_attention_cutlass and sets cutlass_version.

set(CUTLASS_DIR "" CACHE PATH "CUTLASS checkout, instead of the package nvidia-cutlass")
set(oldest_cutlass 4.0.0)

set(cutlass_candidates "${CUTLASS_DIR}/include" "${CUTLASS_DIR}")
if(NOT CUTLASS_DIR)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c "import importlib.util as u; \
print(*u.find_spec('cutlass_library').submodule_search_locations)"
    OUTPUT_VARIABLE package_dir ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(cutlass_candidates "${package_dir}/source/include")
endif()
find_path(ragged_attention_cutlass_include cutlass/version.h
  PATHS ${cutlass_candidates} NO_DEFAULT_PATH NO_CACHE)
if(NOT ragged_attention_cutlass_include)
  message(FATAL_ERROR "CUTLASS_DIR: '${CUTLASS_DIR}' and the packages of ${Python_EXECUTABLE} have "
    "no cutlass/version.h; set CUTLASS_DIR to CUTLASS ${oldest_cutlass} or newer, or run "
    "${Python_EXECUTABLE} -m pip install nvidia-cutlass")
endif()

string(REGEX REPLACE "/$" "" ragged_attention_cutlass_include
  "${ragged_attention_cutlass_include}")

set(version_parts "")
foreach(part MAJOR MINOR PATCH)
  file(STRINGS "${ragged_attention_cutlass_include}/cutlass/version.h" line
    REGEX "^#define CUTLASS_${part} ")
  string(REGEX MATCH "[0-9]+" number "${line}")
  list(APPEND version_parts "${number}")
endforeach()
list(JOIN version_parts "." cutlass_version)
if(cutlass_version VERSION_LESS oldest_cutlass)
  message(FATAL_ERROR "CUTLASS_DIR: CUTLASS ${cutlass_version} in "
    "${ragged_attention_cutlass_include}; ${oldest_cutlass} or newer is needed: set CUTLASS_DIR, "
    "or run ${Python_EXECUTABLE} -m pip install nvidia-cutlass")
endif()
message(STATUS "CUTLASS ${cutlass_version}: ${ragged_attention_cutlass_include}")

add_library(ragged_attention_cutlass INTERFACE)
target_include_directories(ragged_attention_cutlass SYSTEM INTERFACE
  "${ragged_attention_cutlass_include}")
