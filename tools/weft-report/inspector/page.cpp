// Curves of a run, for the page.

#include <algorithm>
#include <cmath>

#include "common/page/curves.hpp"
#include "weft-report/inspector/inspector.hpp"
#include "weft/core/text.hpp"

namespace weft::report::inspector {
namespace {

constexpr std::size_t most_drawings = 6;
constexpr std::size_t most_curves = 8;
constexpr double least_height = 170;
constexpr double rank_height = 120;

std::string in_gigabytes(double value) {
  return text(fixed(value, value < 10 ? 2 : 1), " GB/s");
}

/// Sizes of one communicator and operation on which the most time went.
std::string bandwidth_drawing(const Communicator& one, std::vector<const SizeRow*> rows) {
  std::erase_if(rows, [](const SizeRow* row) { return row->windows.size() < 2 || row->busbw <= 0; });
  std::ranges::stable_sort(rows, std::ranges::greater{}, [](const SizeRow* row) {
    return row->median_us * static_cast<double>(row->operations);
  });
  rows.resize(std::min(rows.size(), most_curves));
  if (rows.empty()) return {};
  std::ranges::sort(rows, {}, &SizeRow::bytes);
  std::vector<Curve> curves;
  double top = 0;
  for (const SizeRow* row : rows) {
    Curve curve{.name = bandwidth::size_text(static_cast<std::int64_t>(row->bytes)),
                .look = look_of(curves.size()),
                .places = {}};
    for (const Window& window : row->windows) {
      if (window.microseconds <= 0) continue;
      const double busbw = row->busbw * row->median_us / window.microseconds;
      curve.places.push_back({static_cast<std::int64_t>(window.first), busbw});
      top = std::max(top, busbw);
    }
    if (!curve.places.empty()) curves.push_back(std::move(curve));
  }
  if (curves.empty() || !(top > 0) || !std::isfinite(top)) return {};
  const std::string title =
      text(name(rows.front()->kind), ", ", clean(one.called()), ", ", one.ranks, " ranks");
  return text("<h3>", escaped(title), "</h3>\n<div class=\"curves\">",
              curves_over_steps({.title = text("Bus bandwidth of ", title),
                                 .least_height = least_height,
                                 .values = {0, top * 1.06},
                                 .unit = 1,
                                 .suffix = " GB/s",
                                 .words = in_gigabytes},
                                curves),
              "</div>\n");
}

PageSection over_the_run(const Job& job, const Conclusions& all) {
  PageSection section{.heading = "Bandwidth over the run",
                      .note =
                          "Bus bandwidth by the number of the operation: each place is the median of the "
                          "operations of one part of the "
                          "run. Steps of the axis are numbers of operations."};
  std::size_t drawings = 0;
  for (std::size_t begin = 0; begin < all.rows.size() && drawings < most_drawings;) {
    std::size_t end = begin;
    std::vector<const SizeRow*> rows;
    while (end < all.rows.size() && all.rows[end].communicator == all.rows[begin].communicator &&
           all.rows[end].kind == all.rows[begin].kind)
      rows.push_back(&all.rows[end++]);
    const std::string drawing = is_collective(all.rows[begin].kind)
                                    ? bandwidth_drawing(job.communicators[all.rows[begin].communicator], rows)
                                    : std::string();
    if (!drawing.empty()) ++drawings;
    section.html += drawing;
    begin = end;
  }
  return section;
}

std::string ranks_drawing(const Communicator& one, const Comparison& comparison) {
  double most = 0.02;
  for (const Compared& rank : comparison.ranks) most = std::max(most, std::abs(rank.share));
  const std::string title = text("Ranks of ", clean(one.called()));
  Svg svg(title, text("Times of ", comparison.ranks.size(), " ranks beside the others'"), rank_height);
  const double middle = rank_height / 2;
  const double width = 1 / static_cast<double>(comparison.ranks.size());
  svg.line(0, middle, 1, middle, "base");
  for (std::size_t i = 0; i < comparison.ranks.size(); ++i) {
    const Compared& rank = comparison.ranks[i];
    const double height = middle * std::abs(rank.share) / most;
    const bool named = std::ranges::find(comparison.stragglers, rank.member, &Straggler::member) !=
                       comparison.stragglers.end();
    const double left = width * static_cast<double>(i);
    const Range down = rank.share < 0 ? Range{middle, middle + std::max(height, 1.0)}
                                      : Range{middle - std::max(height, 1.0), middle};
    svg.rect({left, left + 0.9 * width}, down, named ? "exposed" : "overlapped",
             text("rank ", one.members[rank.member].rank, " on ", clean(one.members[rank.member].host), ": ",
                  rank.share < 0 ? "-" : "+", fixed(100 * std::abs(rank.share), 1), " %"));
  }
  return text("<h3>", escaped(title), "<span>up to ", fixed(100 * most, 1), " %</span></h3>\n", svg.str());
}

PageSection ranks(const Job& job, const Conclusions& all) {
  PageSection section{
      .heading = "Ranks beside each other",
      .note =
          "A bar a rank: how much longer (up) or shorter (down) its times are than the other ranks', as a "
          "median over the "
          "run. The others wait for a rank whose bar points down. A finding names the hatched ones."};
  std::size_t drawings = 0;
  for (std::size_t at = 0; at < job.communicators.size() && drawings < most_drawings; ++at) {
    if (all.comparisons[at].ranks.size() < 2 || all.comparisons[at].ranks.size() > 1024) continue;
    section.html += ranks_drawing(job.communicators[at], all.comparisons[at]);
    ++drawings;
  }
  return section;
}

}  // namespace

std::vector<PageSection> sections(const Job& job, const Conclusions& all) {
  return {over_the_run(job, all), ranks(job, all)};
}

}  // namespace weft::report::inspector
