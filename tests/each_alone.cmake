# Compiles every public header that no source of the library begins with in a source of its own, which includes it twice. Where
# each source is compiled alone (WEFT_UNITY=0) that is every header: it says what it forgot to include. Nothing is optimized and
# nothing linked.
if(WEFT_UNITY)
  message(FATAL_ERROR "WEFT_EACH_ALONE needs WEFT_UNITY=0: sources that are compiled together lend each other includes")
endif()

set(first_lines "")
get_property(floors GLOBAL PROPERTY WEFT_FLOORS)
foreach(floor ${floors})
  get_target_property(sources weft_${floor} SOURCES)
  get_target_property(home weft_${floor} SOURCE_DIR)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  foreach(source ${sources})
    file(STRINGS ${home}/${source} first LIMIT_COUNT 1 REGEX "^#include")
    list(APPEND first_lines ${first})
  endforeach()
endforeach()

file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR}/include CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/*.hpp)
set(units "")
foreach(header ${headers})
  if("#include \"${header}\"" IN_LIST first_lines OR (header MATCHES "interop/mpi" AND NOT WEFT_MPI_ON) OR
     (header MATCHES "^weft/torch/" AND NOT TARGET weft_torch))
    continue()
  endif()
  string(MAKE_C_IDENTIFIER ${header} unit)
  set(unit ${CMAKE_CURRENT_BINARY_DIR}/headers/${unit}.cpp)
  file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"${header}\"\n#include \"${header}\"\n")
  list(APPEND units ${unit})
endforeach()
add_library(public_headers OBJECT ${units})
target_link_libraries(public_headers PRIVATE weft $<TARGET_NAME_IF_EXISTS:weft_mpi> weft_warnings)
