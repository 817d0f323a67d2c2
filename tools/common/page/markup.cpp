#include "common/page/markup.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "core/base/strings.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

constexpr std::string_view space = "\u00a0";  // figures keep their units

std::string with_unit(double value, std::string_view unit) {
  const double size = std::abs(value);
  return fixed(value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2).append(space).append(unit);
}

/// Infinities and NaN must not break a drawing.
double within(double share) {
  return std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0.0;
}

std::string across(double share) {
  return fixed(within(share) * 100, 3) + "%";
}

std::string down(double pixels) {
  return fixed(std::isfinite(pixels) ? pixels : 0.0, 1);
}

std::string tip_element(std::string_view tip) {
  return tip.empty() ? std::string() : weft::text("<title>", escaped(tip), "</title>");
}

const char* word(Anchor anchor) {
  return anchor == Anchor::start ? "start" : anchor == Anchor::middle ? "middle" : "end";
}

}  // namespace

std::string escaped(std::string_view raw) {
  std::string result;
  while (true) {
    const std::size_t end = raw.find_first_of("\n\t");
    for (const char c : detail::printable(raw.substr(0, end))) {
      switch (c) {
        case '&':
          result += "&amp;";
          break;
        case '<':
          result += "&lt;";
          break;
        case '>':
          result += "&gt;";
          break;
        case '"':
          result += "&quot;";
          break;
        case '\'':
          result += "&#39;";
          break;
        default:
          result += c;
      }
    }
    if (end == std::string_view::npos) return result;
    result += raw[end];
    raw.remove_prefix(end + 1);
  }
}

std::string fixed(double value, int decimals) {
  if (!std::isfinite(value)) return "-";
  std::array<char, 400> digits{};  // the largest double has 309 before its point
  const auto [end, code] = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                         std::chars_format::fixed, std::clamp(decimals, 0, 9));
  std::string result(digits.data(), end);
  // No figure is "-0.0".
  if (result.find_first_not_of("-0.") == std::string::npos && result.starts_with('-')) result.erase(0, 1);
  return result;
}

int decimals_for(double largest) {
  return largest >= 1000 ? 0 : largest >= 100 ? 1 : largest >= 10 ? 2 : 3;
}

std::string duration(double seconds) {
  const double size = std::abs(seconds);
  if (size == 0) return fixed(0, 0).append(space).append("ms");
  if (size >= 0.9995) return with_unit(seconds, "s");
  return size >= 0.9995e-3 ? with_unit(seconds * 1e3, "ms") : with_unit(seconds * 1e6, "µs");
}

std::string bytes(double count) {
  const double size = std::abs(count);
  if (size >= 0.9995e9) return with_unit(count * 1e-9, "GB");
  if (size >= 0.9995e6) return with_unit(count * 1e-6, "MB");
  if (size >= 0.9995e3) return with_unit(count * 1e-3, "kB");
  return fixed(count, 0).append(space).append("B");
}

std::string percent(double share) {
  return fixed(share * 100, 1).append(space).append("%");
}

std::string grouped(double value) {
  std::string digits = fixed(value, 0);
  const std::ptrdiff_t first = digits.starts_with('-') ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > first; at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

std::string key(std::string_view kind, std::string_view words) {
  return text("<li><span class=\"key ", kind, "\"></span>", escaped(words), "</li>");
}

std::vector<double> ticks(double low, double high, int most) {
  if (!(high > low) || !std::isfinite(high - low) || most < 2) return {low};
  const double rough = (high - low) / (most - 1);
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = power;
  for (const double factor : {2.0, 5.0, 10.0})
    if (step < rough * (1 - 1e-9)) step = factor * power;
  std::vector<double> places;
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i)
    places.push_back(i * step + 0.0);  // no axis begins at -0
  return places;
}

std::string table(const std::string& caption, const std::vector<std::string>& heading,
                  const std::vector<std::vector<std::string>>& rows, std::size_t words) {
  // A table that is wider than the page scrolls in a box of its own, also by keyboard.
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

Svg::Svg(std::string_view title, std::string_view description, double height)
    : body_(weft::text("<svg role=\"img\" width=\"100%\" height=\"", down(height), "\"><title>",
                       escaped(title), "</title><desc>", escaped(description), "</desc>\n")) {}

void Svg::rect(Range x, Range y, std::string_view kind, std::string_view tip, double opacity) {
  body_ += weft::text("<rect x=\"", across(x.begin), "\" y=\"", down(y.begin), "\" width=\"",
                      across(within(x.end) - within(x.begin)), "\" height=\"", down(y.end - y.begin),
                      "\" class=\"", escaped(kind), "\"",
                      opacity < 1 ? " opacity=\"" + fixed(opacity, 2) + "\"" : "", ">", tip_element(tip),
                      "</rect>\n");
}

void Svg::line(double from_x, double from_y, double to_x, double to_y, std::string_view kind) {
  body_ += weft::text("<line x1=\"", across(from_x), "\" y1=\"", down(from_y), "\" x2=\"", across(to_x),
                      "\" y2=\"", down(to_y), "\" class=\"", escaped(kind), "\"/>\n");
}

void Svg::text(double x, double y, std::string_view words, Anchor anchor, std::string_view kind) {
  body_ += weft::text("<text x=\"", across(x), "\" y=\"", down(y), "\" text-anchor=\"", word(anchor), "\"",
                      kind.empty() ? "" : weft::text(" class=\"", escaped(kind), "\""), ">", escaped(words),
                      "</text>\n");
}

void Svg::dot(double x, double y, std::string_view kind, std::string_view tip) {
  body_ += weft::text("<circle cx=\"", across(x), "\" cy=\"", down(y), "\" r=\"4.5\" class=\"", escaped(kind),
                      "\">", tip_element(tip), "</circle>\n");
}

void Svg::square(double x, double y, std::string_view kind, std::string_view tip) {
  // The position is a share of the width and the size is in pixels: translate moves it by half its size.
  body_ += weft::text("<rect x=\"", across(x), "\" y=\"", down(y),
                      "\" width=\"9\" height=\"9\" transform=\"translate(-4.5 -4.5)\" class=\"",
                      escaped(kind), "\">", tip_element(tip), "</rect>\n");
}

}  // namespace weft::report
