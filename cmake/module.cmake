# The Python module ragged_attention._native: pybind11 over api.h, no torch header.

find_package(Python 3.10 QUIET COMPONENTS Interpreter Development.Module)
if(NOT Python_Development.Module_FOUND)
  message(FATAL_ERROR "Python: ${Python_EXECUTABLE} ${Python_VERSION} has no C headers; install "
    "them (python3-dev), or set RAGGED_ATTENTION_BUILD_MODULE=OFF")
endif()

# pybind11 is headers only; torch ships a copy of them.
execute_process(
  COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_LIST_DIR}/pybind11_headers.py"
  OUTPUT_VARIABLE pybind11_include ERROR_VARIABLE pybind11_error RESULT_VARIABLE pybind11_failed
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
if(pybind11_failed)
  message(FATAL_ERROR "${pybind11_error}")
endif()
add_library(ragged_attention_pybind11 INTERFACE)
target_include_directories(ragged_attention_pybind11 SYSTEM INTERFACE "${pybind11_include}")

Python_add_library(_native MODULE WITH_SOABI python/bindings/module.cpp)
target_link_libraries(_native PRIVATE ragged_attention_kernels ragged_attention_pybind11)
target_compile_options(_native PRIVATE -Wall -Wextra)
target_link_options(_native PRIVATE -Wl,--exclude-libs,ALL -Wl,--gc-sections)
set_target_properties(_native PROPERTIES
  CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
  LIBRARY_OUTPUT_DIRECTORY "${RAGGED_ATTENTION_MODULE_DIR}")
install(TARGETS _native LIBRARY DESTINATION ragged_attention COMPONENT python)
