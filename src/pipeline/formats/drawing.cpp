// The SVG of a schedule: a row of boxes for each device, a time axis, the bound as a line and a legend. With
// more computations than most_boxes, boxes get a least length (the grain), and neighbours are joined up to
// it.

#include "weft/pipeline/drawing.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "pipeline/formats/drawing_parts.hpp"
#include "pipeline/simulate/prediction.hpp"
#include "weft/core/error.hpp"

namespace weft::pipeline {
namespace {

using detail::escaped;
using detail::pixels;

constexpr int least_drawing_width = 300;
constexpr double top = 46, right = 16, digit = 6.4, label = 11;

char colour_of(ActionType type) {
  switch (type) {
    case ActionType::forward:
      return 'f';
    case ActionType::backward_weight:
      return 'w';
    case ActionType::recompute:
      return 'r';
    default:
      return 'b';
  }
}

class Drawing {
 public:
  Drawing(const Schedule& schedule, const Prediction& prediction, const DrawingOptions& options)
      : schedule_(schedule),
        prediction_(prediction),
        options_(options),
        chunk_of_(schedule.device_of.size()) {
    std::vector<int> chunks(schedule.rows.size());
    for (std::size_t stage = 0; stage < chunk_of_.size(); ++stage)
      chunk_of_[stage] = chunks.at(static_cast<std::size_t>(schedule.device_of[stage]))++;
    for (const int count : chunks) most_chunks_ = std::max(most_chunks_, count);
    const double devices = std::max(1.0, static_cast<double>(schedule.rows.size()));
    pitch_ = std::clamp(1400 / devices, 4.0, 26.0);
    height_ = pitch_ * (pitch_ < 12 ? 0.9 : 0.85);
    left_ = 62 + digit * static_cast<double>(text(schedule.rows.size()).size());
    Nanoseconds last = prediction.makespan;  // of computation: a row may go on to wait for its reductions
    for (const auto& ends : prediction.ends)
      if (!ends.empty()) last = std::max(last, ends.back());
    until_ = static_cast<double>(std::max({last, options.until, bound_at(), Nanoseconds{1}}));
  }

  std::string draw() {
    std::string rows;
    const Nanoseconds grain = grain_of_boxes();
    for (std::size_t device = 0; device < schedule_.rows.size(); ++device) rows += row(device, grain);
    const double bottom = top + pitch_ * static_cast<double>(schedule_.rows.size());
    return head(bottom + 62) + axis(bottom) + rows + bound(bottom) + legend(bottom + 48) + "</svg>\n";
  }

 private:
  double x(double time) const { return left_ + (options_.width - left_ - right) * time / until_; }
  double x(Nanoseconds time) const { return x(static_cast<double>(time)); }
  /// In the unit of the drawing.
  std::string time(Nanoseconds value) const {
    return text(static_cast<double>(value) / options_.unit, escaped(options_.unit_name));
  }

  Nanoseconds bound_at() const {
    if (options_.bound == 0 || options_.objective == Objective::makespan) return options_.bound;
    const auto longest = std::ranges::max_element(
        prediction_.devices, {}, [](const DevicePrediction& one) { return one.end - one.begin; });
    return options_.bound + (longest == prediction_.devices.end() ? 0 : longest->begin);
  }

  /// The least length of a box; 0 where every computation has its own.
  Nanoseconds grain_of_boxes() const {
    std::int64_t all = 0;
    for (const auto& row : schedule_.rows)
      all += std::ranges::count_if(row, [](const Action& action) {
        return is_compute(action.type) || action.type == ActionType::recompute;
      });
    if (all <= options_.most_boxes) return 0;
    const double across = options_.width - left_ - right;
    const double grain =
        std::max(0.5, across * static_cast<double>(schedule_.rows.size()) / std::max(options_.most_boxes, 1));
    return static_cast<Nanoseconds>(std::ceil(until_ * grain / across));
  }

  std::string head(double bottom) const {
    const std::string title = options_.title.empty()
                                  ? text(escaped(schedule_.name), ": makespan ", time(prediction_.makespan))
                                  : escaped(options_.title);
    const std::string size = text(" width=\"", options_.width, "\" height=\"", pixels(bottom), '"');
    return text("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"schedule v", most_chunks_,
                "\" role=\"img\"", size, " viewBox=\"0 0 ", options_.width, ' ', pixels(bottom),
                "\">\n<title>", title, "</title>\n<style>", detail::drawing_style, shades(),
                "</style>\n<rect class=\"ground\"", size, "/>\n<text x=\"8\" y=\"18\" class=\"title\">",
                title, "</text>\n");
  }

  /// Later chunks are paler: the background shows through, so that numbers stay readable on both. Drawings in
  /// one page share their styles, so the class name has the number of chunks.
  std::string shades() const {
    std::string result;
    for (int chunk = 1; chunk < most_chunks_; ++chunk)
      result += text(".schedule.v", most_chunks_, " .c", chunk,
                     "{fill-opacity:", pixels(1 - 0.55 * chunk / (most_chunks_ - 1)), "}\n");
    return result;
  }

  std::string named(std::size_t device, const detail::Box& box) const {
    const std::vector<Action>& row = schedule_.rows[device];
    return text(row[box.first],
                box.actions == 1 ? "" : text(" to ", row[box.last], ", ", box.actions, " actions"), ": ",
                time(box.begin), " to ", time(box.end));
  }

  std::string row(std::size_t device, Nanoseconds grain) {
    const double y = top + pitch_ * static_cast<double>(device), middle = y + height_ / 2;
    std::string result;
    const auto every = static_cast<std::size_t>(std::ceil(13 / pitch_));
    if (device % every == 0)
      result += text("<text class=\"soft\" text-anchor=\"end\" x=\"", pixels(left_ - 6), "\" y=\"",
                     pixels(middle + 4), "\">device ", device, "</text>\n");
    for (const detail::Wait& wait : detail::waits(schedule_, prediction_, device, grain)) {
      result += text("<path class=\"wait\" d=\"M", pixels(x(wait.begin)), ' ', pixels(middle), 'H',
                     pixels(x(wait.end)), "\"><title>", schedule_.rows[device][wait.entry], ": ",
                     time(wait.begin), " to ", time(wait.end), "</title></path>\n");
      waits_ = true;
    }
    for (const detail::Box& box : detail::boxes(schedule_, prediction_, device, grain))
      result += drawn(device, box, y);
    return result;
  }

  std::string drawn(std::size_t device, const detail::Box& box, double y) {
    const Action& action = schedule_.rows[device][box.shown];
    const double from = x(box.begin), wide = x(box.end) - from;
    const char colour = colour_of(action.type);
    kinds_.insert(colour);
    // A hair of background separates boxes that are wide enough for it.
    const double hair = wide >= 3 ? 0.75 : 0;
    const int chunk = chunk_of_.at(static_cast<std::size_t>(action.stage));
    std::string result =
        text("<rect class=\"", colour, chunk > 0 ? text(" c", chunk) : "", "\" x=\"", pixels(from), "\" y=\"",
             pixels(y), "\" width=\"", pixels(std::max(wide - hair, 0.1)), "\" height=\"", pixels(height_),
             "\"><title>", named(device, box), "</title></rect>\n");
    const std::string number = text(action.microbatch);
    if (box.actions == 1 && height_ >= label && digit * static_cast<double>(number.size()) + 1 <= wide)
      result += text("<text class=\"in\" x=\"", pixels(from + (wide - hair) / 2), "\" y=\"",
                     pixels(y + height_ / 2 + 4), "\">", number, "</text>\n");
    return result;
  }

  /// Lines at round times, with their figures below the rows.
  std::string axis(double bottom) const {
    const double last = until_ / options_.unit, rough = last / std::max(2.0, options_.width / 120.0);
    double step = std::pow(10, std::floor(std::log10(rough)));
    for (const double factor : {2.0, 2.5, 2.0})
      if (step < rough * (1 - 1e-9)) step *= factor;
    std::string result;
    for (double i = 0; i * step <= last * (1 + 1e-9); ++i) {
      const std::string at = pixels(x(i * step * options_.unit));
      result += text("<path class=\"line\" d=\"M", at, ' ', pixels(top - 4), 'V', pixels(bottom), "\"/>\n",
                     "<text class=\"soft\" text-anchor=\"middle\" x=\"", at, "\" y=\"", pixels(bottom + 15),
                     "\">", i * step, i == 0 ? "" : escaped(options_.unit_name), "</text>\n");
    }
    return result;
  }

  std::string bound(double bottom) const {
    if (options_.bound == 0) return {};
    const double at = x(bound_at());
    const bool late = at > options_.width / 2.0;
    return text("<path class=\"bound\" d=\"M", pixels(at), ' ', pixels(top - 16), 'V', pixels(bottom),
                "\"/>\n<text class=\"strong\" text-anchor=\"", late ? "end" : "start", "\" x=\"",
                pixels(at + (late ? -5 : 5)), "\" y=\"", pixels(top - 8), "\">no ", name(options_.objective),
                " is shorter than ", time(options_.bound), "</text>\n");
  }

  std::string legend(double y) const {
    std::string result;
    double at = left_;
    const auto words = [&](std::string_view said) {
      result += text("<text class=\"soft\" x=\"", pixels(at), "\" y=\"", pixels(y), "\">", said, "</text>\n");
      at += digit * static_cast<double>(said.size()) + 18;
    };
    const auto swatch = [&](std::string_view kind, double opacity) {
      result += text("<rect class=\"", kind, "\" x=\"", pixels(at), "\" y=\"", pixels(y - 10),
                     "\" width=\"12\" height=\"12\" style=\"fill-opacity:", pixels(opacity), "\"/>\n");
      at += 16;
    };
    for (const auto& [kind, said] :
         {std::pair{'f', "forward"}, std::pair{'b', "backward (B), or its part for the input (I)"},
          std::pair{'w', "backward for the weights (W)"}, std::pair{'r', "recomputed forward"}}) {
      if (!kinds_.contains(kind)) continue;
      swatch(text(kind), 1);
      words(said);
    }
    if (most_chunks_ > 1) {
      swatch("f", 1);
      swatch("f", 0.45);
      words(text("chunk 0 to ", most_chunks_ - 1));
    }
    if (!waits_) return result;
    result += text("<path class=\"wait\" d=\"M", pixels(at), ' ', pixels(y - 4), "h14\"/>\n");
    at += 20;
    words("waits for a gather, a reduction or a copy");
    return result;
  }

  const Schedule& schedule_;
  const Prediction& prediction_;
  const DrawingOptions& options_;
  std::vector<int> chunk_of_;  // of each stage: its place among those of its device
  int most_chunks_ = 1;
  double pitch_, height_, left_, until_;
  std::set<char> kinds_;  // drawn so far
  bool waits_ = false;
};

}  // namespace

std::string svg(const Schedule& schedule, const Prediction& prediction, const DrawingOptions& options) {
  detail::expect_times(schedule, prediction);
  if (options.width < least_drawing_width)
    throw Error(ErrorKind::usage, text("a drawing of ", options.width, " pixels"),
                text("give a width of ", least_drawing_width, " or more"));
  if (!(options.unit > 0) || !std::isfinite(options.unit))
    throw Error(ErrorKind::usage, text("a drawing in units of ", options.unit, " ns"), "give a unit above 0");
  return Drawing(schedule, prediction, options).draw();
}

}  // namespace weft::pipeline
