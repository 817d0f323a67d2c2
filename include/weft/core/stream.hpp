#pragma once
// An ordered queue of work on one device. Every operation of weft on memory takes a stream and runs in its
// order.
//
// Three kinds. `Stream()` is inline on the host: work runs in the caller's thread, at the call if it can
// finish there; what cannot (a collective whose peers have not arrived) stays posted and is progressed by
// whoever next polls, waits or submits; it never blocks at the call. `Stream::queued()` has a thread of its
// own, for overlap. `Stream(Device::cuda(0))` hands work to a CUDA stream (weft/interop/cuda.hpp): a task is
// complete for the host once the device has it, and an event is done when the device has passed it. Streams
// are handles: copies are the same queue. Any thread may use one; the order of work is the order of the
// calls.
//
// The first error is sticky: work after it does not run, and every later wait rethrows it. The destructor of
// the last handle finishes the work; while an exception is unwinding it drops it instead.
//
//   Stream compute, wire = Stream::queued();
//   compute.run([&] { backward(layer); });
//   wire.wait(compute.record());
//   Work work = comm.all_reduce(gradient, ReduceOp::avg, wire);
//   compute.wait(wire.record());                   // a join; the host does not block here
//   compute.synchronize();                         // here it does
//
// WRONG: stream.run([&] { stream.synchronize(); });   // work that waits for its own stream; refused with an
// Error

#include <memory>
#include <utility>

#include "weft/core/deadline.hpp"
#include "weft/core/device.hpp"
#include "weft/core/event.hpp"
#include "weft/core/recycled.hpp"

namespace weft {

/// Work that a stream carries out by asking it to advance until it is complete. What it touches must outlive
/// it. Its own memory is recycled.
class Task : public Recycled {
 public:
  virtual ~Task() = default;
  Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// One attempt, without blocking. True: complete. Throws: failed, and the stream with it.
  virtual bool advance() = 0;
  /// Between attempts that have been in vain for a while: returns when there may be more to do, at the latest
  /// after so long. Whoever can be told by others overrides it; the rest looks again soon.
  virtual void rest(std::chrono::microseconds at_most);
};

namespace detail {
class StreamState;
struct Behind;

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

class Stream {
 public:
  /// Inline on the host.
  Stream();
  /// Inline on the host, or a new CUDA stream. @throws Error when the device cannot be used, saying why
  explicit Stream(Device device);
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

  /// Progresses posted work of an inline stream, if there is any. True when nothing is left to do, and within
  /// the stream's own work, before which nothing can be left.
  bool poll();
  /// Blocks until everything submitted so far has run. @throws the stream's error; Error (timeout) at the
  /// deadline
  void synchronize(Deadline deadline = Deadline::never());

  friend bool operator==(const Stream&, const Stream&) = default;

 private:
  friend struct detail::Behind;
  explicit Stream(std::shared_ptr<detail::StreamState> state);

  std::shared_ptr<detail::StreamState> state_;
};

template <class Function>
void Stream::run(Function function) {
  submit(std::make_unique<detail::FunctionTask<Function>>(std::move(function)));
}

}  // namespace weft
