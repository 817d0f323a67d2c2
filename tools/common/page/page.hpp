#pragma once
// A page as one file: its head, the style of all pages, and sections. It has no scripts, and a policy that forbids them and whatever is
// not in the page. Pure values, any thread.
//
//   write("report.html", whole_page("weft-scaling: 2 ranks", section("Figures", "Medians over steps.", table(...))));
//
// WRONG: section(name_of_a_file, ...): what it is given is HTML; put escaped() (markup.hpp) around what is not a literal.

#include <string>
#include <string_view>

namespace weft::report {

/// @param title plain text @param content HTML @param more_style of this kind of page, behind that of all
std::string whole_page(std::string_view title, std::string_view content, std::string_view more_style = {});

/// Empty where there is no content: an empty section would suggest that nothing happened. @param heading, note, content HTML
std::string section(std::string_view heading, std::string_view note, std::string_view content);

}  // namespace weft::report
