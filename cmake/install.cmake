# `cmake --install`: the library, its headers, the program, and what find_package(fovea) reads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/fovea)

get_property(libraries GLOBAL PROPERTY FOVEA_LIBRARIES)
install(TARGETS ${libraries} EXPORT fovea-targets FILE_SET HEADERS)
install(EXPORT fovea-targets NAMESPACE fovea:: DESTINATION ${package_dir})
if(TARGET fovea_cli)
  install(TARGETS fovea_cli)
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/fovea-config.cmake.in
                              ${PROJECT_BINARY_DIR}/fovea-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/fovea-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/fovea-config.cmake ${PROJECT_BINARY_DIR}/fovea-config-version.cmake
              ${PROJECT_SOURCE_DIR}/cmake/FindDNNL.cmake ${PROJECT_SOURCE_DIR}/cmake/FindUtf8proc.cmake
              ${PROJECT_SOURCE_DIR}/cmake/FindPCRE2.cmake
        DESTINATION ${package_dir})
