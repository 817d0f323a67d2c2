#pragma once
// The stream that a group's operations on one device run on, and how it meets torch's own streams.
//
// torch runs what a program computes on the caller's current stream. weft's operations run on the lane: it waits on the device
// for what the current stream has at the call, and who waits for a work makes a current stream wait for the lane's mark. The
// host waits for neither.
//
//   lane.after_current();
//   comm.all_reduce(view, op, lane.stream());
//   lane.run([=] { out.copy_(memory); });          // on the device after the all_reduce; the host does not wait
//   auto mark = lane.mark();
//   ...
//   mark->block_current();                         // what torch runs next has the result
//
// One thread at a time calls a lane; any thread may use a mark.

#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>
#include <optional>

#include "weft/core/stream.hpp"

namespace weft::distributed {

class Lane {
 public:
  class Mark {
   public:
    virtual ~Mark() = default;
    /// The caller's current stream goes on after it.
    virtual void block_current() const = 0;
  };

  virtual ~Lane() = default;
  const Stream& stream() const { return stream_; }
  /// As torch calls it.
  c10::Device device() const { return device_; }

  /// What is handed over from now on runs after all that the caller's current stream has so far.
  /// @throws where that stream is being captured into a CUDA graph
  virtual void after_current() = 0;
  /// Runs operations of torch in the lane's order.
  virtual void run(std::function<void()> operations) = 0;
  /// After all that was handed over.
  virtual std::shared_ptr<const Mark> mark() = 0;
  virtual c10::intrusive_ptr<c10::ivalue::Future> make_future(c10::TypePtr type) const = 0;
  /// Gives the future its value: who takes that waits for the lane on the device.
  virtual void complete(c10::ivalue::Future& future, c10::IValue value) = 0;

 protected:
  Lane(Stream stream, c10::Device device) : stream_(std::move(stream)), device_(device) {}

 private:
  Stream stream_;
  c10::Device device_;
};

// What differs between builds.

std::unique_ptr<Lane> make_lane(Device device);
/// What weft calls the device; none where this build does not exchange its memory.
std::optional<Device> device_of(c10::Device device);
/// For users: what becomes of CUDA tensors.
const char* lanes_of_this_build();

}  // namespace weft::distributed
