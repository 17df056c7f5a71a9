# The kernel library: every .cu and .cpp under cutlass_kernels, no framework, no Python.

file(GLOB_RECURSE kernel_sources CONFIGURE_DEPENDS
  "${RAGGED_ATTENTION_KERNEL_DIR}/*.cu" "${RAGGED_ATTENTION_KERNEL_DIR}/*.cpp")
file(GLOB_RECURSE kernel_headers CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/cutlass_kernels/*.h" "${PROJECT_SOURCE_DIR}/cutlass_kernels/*.cuh")
if(NOT kernel_sources)
  message(FATAL_ERROR "RAGGED_ATTENTION_KERNEL_DIR: ${RAGGED_ATTENTION_KERNEL_DIR} has no .cu "
    "file; set it to the folder of the kernels")
endif()
include(cmake/build_config.cmake)

add_library(kernel_objects OBJECT ${kernel_sources} "${build_config}")
target_include_directories(kernel_objects PRIVATE "${PROJECT_SOURCE_DIR}" "${build_config_dir}")
target_include_directories(kernel_objects SYSTEM PRIVATE "${toolkit_include}")
target_link_libraries(kernel_objects PRIVATE ragged_attention_cutlass)
target_compile_options(kernel_objects PRIVATE
  "$<$<COMPILE_LANGUAGE:CUDA>:-lineinfo;--expt-relaxed-constexpr;-Xptxas=-v>"
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra>")
set_target_properties(kernel_objects PROPERTIES
  CUDA_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden)

# A timing build stands in for a card with slower tensor cores. Its spills are told, and no errors.
set(spill_mode "")
if(NOT RAGGED_ATTENTION_MMA_REPEAT MATCHES "^[1-9]$")
  message(FATAL_ERROR "RAGGED_ATTENTION_MMA_REPEAT: ${RAGGED_ATTENTION_MMA_REPEAT}; a number from "
    "1 to 9 is needed")
elseif(RAGGED_ATTENTION_MMA_REPEAT GREATER 1)
  message(WARNING "RAGGED_ATTENTION_MMA_REPEAT: ${RAGGED_ATTENTION_MMA_REPEAT}; this is a timing "
    "build, whose results are wrong")
  target_compile_definitions(kernel_objects PRIVATE
    RAGGED_ATTENTION_MMA_REPEAT=${RAGGED_ATTENTION_MMA_REPEAT})
  set(spill_mode --report-only)
endif()

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
set_property(TARGET kernel_objects PROPERTY JOB_POOL_COMPILE kernel_files)

# The launcher keeps what ptxas says of each kernel. No archive is made before spills are allowed.
set(ptxas_log "${Python_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/cmake/ptxas_log.py")
set(spills_checked "${PROJECT_BINARY_DIR}/spills_checked")
set_property(TARGET kernel_objects PROPERTY CUDA_COMPILER_LAUNCHER ${ptxas_log} compile --)
add_custom_command(OUTPUT "${spills_checked}" BYPRODUCTS "${PROJECT_BINARY_DIR}/ptxas.txt" VERBATIM
  COMMAND ${ptxas_log} check ${spill_mode} --allowed "${RAGGED_ATTENTION_ALLOWED_SPILLS}"
    --summary "${PROJECT_BINARY_DIR}/ptxas.txt" "$<TARGET_OBJECTS:kernel_objects>"
  COMMAND "${CMAKE_COMMAND}" -E touch "${spills_checked}"
  DEPENDS "$<TARGET_OBJECTS:kernel_objects>" "${RAGGED_ATTENTION_ALLOWED_SPILLS}"
    "${PROJECT_SOURCE_DIR}/cmake/ptxas_log.py"
  COMMAND_EXPAND_LISTS COMMENT "Checking register spills")
add_custom_target(kernel_spills DEPENDS "${spills_checked}")

add_library(ragged_attention_kernels STATIC "$<TARGET_OBJECTS:kernel_objects>")
add_dependencies(ragged_attention_kernels kernel_spills)
set_target_properties(ragged_attention_kernels PROPERTIES LINKER_LANGUAGE CXX)
target_compile_features(ragged_attention_kernels PUBLIC cxx_std_17)
target_include_directories(ragged_attention_kernels INTERFACE
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_include_directories(ragged_attention_kernels SYSTEM INTERFACE
  "$<BUILD_INTERFACE:${toolkit_include}>")
target_link_libraries(ragged_attention_kernels INTERFACE
  "$<BUILD_INTERFACE:${ragged_attention_cudart}>" Threads::Threads ${CMAKE_DL_LIBS} rt)

# The archive travels with the run-time library of the toolkit that compiled it.
add_custom_command(TARGET ragged_attention_kernels POST_BUILD VERBATIM
  COMMAND "${CMAKE_COMMAND}" -E copy_if_different "${ragged_attention_cudart}"
    "$<TARGET_FILE_DIR:ragged_attention_kernels>/libcudart_static.a")
