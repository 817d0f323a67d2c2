#include "report/page/table.hpp"

#include "report/page/markup.hpp"
#include "weft/core/error.hpp"

namespace weft::report {

std::string table(const std::string& caption, const std::vector<std::string>& heading,
                  const std::vector<std::vector<std::string>>& rows, std::size_t words) {
  // It scrolls in a box of its own where it is wider than the page, also by keyboard.
  std::string result = text("<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"",
                            escaped(caption), "\"><table>\n<thead><tr>");
  const auto style = [words](std::size_t column) { return column <= words ? " class=\"words\"" : ""; };
  for (std::size_t i = 0; i < heading.size(); ++i)
    result += text("<th scope=\"col\"", style(i), ">", escaped(heading[i]), "</th>");
  result += "</tr></thead>\n<tbody>\n";
  for (const auto& row : rows) {
    result += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      result += i == 0 ? text("<th scope=\"row\" class=\"words\">", escaped(row[i]), "</th>")
                       : text("<td", style(i), ">", escaped(row[i]), "</td>");
    }
    result += "</tr>\n";
  }
  return result + "</tbody></table></div>\n";
}

}  // namespace weft::report
