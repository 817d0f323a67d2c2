#pragma once
// What a process's communicators do, from NCCL's events: the newest operations of each, and sums of all. Of bounded memory: 1,024 operations of
// 80 bytes a communicator, for at most 4,096 communicators at a time.
//
//   const std::uint64_t communicator = recorder.add({.hash = 0x7f8c, .ranks = 8, .rank = 3});
//   const std::uint64_t operation = recorder.start(communicator, {.kind = Kind::all_reduce, .count = 1024, .type = 7});
//   const std::uint64_t channel = recorder.start_part(operation, gpu_nanoseconds);
//   recorder.stop(operation);                             // enqueued
//   recorder.time_part(channel, gpu_nanoseconds);
//   recorder.stop(channel);                               // the operation ends with its last part
//
// Handles are numbers, not pointers: one that is old, of another process or made up finds nothing, and changes nothing. Any thread may call; an
// event reads the clock once at most.

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace weft::profiler {

enum class Kind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  all_to_all,
  send,
  receive,
  other
};
inline constexpr std::size_t kinds = 9;
/// In weft's words: "all_reduce".
std::string_view name(Kind kind);
/// Of NCCL's word ("AllReduce") or of its number in v1 (ncclFunc_t).
Kind kind_of(const char* word);
Kind kind_of(int number);
/// Index of a type in NCCL's order, ncclDataType_t; of its word ("ncclFloat32"). 1, bytes, for one that is not known.
std::uint8_t type_of(const char* word);
struct Type {
  std::string_view word;  ///< NCCL's
  std::string_view name;  ///< weft's; empty: it has none
  unsigned bytes;
};
/// @param type any number
const Type& type_at(std::uint8_t type);

struct About {
  std::string name{};
  std::uint64_t hash = 0;
  int ranks = 0;  ///< 0: not known
  int rank = -1;  ///< -1: not known yet
  int nodes = 0;
};

/// What an event says of an operation.
struct Description {
  Kind kind = Kind::other;
  std::uint64_t count = 0;
  int root = 0;  ///< or the peer of a send or receive
  std::uint8_t type = 1;
  std::uint8_t parts = 0;  ///< that it will have; 0: not known
};

struct Operation {
  std::uint64_t serial = 0;  ///< among all of its communicator, from 1; 0: none
  std::uint64_t number = 0;  ///< among its collectives, from 1; 0: a send or receive
  std::int64_t issued_ns = 0;
  std::int64_t begun_ns = 0;
  std::int64_t ended_ns = 0;
  std::uint64_t gpu_first = 0;  ///< of the GPU's clock; 0: not told
  std::uint64_t gpu_last = 0;
  std::int64_t counted_ns = 0;  ///< of its time, in the sums already
  std::uint32_t started = 0;    ///< parts
  std::uint32_t stopped = 0;
  Description about{};
  bool enqueued = false;
  bool ended = false;
  std::uint64_t bytes() const { return about.count * type_at(about.type).bytes; }
};

struct Sums {
  std::uint64_t operations = 0;
  std::uint64_t ended = 0;
  std::uint64_t bytes = 0;
  std::int64_t nanoseconds = 0;  ///< of those that ended: by the GPU's clock where it is told
};

/// A communicator as it is now.
struct Snapshot {
  std::uint64_t id = 0;
  About about{};
  std::vector<Operation> operations{};  ///< the newest, oldest first
  std::array<Sums, kinds> sums{};
  std::uint64_t collectives = 0;
};

/// Of the whole process, also of communicators that are gone.
struct Totals {
  std::array<Sums, kinds> sums{};
  std::int64_t busy_ns =
      0;  ///< in which at least one operation was between its first part's start and its last part's end
  std::uint64_t dropped = 0;  ///< events of operations that are no longer kept
};

class Recorder {
 public:
  static constexpr std::size_t most_communicators = 4096;
  static constexpr std::size_t operations_kept = 1024;

  /// @return 0: there are too many; events of it find nothing
  std::uint64_t add(About about);
  void remove(std::uint64_t communicator);
  /// Of interfaces that say it with each operation.
  void learn(std::uint64_t communicator, const char* name, std::uint64_t hash, int rank);

  /// @return 0: nothing is recorded
  std::uint64_t start(std::uint64_t communicator, const Description& description);
  std::uint64_t start_part(std::uint64_t operation, std::uint64_t gpu_nanoseconds = 0);
  void time_part(std::uint64_t part, std::uint64_t gpu_nanoseconds);
  /// Of an operation (it is enqueued) or of a part.
  void stop(std::uint64_t handle);
  /// The operation is over, whatever is known of its parts.
  void end(std::uint64_t operation);

  std::vector<Snapshot> snapshots();
  Totals totals();

 private:
  struct Communicator {
    std::mutex mutex{};
    std::uint64_t id = 0;  // 0: free
    About about{};
    std::vector<Operation> ring{};
    std::uint64_t serial = 0;
    std::uint64_t collectives = 0;
    std::array<Sums, kinds> sums{};
  };

  template <class Change>
  void change(std::uint64_t handle, Change&& how);
  void begin(Operation& operation, std::int64_t now);
  void end_if_over(Communicator& communicator, Operation& operation);
  void finish(Communicator& communicator, Operation& operation);
  void count_busy(int more, std::int64_t now);

  std::array<Communicator, most_communicators> communicators_{};
  std::mutex registry_{};
  std::uint64_t last_id_ = 0;
  std::array<Sums, kinds> gone_{};
  std::mutex busy_mutex_{};
  std::int64_t under_way_ = 0;
  std::int64_t busy_since_ = 0;
  std::int64_t busy_ns_ = 0;
  std::atomic<std::uint64_t> dropped_{0};
};

/// Nanoseconds of the steady clock.
std::int64_t steady_now();

}  // namespace weft::profiler
