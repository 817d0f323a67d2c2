#pragma once
// What a stream works on, and when, as spans of a Trace: beside the communicator's spans they show what
// overlaps.
//
// On a host stream the clock is read when the stream's work gets there. On a CUDA stream events are recorded,
// and read when the device has passed them; the host waits for nothing. A span ends where the next begins.
// Spans that the device has not passed when the StreamTrace goes are lost: synchronize before. One thread
// uses a StreamTrace.
//
//   StreamTrace compute_trace(trace, compute.device(), "compute");
//   compute_trace.begin(compute, "forward");   model.forward(batch);
//   compute_trace.begin(compute, "backward");  model.backward(...);
//   compute_trace.end(compute);
//
// WRONG: two traces on one track at once: spans of a track must not overlap.

#include <memory>
#include <string>

#include "weft/core/stream.hpp"
#include "weft/core/trace.hpp"

namespace weft {

class StreamTrace {
 public:
  /// Records nothing.
  StreamTrace() = default;
  /// @param trace may be null: then nothing is recorded either
  StreamTrace(std::shared_ptr<Trace> trace, Device device, std::string track);

  /// Ends the span before, if one is open, and begins the next, in the order of `stream`.
  void begin(Stream stream, std::string name);
  void end(Stream stream);

 private:
  class State;
  class OnHost;
  class OnDevice;
  std::shared_ptr<State> state_;
};

}  // namespace weft
