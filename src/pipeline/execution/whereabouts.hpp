#pragma once
// What the devices of a running pipeline are at, and so who holds the others up.
//
// Each shows the entry of its row that it is at (Communicator::show). A device that waits for a message waits
// for one other device; following that from device to device ends at one that does not wait: it computes,
// has not begun its step, or is no more.

#include <string>

#include "weft/collectives/communicator.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline::detail {

/// "1F5 (stage 1, microbatch 5)"
std::string described(const Action& action);

/// Of a value between two devices, posted or awaited.
bool is_transfer(ActionType type);

/// The device that a transfer's entry is about.
int peer_of(const Schedule& schedule, const Action& transfer);

class Whereabouts {
 public:
  /// @param schedule outlives it
  Whereabouts(Communicator comm, const Schedule& schedule) : comm_(std::move(comm)), schedule_(&schedule) {}

  void at(std::size_t entry) { comm_.show(entry + 1); }
  void nowhere() { comm_.show(0); }
  /// Who `waiting` on this device is for in the end, a sentence: "device 1 is at 1F5 (stage 1, microbatch
  /// 5)".
  std::string holds_up(const Action& waiting) const;

 private:
  Communicator comm_;
  const Schedule* schedule_;
};

}  // namespace weft::pipeline::detail
