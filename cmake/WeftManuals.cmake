# Manuals and shell completions, made from what the programs themselves print for --help: a page and a completion that say anything else
# cannot be. cmake/install/manuals.py reads --help; help2man sets the pages.
find_program(WEFT_HELP2MAN help2man)
find_package(Python3 QUIET COMPONENTS Interpreter)
set(manuals_found FALSE)
if(WEFT_HELP2MAN AND Python3_FOUND AND (NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR))
  set(manuals_found TRUE)
endif()
weft_option(WEFT_MANUALS "manuals and shell completions of the programs" "${manuals_found}" "help2man and python3")
if(NOT WEFT_MANUALS_ON)
  return()
endif()

set(folder ${CMAKE_BINARY_DIR}/manuals)
set(reader ${PROJECT_SOURCE_DIR}/cmake/install/manuals.py)
set(stamps "")
foreach(program ${WEFT_PROGRAMS})
  set(stamp ${folder}/${program}.made)
  add_custom_command(OUTPUT ${stamp}
    COMMAND ${Python3_EXECUTABLE} ${reader} ${WEFT_HELP2MAN} ${folder} ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:${program}>
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${program} ${reader} COMMENT "Manuals and completions of ${program}" VERBATIM)
  list(APPEND stamps ${stamp})
endforeach()
add_custom_target(manuals ALL DEPENDS ${stamps})
set(share ${CMAKE_INSTALL_DATADIR})
install(DIRECTORY ${folder}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT tools)
install(DIRECTORY ${folder}/bash/ DESTINATION ${share}/bash-completion/completions COMPONENT tools)
install(DIRECTORY ${folder}/fish/ DESTINATION ${share}/fish/vendor_completions.d COMPONENT tools)
install(DIRECTORY ${folder}/zsh/ DESTINATION ${share}/zsh/vendor-completions COMPONENT tools)
