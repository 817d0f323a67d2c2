#pragma once
// Who is told what the fake does, as NCCL tells a profiler: each operation when it is enqueued, when its kernel runs, and when that has ended.
//
// An operation that never ends is one that was aborted. Any thread may tell; those of one communicator are enqueued by one thread at a time.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace weft::fake_nccl {

/// NCCL's words: "AllReduce", "ncclFloat32".
struct Enqueued {
  const char* function = "";
  const char* datatype = "";
  std::uint64_t count = 0;
  int root = 0;  ///< or the peer of a message
  bool is_message = false;
};

/// A communicator of one rank. Its destructor: the communicator has ended, and nothing of it is on a stream.
class Observed {
 public:
  virtual ~Observed() = default;
  virtual void* enqueued(const Enqueued& operation) = 0;
  virtual void began(void* operation) = 0;
  virtual void ended(void* operation) = 0;
};

/// Of a communicator with this name, the same on all its ranks.
using Observer = std::function<std::shared_ptr<Observed>(const std::string& name, int ranks, int rank)>;

}  // namespace weft::fake_nccl
