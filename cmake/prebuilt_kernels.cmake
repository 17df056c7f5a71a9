# The kernel library from an archive that was built before: no CUDA compiler is needed, only g++.

set(archive "${RAGGED_ATTENTION_PREBUILT_KERNELS}")
get_filename_component(archive_dir "${archive}" DIRECTORY)
set(cudart "${archive_dir}/libcudart_static.a")
foreach(file "${archive}" "${cudart}")
  if(NOT EXISTS "${file}")
    message(FATAL_ERROR "RAGGED_ATTENTION_PREBUILT_KERNELS: ${archive}; ${file} does not exist, "
      "and both it and the run-time library that it was built with are needed")
  endif()
endforeach()
execute_process(
  COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_LIST_DIR}/cuda_toolkit.py" --headers-only
    --source "${RAGGED_ATTENTION_CUDA}"
  OUTPUT_VARIABLE toolkit_include ERROR_VARIABLE toolkit_error RESULT_VARIABLE toolkit_failed
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
if(toolkit_failed)
  message(FATAL_ERROR "${toolkit_error}")
endif()
string(REPLACE "include=" "" toolkit_include "${toolkit_include}")

add_library(ragged_attention_kernels STATIC IMPORTED)
set_target_properties(ragged_attention_kernels PROPERTIES IMPORTED_LOCATION "${archive}")
target_include_directories(ragged_attention_kernels SYSTEM INTERFACE
  "${PROJECT_SOURCE_DIR}" "${toolkit_include}")
target_link_libraries(ragged_attention_kernels INTERFACE
  "${cudart}" Threads::Threads ${CMAKE_DL_LIBS} rt)
