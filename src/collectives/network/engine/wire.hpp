#pragma once
// What carries messages between the ranks of several nodes: MPI, or another transport beneath the same plans.
//
// A Wire is one rank's end of a group of ranks. Messages from one rank to another with one tag arrive in the order in which
// they were sent. A message uses the memory it was posted with until it has ended. Nothing blocks. What uses the transport
// is called while enter() is held, by any thread unless any_thread() says otherwise.
//
//   const auto entered = wire.enter();
//   messages.receive(0, arrival, bytes, peer, tag);
//   for (const Messages::Ended& one : messages.collect()) ...
//
// WRONG: to free `arrival` before its message has ended: abandon() it.

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "collectives/backend/backend.hpp"
#include "weft/core/backoff.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {

/// Messages of one exchange that are under way, each with a label of the caller's. Used while the wire is entered,
/// but for abandon().
class Messages {
 public:
  virtual ~Messages() = default;
  Messages() = default;
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  /// @param is_part of more than may be under way: it ends no sooner than its receiver has begun to receive it
  virtual void send(std::size_t label, std::span<const std::byte> data, int peer, int tag, bool is_part) = 0;
  /// @param is_part as its sender says
  virtual void receive(std::size_t label, std::span<std::byte> data, int peer, int tag, bool is_part) = 0;

  struct Ended {
    std::size_t label = 0;
    std::size_t bytes = 0;    ///< sent, or received
    bool was_longer = false;  ///< a received one than there was room for
    std::string lost{};       ///< why its peer is gone; empty: it is not
  };
  /// Those that have ended since the last time, in any order; valid until the next call.
  virtual std::span<const Ended> collect() = 0;
  /// Any thread, not entered. They will not be collected any more: `memory`, in which they are, lives until the transport is done with it.
  virtual void abandon(std::shared_ptr<void> memory) noexcept = 0;
};

class Wire {
 public:
  virtual ~Wire() = default;
  Wire() = default;
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  /// "MPI"
  virtual std::string name() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int largest_tag() const = 0;
  virtual bool any_thread() const { return true; }
  /// @throws Error (usage) on a thread that may not call
  virtual std::unique_lock<std::mutex> enter() = 0;
  virtual std::unique_ptr<Messages> messages() = 0;
  /// Enters by itself. Lives as long as the wire.
  virtual SideChannel& side_channel() = 0;
  /// Enters by itself. The ranks that are gone, and how, as far as the transport knows.
  virtual std::vector<std::pair<int, std::string>> losses() { return {}; }
  /// Entered. Whether a rank that is gone has said goodbye before: it ended without an error.
  virtual bool has_left(int /*rank*/) { return false; }
  /// Not entered, when a look has found nothing: lets a rank that shares this core run, where looks cost system calls anyway.
  virtual void give_way() {}
  /// Not entered: returns when something may have come, after `at_most` at the latest.
  virtual void rest(std::chrono::microseconds at_most) { Backoff::sleep(at_most); }
  /// The transport's own way to carry out a collective, which Algorithm::mpi asks for.
  virtual std::unique_ptr<Task> own_collective(const Operation& operation,
                                               std::chrono::nanoseconds /*timeout*/) {
    throw Error(
        ErrorKind::usage,
        text(weft::name(operation.kind), " is to be carried out by MPI, but ", name(), " carries the data"),
        "choose an algorithm of weft's for it, or WEFT_TRANSPORT=mpi under mpirun");
  }
  /// The wire of some of its ranks, who meet at `rendezvous`, in that order. Collective.
  virtual std::shared_ptr<Wire> split(const std::vector<int>& members,
                                      const std::shared_ptr<Rendezvous>& rendezvous) = 0;
  /// This rank takes part no longer, by an error.
  virtual void give_up() noexcept = 0;
};

}  // namespace weft::detail
