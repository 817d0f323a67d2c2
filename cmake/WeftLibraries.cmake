# What is installed: libweft.a and libweft.so, each all floors in one, of the objects that the floors have compiled. What is in a namespace detail,
# and what belongs to other libraries, stays inside libweft.so.
set(objects "")
set(floors weft_core weft_collectives weft_gradient weft_compression weft_schedules weft_pipeline weft_zero weft_embedding weft_local weft_deepspeed weft_c)
if(WEFT_CHECKPOINT_ON)
  list(APPEND floors weft_checkpoint)
endif()
foreach(floor ${floors})
  list(APPEND objects $<TARGET_OBJECTS:${floor}>)
  get_target_property(sources ${floor} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.o$")  # of nvcc
  set_source_files_properties(${sources} PROPERTIES GENERATED TRUE EXTERNAL_OBJECT TRUE)
  list(APPEND objects ${sources})
endforeach()

# weft_library(target kind): links what all floors need; none of that reaches the compile lines of users.
function(weft_library target kind)
  add_library(${target} ${kind} ${objects})
  add_dependencies(${target} ${floors})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME weft ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  if(WEFT_BOOST_ON)
    target_link_libraries(${target} PRIVATE OpenSSL::Crypto)
  endif()
  if(WEFT_SIMD_ON)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:${WEFT_HIGHWAY_LIBRARY}> $<INSTALL_INTERFACE:hwy>)
  endif()
  if(WEFT_URING_ON)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:${WEFT_URING_LIBRARY}> $<INSTALL_INTERFACE:uring>)
  endif()
  if(WEFT_MPI_ON)
    target_link_libraries(${target} PRIVATE MPI::MPI_CXX)
  endif()
  if(WEFT_CUDA_ON)
    target_link_libraries(${target} PRIVATE CUDA::cudart_static)
  endif()
endfunction()
weft_library(weft_static STATIC)
set_target_properties(weft_static PROPERTIES EXPORT_NAME static)

set(shared_default ON)
if(WEFT_SANITIZE OR NOT PROJECT_IS_TOP_LEVEL)
  set(shared_default OFF)
endif()
option(WEFT_SHARED "libweft.so beside libweft.a" ${shared_default})
if(NOT WEFT_SHARED)
  return()
endif()

# The linker's version script says which names libweft.so shows. They are mangled: _ZN4weft6detail6append... is weft::detail::append(...). A
# pattern that shows names cannot be taken back, so `detail` is left out letter by letter: what differs in any letter is shown.
# weft_all_but(begin word variable): appends the patterns of names that begin with `begin`, but not with `begin` and `word`.
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
# weft_map(variable): the script.
function(weft_map out)
  set(shown "")
  foreach(kind _ZN _ZNK _ZTIN _ZTSN _ZTVN _ZTTN)  # functions and variables, const functions; what catch, dynamic_cast and virtual calls need
    string(APPEND shown "    ${kind}4weft[!68]*;\n")
    weft_all_but(${kind}4weft6 detail shown)
    weft_all_but(${kind}4weft8 pipeline shown)
    string(APPEND shown "    ${kind}4weft8pipeline[!6]*;\n")
    weft_all_but(${kind}4weft8pipeline6 detail shown)
  endforeach()
  # Of detail, what templates in public headers call, one table of the process that weft::torch shares, and what libweft_metrics.a agrees by.
  string(APPEND shown "    _ZN4weft6detail6append*; _ZN4weft6detail14append_printed*; _ZN4weft6detail14ParameterClaim*;\n"
                      "    _ZN4weft6detail5agreeE*; _ZN4weft6detail7Outcome4keepE*; _ZN4weft6detail14exchange_texts*;\n")
  file(READ ${PROJECT_SOURCE_DIR}/src/c/symbols.map of_c)
  set(${out} "WEFT {\n  global:\n${shown}  local: *;\n};\n${of_c}" PARENT_SCOPE)
endfunction()

# The names of C have versions of their own: src/c/symbols.map.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/c/symbols.map)
set(map ${CMAKE_CURRENT_BINARY_DIR}/weft.map)
weft_map(text)
file(CONFIGURE OUTPUT ${map} CONTENT "${text}" @ONLY)
weft_library(weft_shared SHARED)
target_link_options(weft_shared PRIVATE LINKER:--version-script=${map} LINKER:--as-needed LINKER:-z,defs)
# While the major version is 0, a minor version may break programs: it is part of the name.
set_target_properties(weft_shared PROPERTIES EXPORT_NAME shared VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} LINK_DEPENDS ${map})
# Where python/weft looks for it first, in the package that pip builds for torch.
if(TARGET weft_torch_distributed)
  install(FILES $<TARGET_FILE:weft_shared> DESTINATION weft RENAME libweft.so.${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} COMPONENT python)
endif()
