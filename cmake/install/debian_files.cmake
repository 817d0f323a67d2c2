# What Debian wants in each package and no other install has: copyright, changelog, and manuals compressed. CPack runs this when the files of
# all packages lie in their folders.
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(name ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(top ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr)
  if(NOT EXISTS ${top})
    message(FATAL_ERROR "debian_files.cmake: ${top} is not there: nothing was installed for ${name}")
  endif()
  set(documents ${top}/share/doc/${name})
  file(WRITE ${documents}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: weft

Files: *
Copyright: 2026 the weft maintainers
License: Apache-2.0
 On Debian systems the text of this license is in /usr/share/common-licenses/Apache-2.0.
")
  file(WRITE ${documents}/changelog.Debian "weft (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}; what changed stands in /usr/share/doc/weft.

 -- ${CPACK_PACKAGE_CONTACT}  Thu, 26 Nov 2026 00:00:00 +0000
")
  file(GLOB manuals ${top}/share/man/man1/*.1)
  execute_process(COMMAND gzip -9nf ${documents}/changelog.Debian ${manuals} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
# Libraries that are loaded by their names, and that nothing links with, have no soname. They lie where dlopen() looks.
file(WRITE ${CPACK_TEMPORARY_DIRECTORY}/tools/usr/share/lintian/overrides/weft-tools
     "weft-tools: sharedobject-in-library-directory-missing-soname [usr/lib/*/libnccl-profiler-weft.so]\n"
     "weft-tools: sharedobject-in-library-directory-missing-soname [usr/lib/*/libnccl-tuner-weft.so]\n")
file(REMOVE ${CPACK_TEMPORARY_DIRECTORY}/dev/usr/share/doc/weft/LICENSE)  # common-licenses has it
