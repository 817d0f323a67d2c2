#pragma once
// The work of a stream as spans of a Trace. Beside the communicator's spans they show what overlaps.
//
// On a host stream a task reads the clock. On a CUDA stream timed events are recorded, and read when the
// device has passed them; the host does not wait. A span ends where the next begins. Spans that the device
// has not passed when the StreamTrace is destroyed are lost: synchronize before. One thread uses a
// StreamTrace.
//
//   StreamTrace compute_trace(trace, compute.device(), "compute");
//   compute_trace.begin(compute, "forward");   model.forward(batch);
//   compute_trace.begin(compute, "backward");  model.backward(...);
//   compute_trace.end(compute);
//
// WRONG: two StreamTraces that write to one track at the same time: spans of a track must not overlap.

#include <memory>
#include <string>

#include "weft/core/stream.hpp"
#include "weft/core/trace.hpp"

namespace weft {

class StreamTrace {
 public:
  /// Records nothing.
  StreamTrace() = default;
  /// @param trace null: records nothing
  StreamTrace(std::shared_ptr<Trace> trace, Device device, std::string track);

  /// Ends the open span, if there is one, and begins the next, in the order of `stream`.
  void begin(Stream stream, std::string name);
  void end(Stream stream);

 private:
  class State;
  class OnHost;
  class OnDevice;
  std::shared_ptr<State> state_;
};

}  // namespace weft
