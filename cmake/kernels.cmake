# The kernel library: every .cu and .cpp under cutlass_kernels, no framework, no Python.

file(GLOB_RECURSE kernel_sources CONFIGURE_DEPENDS
  "${RAGGED_ATTENTION_KERNEL_DIR}/*.cu" "${RAGGED_ATTENTION_KERNEL_DIR}/*.cpp")
file(GLOB_RECURSE kernel_headers CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/cutlass_kernels/*.h" "${PROJECT_SOURCE_DIR}/cutlass_kernels/*.cuh")
if(NOT kernel_sources)
  message(FATAL_ERROR "RAGGED_ATTENTION_KERNEL_DIR: ${RAGGED_ATTENTION_KERNEL_DIR} has no .cu file; "
    "set it to the folder of the kernels")
endif()
add_library(ragged_attention_kernels STATIC ${kernel_sources})
include(cmake/build_config.cmake)

target_include_directories(ragged_attention_kernels PUBLIC
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_include_directories(ragged_attention_kernels SYSTEM PUBLIC
  "$<BUILD_INTERFACE:${toolkit_include}>")
target_link_libraries(ragged_attention_kernels PRIVATE "$<BUILD_INTERFACE:ragged_attention_cutlass>")
target_compile_features(ragged_attention_kernels PUBLIC cxx_std_17)
target_compile_options(ragged_attention_kernels PRIVATE
  "$<$<COMPILE_LANGUAGE:CUDA>:-lineinfo;--expt-relaxed-constexpr;-Xptxas=-v>"
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra>")
set_target_properties(ragged_attention_kernels PROPERTIES
  CUDA_RUNTIME_LIBRARY Static CUDA_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden)

# A kernel file takes about 1.5 GB to compile: no more at a time than cores and memory allow.
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
cmake_host_system_information(RESULT megabytes QUERY TOTAL_PHYSICAL_MEMORY)
math(EXPR kernel_jobs "${megabytes} / 1500")
if(kernel_jobs GREATER cores)
  set(kernel_jobs "${cores}")
elseif(kernel_jobs LESS 1)
  set(kernel_jobs 1)
endif()
set_property(GLOBAL APPEND PROPERTY JOB_POOLS kernel_files=${kernel_jobs})
set_property(TARGET ragged_attention_kernels PROPERTY JOB_POOL_COMPILE kernel_files)

# The launcher keeps what ptxas says of each kernel; a spill that is not allowed stops the archive.
set(ptxas_log "${Python_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/cmake/ptxas_log.py")
set(allowed_spills "${PROJECT_SOURCE_DIR}/cmake/allowed_spills.txt")
set_property(TARGET ragged_attention_kernels PROPERTY CUDA_COMPILER_LAUNCHER ${ptxas_log} compile --)
set_property(TARGET ragged_attention_kernels PROPERTY LINK_DEPENDS "${allowed_spills}")
add_custom_command(TARGET ragged_attention_kernels PRE_LINK VERBATIM
  COMMAND ${ptxas_log} check --allowed "${allowed_spills}"
    --summary "${PROJECT_BINARY_DIR}/ptxas.txt" "$<TARGET_OBJECTS:ragged_attention_kernels>"
  COMMAND_EXPAND_LISTS)

# The archive travels with the run-time library of the toolkit that compiled it.
add_custom_command(TARGET ragged_attention_kernels POST_BUILD VERBATIM
  COMMAND "${CMAKE_COMMAND}" -E copy_if_different "${ragged_attention_cudart}"
    "$<TARGET_FILE_DIR:ragged_attention_kernels>/libcudart_static.a")
target_link_libraries(ragged_attention_kernels INTERFACE Threads::Threads ${CMAKE_DL_LIBS} rt)
