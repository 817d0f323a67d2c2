# For Doxygen: the manual that a header opens with, // lines below #pragma once, becomes the description of the file. Lines with more than
# one space after the slashes are code. The line below the manual is empty.
function text(line) {
  gsub(/[\\<>#@&$]/, "\\\\&", line)
  return line
}
function fence(wanted) {
  if (wanted != code) print wanted ? "@code{.cpp}" : "@endcode"
  code = wanted
}
/^#pragma once/ { getline; if ($0 !~ /^\/\//) { print ""; print; next } print "/*! @file"; manual = 1 }
manual && /^\/\// {
  line = substr($0, 3)
  if (line ~ /^  /) { fence(1); print line }
  else if (line ~ /^ *$/ && code) { print "" }
  else { fence(0); print text(line) }
  next
}
manual { fence(0); print "*/"; manual = 0; next }
{ print }
