# Generates ragged_attention_build_config.h. It is written again when a source of the library
# changes or HEAD moves, so only the one file that includes it follows the commit.

set(RAGGED_ATTENTION_COMMIT "" CACHE STRING "Commit to record instead of what git says")

set(git_files "")
find_package(Git QUIET)
if(Git_FOUND AND NOT RAGGED_ATTENTION_COMMIT)
  execute_process(
    COMMAND "${GIT_EXECUTABLE}" rev-parse --path-format=absolute --git-path logs/HEAD
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    OUTPUT_VARIABLE git_log ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(git_log AND EXISTS "${git_log}")
    set(git_files "${git_log}")
  endif()
endif()

string(REPLACE ";" "$<SEMICOLON>" architectures "${CMAKE_CUDA_ARCHITECTURES}")
set(build_config_dir "${PROJECT_BINARY_DIR}/generated")
set(build_config "${build_config_dir}/ragged_attention_build_config.h")
set(build_config_command "${CMAKE_COMMAND}"
  "-Dsource_dir=${PROJECT_SOURCE_DIR}"
  "-Dgit=${GIT_EXECUTABLE}"
  "-Dcommit=${RAGGED_ATTENTION_COMMIT}"
  "-Dcompiler=nvcc ${CMAKE_CUDA_COMPILER_VERSION}"
  "-Darchitectures=${architectures}"
  "-Dcutlass_version=${cutlass_version}"
  "-Doutput=${build_config}"
  -P "${CMAKE_CURRENT_LIST_DIR}/write_build_config.cmake")
add_custom_command(OUTPUT "${build_config}" VERBATIM
  COMMAND ${build_config_command}
  DEPENDS ${kernel_sources} ${kernel_headers} ${git_files}
    "${CMAKE_CURRENT_LIST_DIR}/write_build_config.cmake"
    "${CMAKE_CURRENT_LIST_DIR}/build_config.h.in"
  COMMENT "Writing ragged_attention_build_config.h")
