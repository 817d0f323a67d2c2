#pragma once
// An axis across a drawing that need not begin at nothing.

#include <vector>

#include "report/page/markup.hpp"
#include "weft/core/error.hpp"

namespace weft::report {

class Axis {
 public:
  Axis(double low, double high) : low_(low), high_(high) {}
  double x(double value) const { return (value - low_) / (high_ - low_); }
  double low() const { return low_; }
  double high() const { return high_; }

  /// Lines down to `bottom`, figures below. @param unit of the figures, in the axis' own @param suffix of the
  /// last, " ms"
  void draw(Svg& svg, double bottom, double unit, const char* suffix) const {
    const std::vector<double> places = ticks(low_ / unit, high_ / unit, 7);
    for (const double tick : places) {
      const double at = x(tick * unit);
      svg.line(at, 0, at, bottom, "grid");
      svg.text(at, bottom + 16, text(tick, tick == places.back() ? suffix : ""),
               at > 0.94   ? Anchor::end
               : at < 0.06 ? Anchor::start
                           : Anchor::middle,
               "soft");
    }
  }

 private:
  double low_;
  double high_;
};

}  // namespace weft::report
