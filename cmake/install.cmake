# `cmake --install build --component development`: the archives, api.h and a CMake package, for
# C++ programs that link the kernels.

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/ragged_attention")
install(TARGETS ragged_attention_kernels
  EXPORT ragged_attention ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development)
install(FILES "${ragged_attention_cudart}"
  DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development)
install(FILES cutlass_kernels/api.h
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/cutlass_kernels" COMPONENT development)
install(EXPORT ragged_attention FILE ragged_attentionTargets.cmake
  NAMESPACE ragged_attention:: DESTINATION "${package_dir}" COMPONENT development)

include(CMakePackageConfigHelpers)
configure_package_config_file(cmake/ragged_attentionConfig.cmake.in
  "${PROJECT_BINARY_DIR}/ragged_attentionConfig.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/ragged_attentionConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/ragged_attentionConfig.cmake"
  "${PROJECT_BINARY_DIR}/ragged_attentionConfigVersion.cmake"
  DESTINATION "${package_dir}" COMPONENT development)
