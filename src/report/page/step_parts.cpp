// Where a step goes, as bars.

#include <algorithm>

#include "report/page/markup.hpp"
#include "report/page/scaling_charts.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

using Strategy = ScalingPage::Strategy;

double of(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

/// What cannot be drawn as a length, said.
std::string remarks(const Strategy& one) {
  std::string words;
  if (one.link_busy_seconds > 0)
    words += text("The link is busy for ", duration(one.link_busy_seconds), ". ");
  if (one.slowest_seconds > 0) {
    words += text("Of the waiting, ", duration(one.slowest_seconds), " is for the slowest rank to come",
                  one.slowest_rank ? text(", most often rank ", *one.slowest_rank) : "", ".");
  }
  return words.empty() ? words : text("<p class=\"note\">", words, "</p>\n");
}

std::string parts_of(const Strategy& one, double longest) {
  struct Part {
    const char* kind;
    std::string what;
    double seconds;
  };
  const double least = 0.0005 * one.step_seconds;  // less would read "0.0 %"
  const bool overlap_known = one.overlapped_seconds > 0;
  const std::vector<Part> parts{
      {"compute", overlap_known ? "computing, nothing on the wire" : "computing", one.compute_seconds},
      {"overlapped", "computing, wire busy", one.overlapped_seconds},
      {"exposed", "waiting for communication", one.exposed_seconds}};
  std::string keys;
  std::string description;
  for (const Part& part : parts) {
    if (part.seconds <= least) continue;
    const std::string words =
        text(part.what, " ", duration(part.seconds), " (", percent(of(part.seconds, one.step_seconds)), ")");
    keys += key(part.kind, words);
    description += (description.empty() ? "" : "; ") + words;
  }
  Svg svg(text("Where a step of ", one.name, " goes"), description, 22);
  svg.rect({0, 1}, {0, 22}, "rail");
  double begin = 0;
  for (const Part& part : parts) {
    if (part.seconds <= least) continue;
    svg.rect({of(begin, longest), of(begin + part.seconds, longest)}, {0, 22}, part.kind,
             text(part.what, ": ", duration(part.seconds)));
    begin += part.seconds;
  }
  return text("<div class=\"bar\"><h3>", escaped(one.name), " <span>", duration(one.step_seconds),
              "</span></h3>\n", svg.str(), "<ul class=\"keys\">", keys, "</ul>\n", remarks(one), "</div>\n");
}

}  // namespace

std::string parts_of_a_step(const std::vector<Strategy>& strategies) {
  double longest = 0;
  for (const Strategy& one : strategies) longest = std::max(longest, one.step_seconds);
  std::string result;
  for (const Strategy& one : strategies) {
    if (one.compute_seconds + one.overlapped_seconds + one.exposed_seconds > 0)
      result += parts_of(one, longest);
  }
  return result;
}

}  // namespace weft::report
