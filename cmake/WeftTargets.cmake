# One static or shared library a floor (BUILD_SHARED_LIBS decides), and the warnings of the house.

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

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

# Once for libraries and once for programs, whose code may be placed elsewhere.
if(WEFT_PRECOMPILE)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cpp CONTENT "int main() {}\n")
  add_library(weft_precompiled OBJECT ${CMAKE_BINARY_DIR}/precompiled.cpp)
  add_executable(weft_precompiled_program EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/precompiled.cpp)
  foreach(precompiled weft_precompiled weft_precompiled_program)
    target_link_libraries(${precompiled} PRIVATE weft_warnings)
    target_precompile_headers(${precompiled} PRIVATE <algorithm> <array> <atomic> <chrono> <condition_variable> <deque> <functional> <map>
      <memory> <mutex> <optional> <ranges> <span> <sstream> <string> <thread> <variant> <vector>)
  endforeach()
endif()

# Everything of a directory, and of those below it.
function(weft_precompile directory)
  if(NOT WEFT_PRECOMPILE)
    return()
  endif()
  get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    if(type STREQUAL EXECUTABLE)
      target_precompile_headers(${target} REUSE_FROM weft_precompiled_program)
    elseif(type STREQUAL STATIC_LIBRARY)
      target_precompile_headers(${target} REUSE_FROM weft_precompiled)
    endif()
  endforeach()
  get_property(below DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
  foreach(each ${below})
    weft_precompile(${each})
  endforeach()
endfunction()

# weft_floor(name SOURCES ... BELOW lower floors)
function(weft_floor name)
  cmake_parse_arguments(ARG "" "" "SOURCES;BELOW" ${ARGN})
  add_library(weft_${name} ${ARG_SOURCES})
  add_library(weft::${name} ALIAS weft_${name})
  set_target_properties(weft_${name} PROPERTIES EXPORT_NAME ${name} VERSION ${PROJECT_VERSION} SOVERSION 0)
  target_compile_features(weft_${name} PUBLIC cxx_std_20)
  target_include_directories(weft_${name}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(weft_${name} PUBLIC ${ARG_BELOW} PRIVATE $<BUILD_INTERFACE:weft_warnings>)
  if(WEFT_PRECOMPILE)
    target_precompile_headers(weft_${name} REUSE_FROM weft_precompiled)
  endif()
endfunction()
