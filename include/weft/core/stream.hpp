#pragma once
// An ordered queue of work on one device. Every operation of weft on memory takes a stream and runs in its
// order.
//
// There are three kinds. `Stream()` is inline on the host: work runs in the caller's thread, at the call if
// it can finish there. Work that cannot (a collective whose peers have not arrived) stays posted, and the
// next thread that polls, waits or submits progresses it; the call does not block. `Stream::queued()` has a
// thread of its own, for overlap. `Stream(Device::cuda(0))` hands work to a CUDA stream
// (weft/interop/cuda.hpp): a task is complete for the host once the device has it, and an event is done when
// the device has passed it. A Stream is a handle: copies are the same queue. Any thread may use one; the
// order of work is the order of the calls.
//
// The first error is sticky: later work does not run, and every later wait rethrows it. The destructor of the
// last handle finishes the work, or drops it while an exception is unwinding.
//
//   Stream compute, wire = Stream::queued();
//   compute.run([&] { backward(layer); });
//   wire.wait(compute.record());
//   Work work = comm.all_reduce(gradient, ReduceOp::avg, wire);
//   compute.wait(wire.record());                   // a join; the host does not block here
//   compute.synchronize();                         // here it does
//
// WRONG: stream.run([&] { stream.synchronize(); });   // throws Error: work waits for its own stream

#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

#include "weft/core/deadline.hpp"
#include "weft/core/device.hpp"
#include "weft/core/event.hpp"
#include "weft/core/recycled.hpp"

namespace weft {

/// Work of a stream, which calls advance() until the task is complete. The memory that the task works on must
/// outlive it; the task's own memory is recycled.
class Task : public Recycled {
 public:
  virtual ~Task() = default;
  Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// One attempt, without blocking. True when the task is complete. An exception fails the task and its
  /// stream.
  virtual bool advance() = 0;
  /// Called between attempts when several have made no progress: returns when the next may make some, after
  /// `at_most` at the latest. A task that a peer can wake overrides it; by default it sleeps
  /// (Backoff::sleep).
  virtual void rest(std::chrono::microseconds at_most);
  /// Called instead of advance(), and before the task goes, where work before it on its stream has failed.
  virtual void dropped(const std::exception_ptr& /*why*/) noexcept {}
};

namespace detail {
class StreamState;
struct StreamAccess;

template <class Function>
class FunctionTask final : public Task {
 public:
  explicit FunctionTask(Function function) : function_(std::move(function)) {}
  bool advance() override {
    static_cast<void>(function_());
    return true;
  }

 private:
  Function function_;
};
}  // namespace detail

/// On a device: kernels of a stream of high priority begin before those of others that wait for room. What runs is not interrupted.
enum class StreamPriority : std::uint8_t { normal, high };

class Stream {
 public:
  /// Inline on the host.
  Stream();
  /// Inline on the host, or a new CUDA stream. @throws Error when the device cannot be used, saying why
  explicit Stream(Device device, StreamPriority priority = StreamPriority::normal);
  /// On the host, with a thread of its own.
  static Stream queued();

  Device device() const;
  bool is_inline() const;

  /// Runs a host function in the stream's order: on a CUDA stream, to hand work to the device. Its exception
  /// becomes the stream's error.
  template <class Function>
  void run(Function function);
  Event submit(std::unique_ptr<Task> task);
  /// Later work of this stream starts after `event`; fails with it.
  void wait(Event event);
  /// The point after everything submitted so far.
  Event record() const;

  /// Progresses posted work of an inline stream. True when no work is left; also inside a task of the stream
  /// itself, since all work before that task is done.
  bool poll();
  /// Blocks until everything submitted so far has run.
  /// @throws the stream's error; Error (timeout) at the deadline
  void synchronize(Deadline deadline = Deadline::never());

  friend bool operator==(const Stream&, const Stream&) = default;

 private:
  friend struct detail::StreamAccess;
  explicit Stream(std::shared_ptr<detail::StreamState> state);

  std::shared_ptr<detail::StreamState> state_;
};

template <class Function>
void Stream::run(Function function) {
  submit(std::make_unique<detail::FunctionTask<Function>>(std::move(function)));
}

}  // namespace weft
