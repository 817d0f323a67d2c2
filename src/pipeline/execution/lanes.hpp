#pragma once
// Where the messages of an executed schedule travel: a lane for each ordered pair of devices that talk.
//
// A lane is a communicator of the two, so that its messages wait for no others: from one device to another
// they go in the order in which both rows name them. What cannot move at once moves whenever `poll` is
// called, or by itself where the lane's stream has a thread or a device.

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "weft/collectives/communicator.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline::detail {

/// A value on its way in or out; lives in the lane until it is through.
class Message {
 public:
  /// Null until its memory and size are known.
  const Event* event() const { return work_ ? &work_->event() : nullptr; }
  /// Whether it is through. @throws what kept it from it
  bool done() const;
  /// Of what was received.
  std::int64_t count() const { return view_.count(); }

 private:
  friend class Lane;
  View view_{};
  Event memory_free_{};
  std::int64_t announced_ = 0;  // what the message of 8 bytes says
  std::optional<Work> announcement_{};
  std::optional<Work> work_{};
};

class Lane {
 public:
  /// @param announced whether each message is preceded by one that says its size
  Lane(Communicator comm, int peer_device, bool sends, bool announced);

  /// The value that `data` has when `after` has happened.
  std::shared_ptr<Message> send(ConstView data, const Event& after);
  /// Into `room`, which is free from `after` on: all of it, or as much as is announced.
  std::shared_ptr<Message> receive(View room, const Event& after);
  /// Carries on what can be.
  void poll();
  /// From now on by a thread of its own. Nothing is under way. @throws Error (usage) where MPI forbids it
  void run_beside();

  int peer_device() const { return peer_device_; }
  bool sends() const { return sends_; }
  std::uint64_t wire_bytes() const { return comm_.wire_bytes(); }
  void give_up(const Error& error) noexcept { comm_.give_up(error); }

 private:
  void advance(Message& message);
  Work transfer(View data, const Stream& stream);

  Communicator comm_;
  Stream stream_;
  Stream host_;  // of announcements
  int peer_device_;
  bool sends_;
  bool announced_;
  std::deque<std::shared_ptr<Message>> waiting_;  // receives whose announcement is not there
};

class Lanes {
 public:
  /// Collective. Those that this rank takes part in.
  Lanes(Communicator& comm, const Schedule& schedule, bool announced);

  Lane& to(int device) { return *at(device, true); }
  Lane& from(int device) { return *at(device, false); }
  void poll();
  void run_beside();
  std::uint64_t wire_bytes() const;
  void give_up(const Error& error) noexcept;

 private:
  Lane* at(int device, bool sends);

  std::vector<std::unique_ptr<Lane>> lanes_;
};

/// Ordered pairs of devices that values cross between, in rounds in each of which a device is named once.
std::vector<std::vector<std::pair<int, int>>> lane_rounds(const Schedule& schedule);

}  // namespace weft::pipeline::detail
