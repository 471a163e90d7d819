# What `cmake --install` leaves: both libraries, the headers, pkg-config and CMake packages, the program.
include(CMakePackageConfigHelpers)
set(WEIR_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/weir)

set_target_properties(weir_shared PROPERTIES EXPORT_NAME weir)
set_target_properties(weir_static PROPERTIES EXPORT_NAME static)
install(TARGETS weir_static weir_shared EXPORT weirTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT weirTargets NAMESPACE weir:: DESTINATION ${WEIR_CMAKE_DIR})
install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
if(TARGET weir)
  install(TARGETS weir RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  add_custom_target(man ALL COMMAND ${CMAKE_SOURCE_DIR}/tools/man_pages $<TARGET_FILE:weir> ${CMAKE_BINARY_DIR}/man
    DEPENDS weir ${CMAKE_SOURCE_DIR}/tools/man_pages COMMENT "Man pages")
  install(DIRECTORY ${CMAKE_BINARY_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
endif()

configure_package_config_file(cmake/weirConfig.cmake.in weirConfig.cmake INSTALL_DESTINATION ${WEIR_CMAKE_DIR})
write_basic_package_version_file(weirConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/weirConfig.cmake ${CMAKE_BINARY_DIR}/weirConfigVersion.cmake
  DESTINATION ${WEIR_CMAKE_DIR})
# Relative to where the .pc file lies, so that an installed tree can be moved.
file(RELATIVE_PATH WEIR_PC_TO_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/weir.pc.in weir.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/weir.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
