# AUTO options. `weft_option(NAME "what it needs" variable...)` sets NAME_ON and keeps a row for the summary table: AUTO is
# on when every variable is true, ON without them is an error that names what is missing.

set(WEFT_SUMMARY "" CACHE INTERNAL "")

function(weft_row name state reason)
  string(LENGTH "${name}" used)
  math(EXPR pad "14 - ${used}")
  string(REPEAT " " ${pad} spaces)
  set_property(GLOBAL APPEND_STRING PROPERTY WEFT_SUMMARY "  ${name}${spaces}${state}   ${reason}\n")
endfunction()

function(weft_option name meaning found missing)
  set(${name} AUTO CACHE STRING "${meaning}: AUTO, ON or OFF")
  set_property(CACHE ${name} PROPERTY STRINGS AUTO ON OFF)
  if(NOT ${name} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "${name}=${${name}}: allowed are AUTO, ON and OFF")
  endif()
  if(${name} STREQUAL "OFF")
    set(enabled FALSE)
    set(reason "${meaning} (switched off)")
  elseif(found)
    set(enabled TRUE)
    set(reason "${meaning}")
  elseif(${name} STREQUAL "ON")
    message(FATAL_ERROR "${name}=ON needs ${missing}")
  else()
    set(enabled FALSE)
    set(reason "${meaning}: not found: ${missing}")
  endif()
  set(${name}_ON ${enabled} PARENT_SCOPE)
  if(enabled)
    weft_row(${name} "on " "${reason}")
  else()
    weft_row(${name} "off" "${reason}")
  endif()
endfunction()

function(weft_print_summary)
  get_property(rows GLOBAL PROPERTY WEFT_SUMMARY)
  message(STATUS "weft ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\n${rows}")
endfunction()

if(NOT CMAKE_BUILD_TYPE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
option(WEFT_WARNINGS_AS_ERRORS "Warnings are errors" OFF)
# Builds faster, and no longer says which include a source lacks.
option(WEFT_PRECOMPILE "The standard library's headers are compiled once a floor" OFF)
set(WEFT_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize takes them: address,undefined or thread")

find_package(Threads REQUIRED)

# What each part needs. Nothing below is needed for the core with its `self`, `threads` and shared-memory backends.
find_package(MPI 3.0 QUIET COMPONENTS CXX)
weft_option(WEFT_MPI "ranks on several nodes, over MPI" "${MPI_CXX_FOUND}" "an MPI library (libopenmpi-dev)")

find_package(Boost 1.81 QUIET COMPONENTS program_options json)
weft_option(WEFT_BOOST "ranks that meet over TCP; the programs" "${Boost_FOUND}"
            "Boost 1.81 (libboost1.81-dev, libboost-program-options1.81-dev, libboost-json1.81-dev)")

find_library(WEFT_HIGHWAY_LIBRARY hwy)
find_path(WEFT_HIGHWAY_INCLUDE hwy/highway.h)
set(highway_found FALSE)
if(WEFT_HIGHWAY_LIBRARY AND WEFT_HIGHWAY_INCLUDE)
  set(highway_found TRUE)
endif()
weft_option(WEFT_SIMD "reductions with the widest instructions found at run time" "${highway_found}"
            "Highway (libhwy-dev); plain loops give the same bits, slower")

include(WeftCuda)
weft_option(WEFT_CUDA "CUDA kernels" "${WEFT_CUDA_FOUND}" "nvcc")

find_library(WEFT_OPENBLAS_LIBRARY openblas)
find_path(WEFT_CBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas openblas-pthread x86_64-linux-gnu)
set(tools_found FALSE)
if(WEFT_BOOST_ON AND WEFT_OPENBLAS_LIBRARY AND WEFT_CBLAS_INCLUDE)
  set(tools_found TRUE)
endif()
if(WEFT_OPENBLAS_LIBRARY AND WEFT_CBLAS_INCLUDE)
  add_library(weft_openblas INTERFACE)
  target_link_libraries(weft_openblas INTERFACE ${WEFT_OPENBLAS_LIBRARY})
  target_include_directories(weft_openblas SYSTEM INTERFACE ${WEFT_CBLAS_INCLUDE})
endif()
weft_option(WEFT_TOOLS "weft-launch, weft-scaling and the example trainer" "${tools_found}"
            "Boost 1.81 and OpenBLAS (libopenblas-dev)")

set(WEFT_GOOGLETEST_SOURCE "" CACHE PATH "Sources of GoogleTest, to build it where it is not installed")
if(WEFT_GOOGLETEST_SOURCE)
  add_subdirectory(${WEFT_GOOGLETEST_SOURCE} ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL SYSTEM)
  set(GTest_FOUND TRUE)
else()
  find_package(GTest QUIET)
endif()
weft_option(WEFT_TESTS "tests" "${GTest_FOUND}" "GoogleTest (libgtest-dev)")
if(NOT PROJECT_IS_TOP_LEVEL)
  set(WEFT_TESTS_ON FALSE)
endif()

find_package(benchmark QUIET)
weft_option(WEFT_BENCH "benchmarks of single pieces" "${benchmark_FOUND}" "Google Benchmark (libbenchmark-dev)")
if(NOT PROJECT_IS_TOP_LEVEL)
  set(WEFT_BENCH_ON FALSE)
endif()
