#pragma once
// The parts of a page: escaped text, numbers with significant digits only, tables, and drawings whose text
// stays readable at any width.
//
// A drawing has no fixed width. Horizontal positions are shares of the width (0 to 1), vertical ones are
// pixels; a narrow page squeezes rectangles and leaves text, line widths and heights as they are. Colours are
// classes of the page's style, which has a light and a dark theme. Pure values, any thread.
//
//   Svg svg("Where a step of ddp goes", "computing 261 ms, waiting 1.2 ms", 20);
//   svg.rect({0, 0.995}, {0, 20}, "compute", "computing: 261 ms");
//   page += svg.str();
//
// WRONG: rect(..., "<b>") or text(..., name + "&nbsp;"): Svg escapes its arguments once; give it plain text.
// Where HTML is joined by hand, put escaped() around every text that is not a literal of this program.

#include <string>
#include <string_view>
#include <vector>

namespace weft::report {

/// Text that is safe between tags and in quoted attributes. Lines and tabs stay; else as core's printable().
std::string escaped(std::string_view raw);

/// The same in every locale. Infinities and NaN become "-".
std::string fixed(double value, int decimals);
/// The number of decimals (0 to 3) with which the largest value of a column has four digits.
int decimals_for(double largest);
/// Three digits and a unit: "263 ms", "1.20 ms", "84.0 µs". The space, here and below, is a non-breaking one.
std::string duration(double seconds);
std::string bytes(double count);
/// "98.4 %"
std::string percent(double share);
/// A whole number in groups of three: "12,345"
std::string grouped(double value);

/// An entry of a legend, as HTML: a sample of a class of the style, and its meaning.
std::string key(std::string_view kind, std::string_view words);

/// A table as HTML. Cells are plain text; the first of a row is its heading.
/// @param caption read out by screen readers @param words how many columns after the first hold text, which
/// is aligned to the left; the others are numbers
std::string table(const std::string& caption, const std::vector<std::string>& heading,
                  const std::vector<std::vector<std::string>>& rows, std::size_t words = 0);

/// At most `most` round values from `low` to `high`, at which an axis is labelled.
std::vector<double> ticks(double low, double high, int most);

struct Range {
  double begin = 0;
  double end = 0;
};

enum class Anchor { start, middle, end };

class Svg {
 public:
  /// @param title what it shows @param description the same in figures, for screen readers
  Svg(std::string_view title, std::string_view description, double height);

  /// @param across shares of the width @param down pixels @param kind class of the style
  /// @param tip shown when the pointer is over it; may be empty
  void rect(Range across, Range down, std::string_view kind, std::string_view tip = {}, double opacity = 1);
  void line(double from_x, double from_y, double to_x, double to_y, std::string_view kind);
  void text(double x, double y, std::string_view words, Anchor anchor = Anchor::start,
            std::string_view kind = {});
  /// Marks of a fixed size. Their shapes differ, for readers who cannot tell the colours apart.
  void dot(double x, double y, std::string_view kind, std::string_view tip);
  void square(double x, double y, std::string_view kind, std::string_view tip);

  std::string str() const { return body_ + "</svg>\n"; }

 private:
  std::string body_;
};

}  // namespace weft::report
