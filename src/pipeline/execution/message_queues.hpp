#pragma once
// The messages of an executed schedule: a queue for each ordered pair of devices that talk.
//
// Each queue has a communicator of the two devices, so that its messages wait for no others: from one device
// to the other they go in the order in which both rows name them. A message that cannot be sent at once goes
// on whenever poll() is called, or by itself where the queue's stream has a thread or a device.

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "weft/collectives/communicator.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline::detail {

/// A value that is sent or received. The queue keeps it until it is done.
class Message {
 public:
  /// Null while its memory or its size is unknown.
  const Event* event() const { return work_ ? &work_->event() : nullptr; }
  /// @throws the error of the transfer
  bool done() const;
  /// The elements that were received.
  std::int64_t count() const { return view_.count(); }

 private:
  friend class MessageQueue;
  View view_{};
  Event memory_free_{};
  std::int64_t announced_ = 0;  // the count that the message of 8 bytes carries
  std::optional<Work> announcement_{};
  std::optional<Work> work_{};
};

class MessageQueue {
 public:
  /// @param announced whether a message of 8 bytes with its size precedes each message
  MessageQueue(Communicator comm, int peer_device, bool sends, bool announced);

  /// Collective over the two: connects their devices. Before the first message.
  void connect();
  /// Sends the value that `data` has once `after` has happened.
  std::shared_ptr<Message> send(ConstView data, const Event& after);
  /// Receives into `room`, which is free from `after` on: all of it, or as much as is announced.
  std::shared_ptr<Message> receive(View room, const Event& after);
  /// Starts every message that can be started, and drives an inline stream.
  void poll();
  /// Gives the queue a thread of its own. No message may be pending. @throws Error (usage) if MPI forbids
  /// it
  void run_on_thread();

  int peer_device() const { return peer_device_; }
  bool sends() const { return sends_; }
  std::uint64_t wire_bytes() const { return comm_.wire_bytes(); }
  void give_up(const Error& error) noexcept { comm_.give_up(error); }

 private:
  void advance(Message& message);
  Work transfer(View data, const Stream& stream);

  Communicator comm_;
  Stream stream_;
  Stream host_;  // for announcements
  int peer_device_;
  bool sends_;
  bool announced_;
  std::deque<std::shared_ptr<Message>> waiting_;  // not started (receives) or announced (sends)
};

/// All queues of one device.
class MessageQueues {
 public:
  /// Collective. Makes the queues to and from this rank; the pairs of one round split the communicator
  /// together. @param arena what is sent and received lies there
  MessageQueues(Communicator& comm, const Schedule& schedule, bool announced, View arena);

  MessageQueue& to(int device) { return *at(device, true); }
  MessageQueue& from(int device) { return *at(device, false); }
  void poll();
  void run_on_thread();
  std::uint64_t wire_bytes() const;
  void give_up(const Error& error) noexcept;

 private:
  MessageQueue* at(int device, bool sends);

  std::vector<std::unique_ptr<MessageQueue>> queues_;
  std::vector<std::shared_ptr<const void>> arena_;  // registered with each
};

/// The ordered pairs of devices that exchange values, in rounds that name each device at most once.
std::vector<std::vector<std::pair<int, int>>> split_rounds(const Schedule& schedule);

}  // namespace weft::pipeline::detail
