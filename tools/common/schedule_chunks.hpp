#pragma once
// --chunks beside the name of a schedule.

#include <algorithm>
#include <string_view>

#include "weft/core/error.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::tool {

/// @throws Error (usage) where the schedule of that name is made for other numbers of chunks
inline void expect_chunks(std::string_view name, int chunks) {
  const auto all = pipeline::named_schedules();
  const auto one = std::ranges::find(all, name, &pipeline::NamedSchedule::name);
  if (one == all.end() || (chunks >= one->fewest_chunks && chunks <= one->most_chunks)) return;
  throw Error(ErrorKind::usage,
              text("--chunks ", chunks, ": ", name, " has ", one->fewest_chunks,
                   one->most_chunks == one->fewest_chunks ? "" : " or more",
                   one->most_chunks == 1 ? " chunk" : " chunks", " on a device"),
              text("give --chunks ", one->fewest_chunks));
}

}  // namespace weft::tool
