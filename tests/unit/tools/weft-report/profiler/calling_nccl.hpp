#pragma once
// What NCCL does with a profiler, of seven releases: it finds the library by its name, asks for the highest interface that it knows, begins a context for
// each communicator, and tells it of operations, kernel channels and proxy operations. Each act names the line of NCCL's source that does so.
//
//   CallingNccl nccl(Release::v2_28, "weft");
//   Communicator communicator(nccl, {.name = "DP", .hash = 0x7f8c, .nodes = 2, .ranks = 16, .rank = 3});
//   const Task task = communicator.enqueue({.function = "AllReduce", .count = 1024, .channels = 4});
//   communicator.run(task, 1000, 51000);          // the GPU's clock, nanoseconds

#include <cstdint>
#include <string>
#include <vector>

#include "weft-report/profiler/abi.hpp"

namespace weft::profiler::test {

/// The first release of each interface.
enum class Release { v2_23 = 1, v2_24, v2_26, v2_27, v2_28, v2_29, v2_31 };
inline constexpr Release releases[] = {Release::v2_23, Release::v2_24, Release::v2_26, Release::v2_27,
                                       Release::v2_28, Release::v2_29, Release::v2_31};

class CallingNccl {
 public:
  /// @param name of NCCL_PROFILER_PLUGIN
  CallingNccl(Release release, const std::string& name);
  /// Unloads the library, as NCCL does after the last communicator.
  ~CallingNccl();
  CallingNccl(const CallingNccl&) = delete;
  CallingNccl& operator=(const CallingNccl&) = delete;

  bool loaded() const { return symbol_ != nullptr; }
  Release release() const { return release_; }
  const void* symbol() const { return symbol_; }
  std::string profiler_name() const;
  /// What profilers have logged in this process.
  static std::vector<std::string> log();
  static void clear_log();

 private:
  Release release_;
  void* library_ = nullptr;
  const void* symbol_ = nullptr;
};

struct Place {
  const char* name = nullptr;
  std::uint64_t hash = 0;
  int nodes = 1;
  int ranks = 1;
  int rank = 0;
};

struct Call {
  const char* function = "AllReduce";
  const char* datatype = "ncclFloat32";
  std::uint64_t count = 1024;
  int root = 0;
  int channels = 2;
  bool p2p = false;
};

struct Task {
  void* handle = nullptr;
  int channels = 0;
};

class Communicator {
 public:
  Communicator(const CallingNccl& nccl, const Place& about);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int mask() const { return mask_; }
  void* context() const { return context_; }
  /// Its event starts and stops: it is enqueued.
  Task enqueue(const Call& call);
  /// Its channels run, or, in releases without them, its proxy operations. @param pid of the process whose proxy it is; 0: this one
  void run(const Task& task, std::uint64_t from, std::uint64_t until, int pid = 0);
  /// Kinds of events and states that the profiler did not ask for, or does not know, with handles that are none of its own.
  void strange_events(const Task& task);
  /// One part begins. @param pid as above
  void* begin_part(const Task& task, int channel, std::uint64_t from, int pid = 0);
  void end_part(void* part, std::uint64_t until);

 private:
  void* start(std::uint64_t type, void* parent, const Call& call, int channel, std::uint64_t timer, int pid);
  void stop(void* handle);
  void record(void* handle, int state, std::uint64_t timer);

  const CallingNccl& nccl_;
  Place about_;
  void* context_ = nullptr;
  int mask_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace weft::profiler::test
