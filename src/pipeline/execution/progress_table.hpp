#pragma once
// Which entry each device of a running pipeline is at, and so which device the others wait for.
//
// Each device publishes the entry of its row that it is at (Communicator::show). A device that waits for a
// message waits for one other device. Following the waits from device to device ends at one that does not
// wait: it computes, has not begun its step, or has died.

#include <string>

#include "weft/collectives/communicator.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline::detail {

/// "1F5 (stage 1, microbatch 5)"
std::string described(const Action& action);

/// Whether it sends or receives a value.
bool is_transfer(ActionType type);

/// The device on the other side of a transfer.
int peer_of(const Schedule& schedule, const Action& transfer);

class ProgressTable {
 public:
  /// @param schedule outlives it
  ProgressTable(Communicator comm, const Schedule& schedule) : comm_(std::move(comm)), schedule_(&schedule) {}

  /// Publishes this device's entry.
  void set(std::size_t entry) { weft::detail::show(comm_, entry + 1); }
  /// This device is between two steps.
  void clear() { weft::detail::show(comm_, 0); }
  /// The device that this device's wait ends at, as a sentence: "device 1 is at 1F5 (stage 1, microbatch 5)".
  std::string blocked_by(const Action& waiting) const;

 private:
  Communicator comm_;
  const Schedule* schedule_;
};

}  // namespace weft::pipeline::detail
