// The timeline: what every rank computes, sends and waits for in one step. A row for each rank and track.
//
// A drawing has about 900 pixels, and a step may have thousands of spans. drawn() reduces a row to marks: it
// sorts spans by time, puts spans at the same time on up to three levels, and joins neighbours that are
// thinner than a pixel. Sorting is the cost.

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "common/page/markup.hpp"
#include "weft-scaling/pages/scaling_charts.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

using Span = ScalingPage::Span;

constexpr double assumed_width = 900;    // pixels of the drawing on a wide page
constexpr std::size_t drawn_ranks = 16;  // more do not fit a page
constexpr int most_levels = 3;
constexpr double row_height = 16;
constexpr double row_gap = 3;
constexpr double rank_gap = 10;
constexpr double top = 2;
constexpr double axis_height = 22;

/// By rank, and within a rank in the order in which tracks are drawn.
using Rows = std::map<int, std::map<std::pair<int, std::string>, std::vector<Span>>>;

int place_of(const std::string& track) {
  return track == "compute" ? 0 : track == "wire" ? 1 : track == "waiting" ? 2 : 3;
}

Rows rows_of(const std::vector<Span>& timeline) {
  Rows all_rows;
  for (const Span& span : timeline) {
    if (span.end >= span.begin) all_rows[span.rank][{place_of(span.track), span.track}].push_back(span);
  }
  return all_rows;
}

std::string kind_of(const std::string& name) {
  return name.substr(0, name.find(':'));
}

/// The class of the style; an unknown track looks like the wire.
std::string style_of(const std::string& track, const std::string& name) {
  if (track == "waiting") return "exposed";
  if (track != "compute") return "wire";
  const std::string kind = kind_of(name);
  return kind == "forward" || kind == "update" ? kind : "backward";
}

/// Seconds covered by any of the spans.
double covered(std::vector<Span> spans) {
  std::ranges::sort(spans, {}, &Span::begin);
  double sum = 0;
  double until = 0;
  for (const Span& span : spans) {
    sum += std::max(0.0, span.end - std::max(span.begin, until));
    until = std::max(until, span.end);
  }
  return sum;
}

/// The kinds of span that occur, in the order of a step, under the names that the spans have.
std::string legend(const std::vector<Span>& timeline) {
  constexpr std::array styles{"forward", "backward", "update", "wire", "exposed"};
  std::map<std::string, std::string> words;
  for (const Span& span : timeline) {
    const std::string style = style_of(span.track, span.name);
    words.try_emplace(style, style == "wire"      ? "on the wire"
                             : style == "exposed" ? "waiting"
                                                  : kind_of(span.name));
  }
  std::string keys;
  for (const char* style : styles) {
    if (const auto found = words.find(style); found != words.end()) keys += key(style, found->second);
  }
  return text("<ul class=\"keys\">", keys, "</ul>\n");
}

std::string tip_of(const Mark& mark) {
  const std::string what = mark.spans == 1 ? mark.name : text(mark.spans, " spans, first ", mark.name);
  return text(what, ": ", duration(mark.busy), " from ", duration(mark.begin));
}

class Drawing {
 public:
  Drawing(Svg& svg, double seconds) : svg_(svg), seconds_(seconds) {}

  double x(double seconds) const { return seconds / seconds_; }
  double pixel() const { return seconds_ / assumed_width; }

  void row(const std::string& track, const std::vector<Span>& spans, double y) {
    const std::vector<Mark> marks = drawn(spans, pixel());
    int levels = 1;
    for (const Mark& mark : marks) levels = std::max(levels, mark.level + 1);
    const double height = row_height / levels;
    for (const Mark& mark : marks) {
      const double above = y + mark.level * height;
      // A mark thinner than a pixel must stay visible.
      const Range across{x(mark.begin), std::max(x(mark.end), x(mark.begin + pixel()))};
      const double busy = mark.busy / std::max(mark.end - mark.begin, pixel());
      // A gap separates neighbours where a narrow page has room for it.
      const bool wide = mark.end - mark.begin > 10 * pixel();
      svg_.rect(across, {above, above + height}, style_of(track, mark.name) + (wide ? " apart" : ""),
                tip_of(mark), mark.spans == 1 ? 1 : std::clamp(busy, 0.35, 1.0));
    }
    if (track == "compute") kinds(spans, y);
  }

  /// Writes the kind of work once over neighbouring spans, if they are wide enough for the word on a narrow
  /// page and cover most of the time.
  void kinds(std::vector<Span> spans, double y) {
    std::ranges::sort(spans, {}, &Span::begin);
    for (std::size_t i = 0; i < spans.size();) {
      const std::string kind = kind_of(spans[i].name);
      const double begin = spans[i].begin;
      double end = begin;
      const std::size_t first = i;
      for (; i < spans.size() && kind_of(spans[i].name) == kind; ++i) end = std::max(end, spans[i].end);
      const double busy = covered({spans.begin() + static_cast<std::ptrdiff_t>(first),
                                   spans.begin() + static_cast<std::ptrdiff_t>(i)});
      if (busy < (end - begin) / 2) continue;
      constexpr double letters_of_a_narrow_page = 36;
      if (static_cast<double>(kind.size() + 2) / letters_of_a_narrow_page <= x(end - begin))
        svg_.text(x((begin + end) / 2), y + 12, kind, Anchor::middle, "within");
    }
  }

 private:
  Svg& svg_;
  double seconds_;
};

std::string row_label(const std::string& words, double height, bool strong) {
  return text("<div style=\"height:", fixed(height, 0), "px\"", strong ? " class=\"first\"" : "", ">",
              escaped(words), "</div>");
}

void draw_axis(Svg& svg, double seconds, double bottom) {
  const std::vector<double> places = ticks(0, seconds * 1e3, 8);
  for (const double tick : places) {
    const double x = tick * 1e-3 / seconds;
    svg.line(x, 0, x, bottom, "grid");
    svg.text(x, bottom + 16, text(tick, tick == places.back() ? "\u00a0ms" : ""),
             x > 0.94    ? Anchor::end
             : tick == 0 ? Anchor::start
                         : Anchor::middle,
             "soft");
  }
}

/// The strategy's median step on a track, which the verdict and the tables above are about; none for a track without one.
std::string median_on(const std::string& track, const ScalingPage::Strategy& strategy) {
  if (track == "compute") return duration(strategy.compute_seconds + strategy.overlapped_seconds);
  if (track == "waiting") return duration(strategy.exposed_seconds);
  if (track == "wire" && strategy.link_busy_seconds > 0) return duration(strategy.link_busy_seconds);
  return "-";
}

std::string figures(const Rows& all_rows, const ScalingPage::Strategy* strategy) {
  std::vector<std::string> tracks;
  for (const auto& [rank, by_track] : all_rows) {
    for (const auto& [key, spans] : by_track)
      if (std::ranges::find(tracks, key.second) == tracks.end()) tracks.push_back(key.second);
  }
  std::ranges::stable_sort(tracks, {}, place_of);
  std::vector<std::vector<std::string>> rows;
  for (const auto& [rank, by_track] : all_rows) {
    rows.push_back({text("rank ", rank, ", last step")});
    for (const std::string& track : tracks) {
      const auto found = by_track.find({place_of(track), track});
      rows.back().push_back(found == by_track.end() ? "-" : duration(covered(found->second)));
    }
  }
  if (strategy != nullptr) {
    rows.push_back({"median step, mean over ranks"});
    for (const std::string& track : tracks) rows.back().push_back(median_on(track, *strategy));
  }
  tracks.insert(tracks.begin(), "step");
  return table("Time of each rank in the last step, and the median step", tracks, rows);
}

}  // namespace

std::vector<Mark> drawn(std::vector<Span> spans, double pixel) {
  std::ranges::stable_sort(spans, {}, &Span::begin);
  std::vector<Mark> marks;
  std::vector<double> level_ends;
  std::vector<std::size_t> last_of_level;
  for (const Span& span : spans) {
    const auto free = std::ranges::find_if(level_ends, [&](double end) { return end <= span.begin; });
    auto level = static_cast<std::size_t>(free - level_ends.begin());
    if (free == level_ends.end() && level_ends.size() < most_levels) {
      level_ends.push_back(0);
      last_of_level.push_back(marks.size());
    }
    level = std::min(level, level_ends.size() - 1);
    level_ends[level] = std::max(level_ends[level], span.end);
    Mark* last = last_of_level[level] < marks.size() ? &marks[last_of_level[level]] : nullptr;
    const auto thin = [&](double seconds) { return seconds < pixel; };
    // A mark stops growing when it is a pixel wide: two hundred thin spans must not become one broad block.
    if (last != nullptr && thin(last->end - last->begin) && thin(span.end - span.begin) &&
        thin(span.begin - last->end) && kind_of(last->name) == kind_of(span.name)) {
      last->busy += span.end - std::clamp(last->end, span.begin, span.end);
      last->end = std::max(last->end, span.end);
      ++last->spans;
      continue;
    }
    last_of_level[level] = marks.size();
    marks.push_back({span.begin, span.end, span.end - span.begin, 1, static_cast<int>(level), span.name});
  }
  return marks;
}

std::string overlap(const std::vector<Span>& timeline, const ScalingPage::Strategy* strategy) {
  const Rows all_rows = rows_of(timeline);
  double seconds = 0;
  for (const auto& span : timeline) seconds = std::max(seconds, span.end);
  if (all_rows.empty() || !(seconds > 0) || std::isinf(seconds)) return {};

  double bottom = top;
  std::size_t ranks = 0;
  for (const auto& [rank, by_track] : all_rows) {
    if (++ranks > drawn_ranks) break;
    bottom += static_cast<double>(by_track.size()) * (row_height + row_gap) + rank_gap;
  }
  Svg svg(
      "One step on every rank",
      text("A row for each rank and track over ", duration(seconds), "; the table below has its figures."),
      bottom + axis_height);
  draw_axis(svg, seconds, bottom - rank_gap / 2);
  Drawing drawing(svg, seconds);
  std::string labels;
  double y = top;
  ranks = 0;
  for (const auto& [rank, by_track] : all_rows) {
    if (++ranks > drawn_ranks) break;
    const double height = static_cast<double>(by_track.size()) * (row_height + row_gap) - row_gap;
    if (const auto waits = by_track.find({place_of("waiting"), "waiting"}); waits != by_track.end()) {
      for (const Mark& mark : drawn(waits->second, drawing.pixel()))
        svg.rect({drawing.x(mark.begin), drawing.x(mark.end)}, {y, y + height}, "band");
    }
    bool first = true;
    for (const auto& [key, spans] : by_track) {
      labels +=
          row_label(first ? text("rank ", rank, " ", key.second) : key.second, row_height + row_gap, first);
      first = false;
      drawing.row(key.second, spans, y);
      y += row_height + row_gap;
    }
    labels += text("<div style=\"height:", fixed(rank_gap, 0), "px\"></div>");
    y += rank_gap;
  }
  std::string note;
  if (all_rows.size() > drawn_ranks) {
    note = text("<p class=\"note\">Drawn are the first ", drawn_ranks, " of ", all_rows.size(),
                " ranks; the table has them all.</p>\n");
  }
  return text(legend(timeline), "<div class=\"timeline\"><div class=\"labels\" aria-hidden=\"true\">", labels,
              "</div><div>", svg.str(), "</div></div>\n", note, figures(all_rows, strategy));
}

}  // namespace weft::report
