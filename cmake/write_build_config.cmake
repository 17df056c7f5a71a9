# Writes the header named by `output`; called by the build, see build_config.cmake.

if(NOT commit AND git)
  execute_process(COMMAND "${git}" rev-parse --short=10 HEAD
    WORKING_DIRECTORY "${source_dir}"
    OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(commit)
    execute_process(COMMAND "${git}" status --porcelain -- cutlass_kernels cmake CMakeLists.txt
      WORKING_DIRECTORY "${source_dir}" OUTPUT_VARIABLE changes ERROR_QUIET)
    if(changes)
      string(APPEND commit "-dirty")
    endif()
  endif()
endif()
if(NOT commit)
  set(commit "unknown")
endif()
configure_file("${CMAKE_CURRENT_LIST_DIR}/build_config.h.in" "${output}" @ONLY)
