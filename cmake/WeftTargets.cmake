# One static library a floor, and the warnings of the house. WeftLibraries.cmake makes of them what is installed.

include(GNUInstallDirs)

add_library(weft_warnings INTERFACE)
target_compile_options(weft_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual
  $<$<BOOL:${WEFT_WARNINGS_AS_ERRORS}>:-Werror>)

if(WEFT_SANITIZE)
  add_compile_options(-fsanitize=${WEFT_SANITIZE} -fno-omit-frame-pointer)
  # The address sanitizer finds what the last three look for; they double the time a build takes.
  if(WEFT_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize-recover=all -fno-sanitize=null,vptr,object-size)
  endif()
  add_link_options(-fsanitize=${WEFT_SANITIZE})
endif()

# The linker is the system's. Of the faster ones mold 1.10 never ends on some inputs, of a program that lld 14 links an exception was not
# caught (core_mixed_test), and gold is no longer kept up.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

# The standard library's headers, read once for the library (-fPIC), once for programs (-fPIE), and once for tests, which have options of
# their own (tests/CMakeLists.txt). A source then no longer says which include it lacks: presets minimal and
# tidy and tests/builds.sh compile without.
option(WEFT_PCH "Headers of the standard library (for tests, GoogleTest too) are precompiled" OFF)
if(WEFT_PCH)
  add_library(weft_standard_headers OBJECT EXCLUDE_FROM_ALL cmake/standard_headers.cpp)
  add_executable(weft_program_headers EXCLUDE_FROM_ALL cmake/standard_headers.cpp)
  foreach(headers weft_standard_headers weft_program_headers)
    target_precompile_headers(${headers} PRIVATE cmake/standard_headers.hpp)
    target_link_libraries(${headers} PRIVATE weft_warnings Threads::Threads)
  endforeach()
endif()

# weft_precompiled(target): sources of `target` use these headers, unless it has others, or options with which they were not read.
function(weft_precompiled target)
  get_target_property(own ${target} PRECOMPILE_HEADERS)
  get_target_property(others ${target} PRECOMPILE_HEADERS_REUSE_FROM)
  get_target_property(options ${target} COMPILE_OPTIONS)
  get_directory_property(everywhere DIRECTORY ${PROJECT_SOURCE_DIR} COMPILE_OPTIONS)
  list(REMOVE_ITEM options "" ${everywhere})
  get_target_property(type ${target} TYPE)
  if(NOT WEFT_PCH OR own OR others OR options)
    return()
  endif()
  if(type STREQUAL "EXECUTABLE")
    target_precompile_headers(${target} REUSE_FROM weft_program_headers)
  else()
    target_precompile_headers(${target} REUSE_FROM weft_standard_headers)
  endif()
endfunction()

# weft_loops(file... OPTIONS option...): the sources whose loops are most of the work, with all that the compiler can do for them.
# Under sanitizers, which take up to a minute for such a file, they are compiled like the others; and the undefined-behaviour one, which
# doubles that, looks at their plain twins.
function(weft_loops)
  cmake_parse_arguments(ARG "" "" "OPTIONS" ${ARGN})
  set(options ${ARG_OPTIONS})
  if(NOT WEFT_SANITIZE)
    list(PREPEND options -O3)
  endif()
  set_property(SOURCE ${ARG_UNPARSED_ARGUMENTS} APPEND PROPERTY COMPILE_OPTIONS ${options})
  set_property(SOURCE ${ARG_UNPARSED_ARGUMENTS} PROPERTY SKIP_PRECOMPILE_HEADERS ON)
  foreach(file ${ARG_UNPARSED_ARGUMENTS})
    if(file MATCHES "_simd.cpp$|block_kernel.cpp$" AND WEFT_SANITIZE MATCHES undefined)
      set_property(SOURCE ${file} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=undefined)
    endif()
  endforeach()
endfunction()

# weft_unity(target): the sources of a floor, or of a folder elsewhere, are compiled together, at most WEFT_UNITY as one. The
# standard library's headers are most of what a source compiles, and are then read once for all of them. A source with options of
# its own stays alone.
function(weft_unity target)
  if(NOT WEFT_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP UNITY_BUILD_UNIQUE_ID WEFT_UNIT)
  get_target_property(home ${target} SOURCE_DIR)
  file(RELATIVE_PATH place ${PROJECT_SOURCE_DIR} ${home})
  foreach(source ${sources})
    if(NOT source MATCHES "\\.cpp$")
      continue()
    endif()
    set(group all)
    if(NOT place MATCHES "^src/")  # tests name their helpers alike
      get_filename_component(folder ${source} DIRECTORY)
      string(MAKE_C_IDENTIFIER "in_${folder}" group)
    endif()
    if(NOT DEFINED count_${group})
      set(count_${group} 0)
    endif()
    math(EXPR part "${count_${group}} / ${WEFT_UNITY}")
    math(EXPR count_${group} "${count_${group}} + 1")
    get_filename_component(path ${source} ABSOLUTE BASE_DIR ${home})
    set_source_files_properties(${path} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${group}_${part})
  endforeach()
endfunction()

# Everything of a directory, and of those below it: what is compiled as one, and with headers that are read once.
function(weft_compiled_together directory)
  get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    if(type MATCHES "EXECUTABLE|STATIC_LIBRARY")
      weft_unity(${target})
      weft_precompiled(${target})
    endif()
  endforeach()
  get_property(below DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
  foreach(each ${below})
    weft_compiled_together(${each})
  endforeach()
endfunction()

# weft_floor(name SOURCES ... BELOW lower floors)
function(weft_floor name)
  cmake_parse_arguments(ARG "" "" "SOURCES;BELOW" ${ARGN})
  add_library(weft_${name} STATIC ${ARG_SOURCES})
  add_library(weft::${name} ALIAS weft_${name})
  set_property(GLOBAL APPEND PROPERTY WEFT_FLOORS ${name})
  set_target_properties(weft_${name} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(weft_${name} PUBLIC cxx_std_20)
  target_include_directories(weft_${name}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(weft_${name} PUBLIC ${ARG_BELOW} PRIVATE $<BUILD_INTERFACE:weft_warnings>)
endfunction()
