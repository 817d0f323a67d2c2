#include "expect_times.hpp"

#include "weft/core/error.hpp"

namespace weft::pipeline::detail {

void expect_times(const Schedule& schedule, const Prediction& prediction) {
  for (std::size_t device = 0; device < schedule.rows.size(); ++device) {
    const auto has = [&](const std::vector<std::vector<Nanoseconds>>& times) {
      return device < times.size() && times[device].size() == schedule.rows[device].size();
    };
    if (!has(prediction.begins) || !has(prediction.ends))
      throw Error(ErrorKind::usage, text("a prediction without the times of device ", device, "'s row"),
                  "simulate this schedule with Keep::times");
  }
}

}  // namespace weft::pipeline::detail
