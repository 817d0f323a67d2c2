#pragma once
// How far a reducer is, for the flight record.

#include "core/json_string.hpp"
#include "gradient/ready_tracker.hpp"
#include "weft/collectives/flight_recorder.hpp"

namespace weft::detail {

class ReadyNote final : public FlightNote {
 public:
  ReadyNote(std::shared_ptr<const ReadyTracker> ready, ParamLayout layout)
      : ready_(std::move(ready)), layout_(std::move(layout)) {}

  std::string json() const override {
    constexpr std::size_t most = 8;
    const std::vector<ParamId> missing = ready_->missing();
    std::string names;
    for (std::size_t i = 0; i < std::min(missing.size(), most); ++i)
      names += text(i == 0 ? "" : ",", json_string(layout_.name(missing[i])));
    return text(R"({"track":"gradients","step":)", ready_->step(), ",\"waits_for\":[", names,
                "],\"waits_for_count\":", missing.size(), "}");
  }

 private:
  std::shared_ptr<const ReadyTracker> ready_;
  ParamLayout layout_;
};

}  // namespace weft::detail
