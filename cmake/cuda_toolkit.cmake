# Enables CUDA with the compiler that cuda_toolkit.py finds. Sets, beside CMake's own variables,
# ragged_attention_cudart: path of libcudart_static.a.

set(host_compiler "${CMAKE_CXX_COMPILER}")
if(CMAKE_CUDA_HOST_COMPILER)
  set(host_compiler "${CMAKE_CUDA_HOST_COMPILER}")
endif()
set(asked_compiler "${CMAKE_CUDA_COMPILER}")
if(NOT asked_compiler)
  set(asked_compiler "$ENV{CUDACXX}")
endif()
if(RAGGED_ATTENTION_TOOLKIT_NVCC AND asked_compiler STREQUAL RAGGED_ATTENTION_TOOLKIT_NVCC)
  set(asked_compiler "")  # what an earlier configure run found, not what the user asked for
endif()

execute_process(
  COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_LIST_DIR}/cuda_toolkit.py"
    --source "${RAGGED_ATTENTION_CUDA}" --compiler "${asked_compiler}"
    --host-compiler "${host_compiler}"
  OUTPUT_VARIABLE toolkit_lines ERROR_VARIABLE toolkit_error RESULT_VARIABLE toolkit_failed
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
if(toolkit_failed)
  message(FATAL_ERROR "${toolkit_error}")
endif()
string(REPLACE "\n" ";" toolkit_lines "${toolkit_lines}")
foreach(line IN LISTS toolkit_lines)
  string(REGEX MATCH "^([a-z_]+)=(.*)$" matched "${line}")
  set(toolkit_${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
endforeach()
message(STATUS "nvcc ${toolkit_version}: ${toolkit_nvcc} (found through ${toolkit_origin})")

# Code for 8.6 (RTX A6000) and 9.0 (H100, H200), whatever card this machine has, if any.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(default_architectures "86;90")
  if(DEFINED ENV{CUDAARCHS})
    set(default_architectures "$ENV{CUDAARCHS}")
  endif()
  set(CMAKE_CUDA_ARCHITECTURES "${default_architectures}" CACHE STRING "GPU architectures")
endif()
foreach(architecture IN LISTS CMAKE_CUDA_ARCHITECTURES)
  if(NOT architecture MATCHES "^([0-9]+)a?(-real|-virtual)?$" OR CMAKE_MATCH_1 LESS 86)
    message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES: ${architecture}; numbers from 86 are needed, "
      "such as 86;90")
  endif()
endforeach()

set(CMAKE_CUDA_COMPILER "${toolkit_nvcc}")
set(RAGGED_ATTENTION_TOOLKIT_NVCC "${toolkit_nvcc}" CACHE INTERNAL "nvcc that was found")
set(CMAKE_CUDA_HOST_COMPILER "${host_compiler}")
# The packages' nvcc does not find its own libraries, and CMake links a test program with it.
set(CMAKE_CUDA_FLAGS "$CACHE{CMAKE_CUDA_FLAGS} -L${toolkit_library}")
enable_language(CUDA)
set(ragged_attention_cudart "${toolkit_library}/libcudart_static.a")
