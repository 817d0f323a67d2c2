#pragma once
// The CUDA stream of a weft stream, and weft streams over CUDA streams of other libraries.
//
// A weft stream of a CUDA device hands its work to one CUDA stream. `Stream::run` calls its function on the
// host when everything before it has been handed over, and kernels that the function launches on
// native_handle() run in the stream's order. adopt_stream() makes a weft stream of one that LibTorch or
// another library made: weft does not destroy that, and its owner keeps it alive as long as any copy of the
// weft stream.
//
//   Stream compute{Device::cuda(0)};
//   compute.run([&] { my_kernel<<<grid, block, 0, native_handle(compute)>>>(data); });
//   wire.wait(compute.record());
//
// Outside run(), launch on native_handle() only after poll() has returned true: then the host's queue is
// empty.
//
// WRONG: launching there while work that waits for a host event is still queued: the launch overtakes it.
//
// CUDA graphs: work of weft on a stream that is being captured is refused. weft numbers, compares and watches
// its operations on the host, and a replayed graph runs on the device alone. A graph may hold what is
// computed between weft's calls:
//
//   cudaGraphLaunch(forward_and_backward, native_handle(compute));
//   for (ParamId p : last_to_first) reducer.mark_ready(p, compute);

#include "weft/core/stream.hpp"

struct CUstream_st;  // cudaStream_t is a pointer to it

namespace weft {

/// @throws Error (usage) for a host stream
CUstream_st* native_handle(const Stream& stream);

/// @param native of `device`; null is CUDA's default stream, which PyTorch's current stream is at first
/// @throws Error (usage) for the host, for a stream of another device, and for cudaStreamPerThread, which is another stream on every thread
Stream adopt_stream(CUstream_st* native, Device device);

}  // namespace weft
