#pragma once
// MPI as weft uses it: initialised once, called by one thread at a time, finalized when the process ends.
//
// Every MPI call of weft is made while holding enter(), so MPI_THREAD_SERIALIZED suffices. A user's own MPI
// is used as it is and never finalized. Where weft initialises MPI, a SIGPIPE that would end the process is ignored from then on.
//
// MPI_Finalize waits for the other ranks, which may go on for as long as they like: it is called in exit(), when nothing else is left to do. After
// exit() with another status than 0, or after mark_broken(), it is not: a rank that leaves without it is what makes mpirun end the others.

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "weft/interop/mpi.hpp"

namespace weft::detail {

class MpiRuntime {
 public:
  /// Whether MPI is initialised and not finalized, by weft or by the user.
  static bool initialised();
  /// How long MPI_Init_thread may wait for the other ranks, where weft calls it.
  struct Limits {
    std::string who;  ///< "rank 1 (process 77 on node3)", for the message
    std::chrono::nanoseconds beginning{};
  };
  /// The process's one runtime. MPI_Init_thread knows no deadline: a process that waits longer says so and ends (75).
  /// @throws Error (usage) after MPI_Finalize
  static std::shared_ptr<MpiRuntime> acquire(const Limits& limits);
  /// @throws Error (system) with MPI's own words unless `code` is MPI_SUCCESS
  static void check(int code, const char* call);
  /// Holds memory that MPI may still write to until the process ends.
  static void keep_for_ever(std::shared_ptr<void> memory);

  MpiRuntime(const MpiRuntime&) = delete;
  MpiRuntime& operator=(const MpiRuntime&) = delete;

  /// @throws Error (usage) on another thread than MPI allows, and in a child of the process
  std::unique_lock<std::mutex> enter();
  /// What enter() locks, and what it expects before.
  std::mutex& mutex() { return mutex_; }
  void expect_caller() const;
  /// Whether MPI may be called from any thread, one at a time.
  bool any_thread() const { return any_thread_; }
  /// False when communicators can no longer be freed: MPI is finalized or a rank was lost.
  bool usable() const;
  void mark_broken() noexcept { broken_ = true; }
  /// For messages: "Open MPI v4.1.4".
  static std::string library();

 private:
  explicit MpiRuntime(Limits limits);
  void finalize(int status) noexcept;

  const Limits limits_;
  bool ours_ = false;
  bool any_thread_ = false;
  std::atomic<bool> broken_ = false;
  std::mutex mutex_;
};

}  // namespace weft::detail
