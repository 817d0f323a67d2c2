#pragma once
// What pages are made of: text that is safe to stand in HTML, numbers with the digits that say something, and
// drawings that keep their letters readable at any width.
//
// A drawing has no fixed width. Places across it are shares of the width (0 to 1), places down it are pixels;
// so a page that becomes narrow squeezes the rectangles and leaves text, lines and heights as they are.
// Colours are classes of the page's style, which knows light from dark. Pure values, any thread.
//
//   Svg svg("Where a step of ddp goes", "computing 261 ms, waiting 1.2 ms", 20);
//   svg.rect({0, 0.995}, {0, 20}, "compute", "computing: 261 ms");
//   page += svg.str();
//
// WRONG: rect(..., "<b>") or text(..., name + "&nbsp;"): Svg escapes what it is given, once; give it plain
// text. Only where HTML is joined by hand, escaped() belongs around every word that is not this program's.

#include <string>
#include <string_view>
#include <vector>

namespace weft::report {

/// As it may stand between tags and in quoted attributes. Control characters become U+FFFD.
std::string escaped(std::string_view raw);

/// The same in every locale. What is no number is "-".
std::string fixed(double value, int decimals);
/// Decimals with which the largest of a column has four digits, so that its rows stay aligned; 0 to 3.
int decimals_for(double largest);
/// Three digits and a unit: "263 ms", "1.20 ms", "84.0 µs". Like all that follow, with a space that does not
/// break.
std::string duration(double seconds);
std::string bytes(double count);
/// "98.4 %"
std::string percent(double share);
/// Whole, in groups of three: "12,345"
std::string grouped(double value);

/// An entry of a drawing's legend, as HTML: the look of a kind, and what it means.
std::string key(std::string_view kind, std::string_view words);

/// Round places from `low` to `high` to label an axis at; at most `most` of them.
std::vector<double> ticks(double low, double high, int most);

struct Range {
  double begin = 0;
  double end = 0;
};

enum class Anchor { start, middle, end };

class Svg {
 public:
  /// @param title what it shows @param description the same in figures, for who cannot see it
  Svg(std::string_view title, std::string_view description, double height);

  /// @param across shares of the width @param down pixels @param kind class of the style
  /// @param tip shown when pointed at; may be empty
  void rect(Range across, Range down, std::string_view kind, std::string_view tip = {}, double opacity = 1);
  void line(double from_x, double from_y, double to_x, double to_y, std::string_view kind);
  void text(double x, double y, std::string_view words, Anchor anchor = Anchor::start,
            std::string_view kind = {});
  /// Marks of a fixed size around a place. Shapes differ, for who cannot tell the colours.
  void dot(double x, double y, std::string_view kind, std::string_view tip);
  void square(double x, double y, std::string_view kind, std::string_view tip);

  std::string str() const { return body_ + "</svg>\n"; }

 private:
  std::string body_;
};

}  // namespace weft::report
