#pragma once
// Which entry each device of a running pipeline is at, and so which device the others wait for.
//
// Each device publishes its step and the entry of its row that it is at (Communicator::show). A device that
// waits for a message waits for one other device. Following the waits from device to device ends at one that
// does not wait: it computes, has not begun its step, or has died. The step counts: a device may still be at
// the end of its row while its neighbours have begun the next step, and has then posted nothing of that one.

#include <cstdint>
#include <optional>
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

  /// What is published from now on is of this step. Steps count from 1, alike on all devices.
  void begin(std::uint64_t step) { step_ = step; }
  /// Publishes this device's entry.
  void set(std::size_t entry) { show(entry + 1); }
  /// This device is between two steps.
  void clear() { show(0); }
  /// The device that this device's wait ends at, as a sentence: "device 1 is at 1F5 (stage 1, microbatch 5)".
  std::string blocked_by(const Action& waiting) const;

 private:
  struct Place {
    std::uint64_t step;
    const Action* entry;  ///< none between two steps
  };

  /// What is published: the step, and below it the entry plus 1, or 0 between two steps.
  static constexpr int bits_of_entry = 32;
  void show(std::size_t entry_plus_1);
  std::optional<Place> place_of(int device) const;
  /// Whether the device has left that action of that step behind.
  bool is_past(int device, const Place& place, const Action& action, std::uint64_t step) const;
  std::string described_at(const Place& place) const;

  Communicator comm_;
  const Schedule* schedule_;
  std::uint64_t step_ = 0;
};

}  // namespace weft::pipeline::detail
