#pragma once
// CUDA's own streams beside weft's.
//
// A weft stream of a CUDA device hands its work to one CUDA stream. `Stream::run` calls its function on the
// host when everything before it has been handed over, and what the function launches on native_handle() runs
// in the stream's order. A stream that LibTorch or another library made is adopted: weft then never destroys
// it, and its owner keeps it alive as long as any copy of the weft stream.
//
//   Stream compute{Device::cuda(0)};
//   compute.run([&] { my_kernel<<<grid, block, 0, native_handle(compute)>>>(data); });
//   wire.wait(compute.record());
//
// Launching on native_handle() outside run() is as good once poll() says that nothing is left in the host's
// queue.
//
// WRONG: launching there while work that waits for a host event is still queued: the launch overtakes it.

#include "weft/core/stream.hpp"

struct CUstream_st;  // cudaStream_t is a pointer to it

namespace weft {

/// @throws Error (usage) for a host stream
CUstream_st* native_handle(const Stream& stream);

/// @param native of `device`. @throws Error (usage) for the host
Stream adopt_stream(CUstream_st* native, Device device);

}  // namespace weft
