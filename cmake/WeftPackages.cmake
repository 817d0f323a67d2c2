# cpack: packages for Debian from the components of WeftInstall.cmake. launchers/packages/debian.sh builds and checks them.
#   libweft0.1   libweft.so for programs that were built with it; the name changes with the library's
#   libweft-dev  headers, archives, what CMake and pkg-config read, documents, examples
#   libweft-torch-dev   weft::torch for Debian's LibTorch, where weft was built with that one
#   weft-tools   the programs, their manuals and completions; they hold the archives, and need no libweft0.1
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME weft)
set(CPACK_PACKAGE_VENDOR weft)
set(CPACK_PACKAGE_CONTACT "weft maintainers <maintainers@weft.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_OUTPUT_FILE_PREFIX ${CMAKE_BINARY_DIR}/deb)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL lib dev tools)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/install/debian_files.cmake)

set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # it would go before the first line of each description
set(about "weft moves gradients, parameters and activations between the
ranks of a training job: collectives, gradients averaged while
backward runs, ZeRO, compression, pipelines.")
set(series ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(CPACK_DEBIAN_LIB_PACKAGE_NAME libweft${series})
set(CPACK_DEBIAN_LIB_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIB_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/install/triggers)
set(CPACK_DEBIAN_LIB_PACKAGE_RECOMMENDS "libucx0, libpmix2")  # loaded when ranks need it
set(CPACK_COMPONENT_LIB_DESCRIPTION "communication of distributed training, shared library\n${about}")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libweft-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libweft${series} (= ${PROJECT_VERSION}-1)")
# The archives, and programs with MPI calls of their own.
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "libopenmpi-dev, libssl-dev, libhwy-dev, liburing-dev, prometheus-cpp-dev, weft-tools")
set(CPACK_COMPONENT_DEV_DESCRIPTION "communication of distributed training, for development\n${about}")

# Torch's C++ has no stable ABI: the package wants the series that it was built with. Another torch is in no package of Debian's.
if(TARGET weft_torch AND WEFT_LIBTORCH_CONFIG MATCHES "^/usr/(lib|share)/")
  list(APPEND CPACK_COMPONENTS_ALL torch)
  string(REGEX MATCH "^([0-9]+)[.]([0-9]+)" torch_series ${WEFT_LIBTORCH_BUILT})
  math(EXPR torch_next "${CMAKE_MATCH_2} + 1")
  set(torch_next ${CMAKE_MATCH_1}.${torch_next})
  set(CPACK_DEBIAN_TORCH_PACKAGE_NAME libweft-torch-dev)
  set(CPACK_DEBIAN_TORCH_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_TORCH_PACKAGE_SHLIBDEPS OFF)
  set(CPACK_DEBIAN_TORCH_PACKAGE_DEPENDS "libweft-dev (= ${PROJECT_VERSION}-1), libtorch-dev (>= ${torch_series}), libtorch-dev (<< ${torch_next}~)")
  set(CPACK_COMPONENT_TORCH_DESCRIPTION "communication of distributed training, for LibTorch\n${about}
This package has DataParallel and ZeroOptimizer for programs with LibTorch.")
endif()

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME weft-tools)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION science)
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "communication of distributed training, programs\n${about}")
set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS libucx0)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS openmpi-bin)
include(CPack)
