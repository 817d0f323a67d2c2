#pragma once
// A fake NCCL: answers what a test tells it to and writes down what it was asked. It moves no data and knows
// no GPU; it stands in for the library where the logic around the calls is tested: order, errors, deadlines,
// versions.
//
// As NCCL 2.28.9 does, it
// - is blocking where it is asked to be, and not where the environment has NCCL_COMM_BLOCKING=0 (init.cc:1647);
// - then answers CommSplit and CommShrink with success and no child, is in progress for some polls, and stores the child
//   (init.cc:2665, 1612), also one whose making has failed;
// - waits in a call for ranks that do not come, until the abort flag ends it (transport.cc:179, group.cc:441), and in CommInitRank for ever;
// - refuses to revoke what is being finalized (init.cc:2457);
// - refuses, with an invalid argument, whatever is asked of a communicator in progress (init.cc:379), also while a revoke is
//   under way, and keeps that as the communicator's state;
// - keeps the first error of a communicator and fails every later call with it (enqueue.cc:2661, init.cc:385), until it is revoked
//   (init.cc:2441).
//
// NCCL's functions are plain C and carry no state, so one fake is in force at a time: the newest.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "collectives/nccl/api.hpp"

namespace weft::detail::nccl {

class FakeNccl {
 public:
  explicit FakeNccl(int version) : version_(version) { current = this; }
  ~FakeNccl() {
    await_held_calls();  // a thread may have been told to call, and not have come to it
    std::unique_lock lock(mutex_);
    over_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return waiting_ == 0; });
    current = nullptr;
  }
  FakeNccl(const FakeNccl&) = delete;
  FakeNccl& operator=(const FakeNccl&) = delete;

  /// What the next calls of a function answer, in turn; after that, success.
  void answer(const std::string& function, std::deque<Result> results) {
    answers_[function] = std::move(results);
  }
  /// From now on this call waits for ranks that do not come.
  void hold(const std::string& function) { held_.insert(function); }
  /// Until a call of every held function has come, at most 20 s: a caller may give up waiting for its thread before that comes to the call.
  void await_held_calls() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [this] {
      return std::ranges::all_of(held_, [&](const auto& one) { return std::ranges::count(calls, one) > 0; });
    });
  }
  /// `calls`, while one of them may be under way.
  std::vector<std::string> calls_so_far() {
    const std::lock_guard lock(mutex_);
    return calls;
  }
  bool has_waiting_call() {
    const std::lock_guard lock(mutex_);
    return waiting_ > 0;
  }
  /// As if the library were damaged.
  void hide(const std::string& function) { hidden_ = function; }

  std::shared_ptr<const Api> api() {
    return Api::load([this](const char* symbol) { return find(symbol); }, "the fake");
  }

  std::vector<std::string> calls;  ///< without GetVersion and the questions about asynchronous errors
  int polls = 0;
  bool non_blocking = false;  ///< as NCCL_COMM_BLOCKING=0
  int late = 2;               ///< polls for which a child, or a revoke, is in progress
  std::vector<int> aborted;   ///< communicators, by number: 1 is the first, 2 a part, 3 a rest
  Config made_with;           ///< of the last communicator made
  int shrink_flags = -1;
  std::vector<int> left_out;
  std::string last_error = "remote process exited";

 private:
  static inline FakeNccl* current = nullptr;

  Result next(const std::string& function) {
    auto& results = answers_[function];
    if (results.empty()) return success;
    const Result result = results.front();
    results.pop_front();
    return result;
  }
  Result called(const std::string& function) {
    const std::lock_guard lock(mutex_);
    calls.push_back(function);
    return next(function);
  }
  /// Whether it had to wait, and was ended.
  bool held(const std::string& function) {
    std::unique_lock lock(mutex_);
    if (!held_.contains(function)) return false;
    calls.push_back(function);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return over_ || ended_; });
    --waiting_;
    changed_.notify_all();
    return true;
  }
  void finalizes(const Comm* comm) {
    const std::lock_guard lock(mutex_);
    finalized_.insert(number_of(comm));
  }
  bool is_finalized(const Comm* comm) {
    const std::lock_guard lock(mutex_);
    return finalized_.contains(number_of(comm));
  }
  void end_waiting() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  static Comm* made(int number) {
    return reinterpret_cast<Comm*>(static_cast<std::intptr_t>(number));  // NOLINT
  }
  static int number_of(const Comm* comm) {
    return static_cast<int>(reinterpret_cast<std::intptr_t>(comm));  // NOLINT
  }

  /// What a thread of NCCL's is at work on, for one communicator.
  struct Pending {
    int polls = 0;
    Comm** slot = nullptr;
    Comm* child = nullptr;
  };
  /// A call of a communicator that has to be ready.
  Result called_on(const Comm* comm, const std::string& function) {
    if (held(function)) return internal_error;
    Result& kept = states_[number_of(comm)];
    if (pending_.contains(number_of(comm))) kept = invalid_argument;
    const Result result = called(function);
    if (kept == success && result != in_progress) kept = result;
    return kept == success ? result : kept;
  }
  Result begin(const Comm* parent, const std::string& function, Comm** slot, Comm* child) {
    *slot = nullptr;
    const Result result = called_on(parent, function);
    if (result != success && result != in_progress) return result;
    if (non_blocking) {
      pending_[number_of(parent)] = {late, slot, child};
    } else {
      *slot = child;
    }
    return result;
  }
  Result state_of(const Comm* comm) {
    const auto pending = pending_.find(number_of(comm));
    if (pending != pending_.end()) {
      if (pending->second.polls-- > 0) return in_progress;
      if (pending->second.slot != nullptr) *pending->second.slot = pending->second.child;
      pending_.erase(pending);
    }
    Result& kept = states_[number_of(comm)];
    if (kept != success) return kept;
    const Result state = next("async");
    if (state != in_progress) kept = state;
    return state;
  }

  void* find(const std::string& symbol) const;

  template <int since, class Function>
  void* offer(Function* function) const {
    return version_ >= since ? reinterpret_cast<void*>(function) : nullptr;  // NOLINT: what dlsym gives
  }

  int version_;
  std::string hidden_;
  std::map<std::string, std::deque<Result>> answers_;
  std::map<int, Result> states_;  // by communicator
  std::map<int, Pending> pending_;
  std::mutex mutex_;  // of the calls, and of what follows
  std::condition_variable changed_;
  std::set<std::string> held_;
  int waiting_ = 0;
  bool ended_ = false;
  bool over_ = false;
  std::set<int> finalized_;
};

inline void* FakeNccl::find(const std::string& symbol) const {
  if (symbol == "nccl" + hidden_) return nullptr;
  if (symbol == "ncclGetErrorString")
    return offer<0>(
        +[](Result result) -> const char* { return result == remote_error ? "remote error" : "error"; });
  if (symbol == "ncclGetLastError")
    return offer<0>(+[](const Comm*) -> const char* { return current->last_error.c_str(); });
  if (symbol == "ncclGetVersion")
    return offer<0>(+[](int* version) { return *version = current->version_, success; });
  if (symbol == "ncclGetUniqueId") return offer<0>(+[](UniqueId*) { return current->called("GetUniqueId"); });
  if (symbol == "ncclCommInitRankConfig") {
    return offer<0>(+[](Comm** comm, int, UniqueId, int, Config* config) {
      if (current->held("CommInitRankConfig")) return internal_error;
      *comm = made(1);
      current->states_.clear();
      current->pending_.clear();
      current->finalized_.clear();
      current->made_with = *config;
      return current->called("CommInitRankConfig");
    });
  }
  if (symbol == "ncclCommSplit") {
    return offer<0>(+[](Comm* comm, int color, int, Comm** part, Config* config) {
      current->made_with = *config;
      return current->begin(comm, "CommSplit", part, color == no_color ? nullptr : made(2));
    });
  }
  if (symbol == "ncclCommShrink") {
    return offer<22700>(+[](Comm* comm, int* excluded, int count, Comm** rest, Config*, int flags) {
      current->left_out.assign(excluded, excluded + count);
      current->shrink_flags = flags;
      return current->begin(comm, "CommShrink", rest, made(3));
    });
  }
  if (symbol == "ncclCommGetAsyncError") {
    return offer<0>(+[](Comm* comm, Result* state) {
      ++current->polls;
      *state = current->state_of(comm);
      return current->next("CommGetAsyncError");
    });
  }
  if (symbol == "ncclCommFinalize")
    return offer<0>(+[](Comm* comm) {
      current->finalizes(comm);
      return current->called_on(comm, "CommFinalize");
    });
  if (symbol == "ncclCommDestroy") return offer<0>(+[](Comm*) { return current->called("CommDestroy"); });
  if (symbol == "ncclCommAbort")
    return offer<0>(+[](Comm* comm) {
      current->aborted.push_back(number_of(comm));
      current->end_waiting();
      return current->called("CommAbort");
    });
  if (symbol == "ncclCommRevoke")
    return offer<22807>(+[](Comm* comm, int) {
      if (current->is_finalized(comm)) return current->called("CommRevoke"), invalid_argument;
      current->end_waiting();
      // Joins what is under way, which stores its child all the same.
      const auto pending = current->pending_.find(number_of(comm));
      if (pending != current->pending_.end() && pending->second.slot != nullptr)
        *pending->second.slot = pending->second.child;
      current->states_[number_of(comm)] = success;
      current->answers_["async"].clear();
      if (current->non_blocking) current->pending_[number_of(comm)] = {.polls = current->late};
      return current->called("CommRevoke");
    });
  if (symbol == "ncclAllReduce") {
    return offer<0>(+[](const void*, void*, std::size_t, Type, Op, Comm* comm, Stream) {
      return current->called_on(comm, "AllReduce");
    });
  }
  // The rest is there when the version has it; no test calls it.
#define WEFT_NCCL_REST(name, since, parameters) \
  if (symbol == "nccl" #name) return offer<since>(+[]() { return internal_error; });
  WEFT_NCCL_FUNCTIONS(WEFT_NCCL_REST)
#undef WEFT_NCCL_REST
  return nullptr;
}

}  // namespace weft::detail::nccl
