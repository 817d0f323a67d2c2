# cmake --install: libraries, headers and a package that find_package(weft) finds from outside.
include(CMakePackageConfigHelpers)

set(floors weft_core weft_collectives weft_gradient weft_compression weft_schedules weft_pipeline weft_zero weft)
install(TARGETS ${floors} EXPORT weftTargets)
install(DIRECTORY include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT weftTargets NAMESPACE weft:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
configure_package_config_file(cmake/weftConfig.cmake.in weftConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
write_basic_package_version_file(weftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weftConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/weftConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
if(WEFT_TOOLS_ON)
  install(TARGETS weft-launch weft-scaling weft-bench weft-plan weft-report)
endif()
