# libweft.so: all floors in one library, made from their archives, so that nothing is compiled twice. What is in a namespace detail, and what
# belongs to other libraries, stays inside.
set(shared_default ON)
if(WEFT_SANITIZE OR NOT PROJECT_IS_TOP_LEVEL)
  set(shared_default OFF)
endif()
option(WEFT_SHARED "libweft.so beside the archives" ${shared_default})
set(WEFT_FLOOR_TARGETS weft_core weft_collectives weft_gradient weft_compression weft_schedules weft_pipeline weft_zero)
if(NOT WEFT_SHARED)
  return()
endif()

# weft_map(variable): the linker's version script. Names are mangled: _ZN4weft6detail6append... is weft::detail::append(...). A pattern
# that shows a name cannot be taken back, so a name is left out letter by letter: all that begin otherwise are shown.
function(weft_all_but begin word out)
  string(LENGTH ${word} length)
  math(EXPR last "${length} - 1")
  set(patterns "")
  foreach(i RANGE ${last})
    string(SUBSTRING ${word} ${i} 1 letter)
    string(APPEND patterns " ${begin}[!${letter}]*;")
    string(APPEND begin ${letter})
  endforeach()
  set(${out} "${${out}}   ${patterns}\n" PARENT_SCOPE)
endfunction()
function(weft_map out)
  set(shown "")
  foreach(kind _ZN _ZNK _ZTIN _ZTSN _ZTVN _ZTTN)  # functions and variables, const functions; what catch, dynamic_cast and virtual calls need
    string(APPEND shown "    ${kind}4weft[!68]*;\n")
    weft_all_but(${kind}4weft6 detail shown)
    weft_all_but(${kind}4weft8 pipeline shown)
    string(APPEND shown "    ${kind}4weft8pipeline[!6]*;\n")
    weft_all_but(${kind}4weft8pipeline6 detail shown)
  endforeach()
  # Of detail, what templates in public headers call.
  string(APPEND shown "    _ZN4weft6detail6append*; _ZN4weft6detail14append_printed*;\n")
  set(${out} "WEFT {\n  global:\n${shown}  local: *;\n};\n" PARENT_SCOPE)
endfunction()

file(CONFIGURE OUTPUT shared.cpp CONTENT "// CMake wants a source; the library is made from archives.\n")
add_library(weft_shared SHARED ${CMAKE_CURRENT_BINARY_DIR}/shared.cpp)
add_library(weft::shared ALIAS weft_shared)
# All that the archives hold; after that the archives as usual, for what they need.
set(files "")
foreach(floor ${WEFT_FLOOR_TARGETS})
  string(APPEND files ",$<TARGET_FILE:${floor}>")
endforeach()
target_link_libraries(weft_shared PRIVATE "-Wl,--whole-archive${files},--no-whole-archive" ${WEFT_FLOOR_TARGETS})
set(map ${CMAKE_CURRENT_BINARY_DIR}/weft.map)
weft_map(text)
file(CONFIGURE OUTPUT ${map} CONTENT "${text}" @ONLY)
target_link_options(weft_shared PRIVATE LINKER:--version-script=${map} LINKER:--as-needed LINKER:-z,defs)
# While the major version is 0, a minor version may break programs: it is part of the name.
set_target_properties(weft_shared PROPERTIES OUTPUT_NAME weft EXPORT_NAME shared VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} LINK_DEPENDS ${map} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
target_include_directories(weft_shared INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(weft_shared INTERFACE cxx_std_20)
