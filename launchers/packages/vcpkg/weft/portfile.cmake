# Untested, as vcpkg.json says. Builds the tree in which this port stands.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)
vcpkg_check_features(OUT_FEATURE_OPTIONS features FEATURES
  mpi WEFT_MPI
  tcp WEFT_BOOST
  simd WEFT_SIMD
  uring WEFT_URING
  metrics WEFT_METRICS
  cuda WEFT_CUDA
  tools WEFT_TOOLS)
string(COMPARE EQUAL "${VCPKG_LIBRARY_LINKAGE}" dynamic shared)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${features} -DWEFT_SHARED=${shared} -DWEFT_UCX=OFF -DWEFT_MANUALS=OFF -DWEFT_TESTS=OFF -DWEFT_BENCH=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/weft)
vcpkg_fixup_pkgconfig()
if(tools IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES weft-launch weft-scaling weft-bench weft-plan weft-report AUTO_CLEAN)
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
