#pragma once
// Runs a kernel's threads on the host, one after another: each is a fiber, which stops where it waits for others (__syncthreads, a
// shuffle). It tells nothing of speed. What a device leaves undefined is refused, with the thread that did it:
// - a barrier that not all threads of the block come to (CUDA C++ Programming Guide, "Synchronization Functions");
// - a shuffle that not all lanes of its mask come to, or that reads a lane outside it ("Warp Shuffle Functions").
//
// One kernel runs at a time in a process.

#include <cstdint>
#include <functional>
#include <string>

#include "cuda_runtime_api.h"

namespace weft::emulation {

struct Settings {
  std::uint64_t seed = 0;         ///< threads run in an order drawn from it; 0: in their own
  std::uint64_t first_block = 0;  ///< earlier ones are left out: for large grids over sparse memory
};
Settings& settings();

/// @returns what threads did wrong; empty: nothing
std::string run(dim3 blocks, dim3 threads, const std::function<void()>& thread);

/// Where the running thread is; for messages and records.
struct Place {
  std::uint64_t block = 0;
  unsigned thread = 0;
  std::uint64_t epoch = 0;  ///< barriers of the block so far
};
const Place& place();
/// Whether an address is in the stack of a thread.
bool is_local(const void* address);

}  // namespace weft::emulation
