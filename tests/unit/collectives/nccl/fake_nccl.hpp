#pragma once
// A fake NCCL: answers what a test tells it to and writes down what it was asked. It moves no data and knows
// no GPU; it stands in for the library where the logic around the calls is tested: order, errors, deadlines,
// versions.
//
// NCCL's functions are plain C and carry no state, so one fake is in force at a time: the newest.

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "collectives/nccl/api.hpp"

namespace weft::detail::nccl {

class FakeNccl {
 public:
  explicit FakeNccl(int version) : version_(version) { current = this; }
  ~FakeNccl() { current = nullptr; }
  FakeNccl(const FakeNccl&) = delete;
  FakeNccl& operator=(const FakeNccl&) = delete;

  /// What the next calls of a function answer, in turn; after that, success.
  void answer(const std::string& function, std::deque<Result> results) {
    answers_[function] = std::move(results);
  }
  /// As if the library were damaged.
  void hide(const std::string& function) { hidden_ = function; }

  std::shared_ptr<const Api> api() {
    return Api::load([this](const char* symbol) { return find(symbol); }, "the fake");
  }

  std::vector<std::string> calls;  ///< without GetVersion and the questions about asynchronous errors
  int polls = 0;
  Config made_with;  ///< of the last communicator made
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
    calls.push_back(function);
    return next(function);
  }
  static Comm* made(int number) {
    return reinterpret_cast<Comm*>(static_cast<std::intptr_t>(number));
  }  // NOLINT

  void* find(const std::string& symbol) const;

  template <int since, class Function>
  void* offer(Function* function) const {
    return version_ >= since ? reinterpret_cast<void*>(function) : nullptr;  // NOLINT: what dlsym gives
  }

  int version_;
  std::string hidden_;
  std::map<std::string, std::deque<Result>> answers_;
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
      *comm = made(1);
      current->made_with = *config;
      return current->called("CommInitRankConfig");
    });
  }
  if (symbol == "ncclCommSplit") {
    return offer<0>(+[](Comm*, int color, int, Comm** part, Config* config) {
      *part = color == no_color ? nullptr : made(2);
      current->made_with = *config;
      return current->called("CommSplit");
    });
  }
  if (symbol == "ncclCommShrink") {
    return offer<22700>(+[](Comm*, int* excluded, int count, Comm** rest, Config*, int flags) {
      *rest = made(3);
      current->left_out.assign(excluded, excluded + count);
      current->shrink_flags = flags;
      return current->called("CommShrink");
    });
  }
  if (symbol == "ncclCommGetAsyncError") {
    return offer<0>(+[](Comm*, Result* state) {
      ++current->polls;
      *state = current->next("async");
      return current->next("CommGetAsyncError");
    });
  }
  if (symbol == "ncclCommFinalize") return offer<0>(+[](Comm*) { return current->called("CommFinalize"); });
  if (symbol == "ncclCommDestroy") return offer<0>(+[](Comm*) { return current->called("CommDestroy"); });
  if (symbol == "ncclCommAbort") return offer<0>(+[](Comm*) { return current->called("CommAbort"); });
  if (symbol == "ncclCommRevoke")
    return offer<22807>(+[](Comm*, int) { return current->called("CommRevoke"); });
  if (symbol == "ncclAllReduce") {
    return offer<0>(+[](const void*, void*, std::size_t, Type, Op, Comm*, Stream) {
      return current->called("AllReduce");
    });
  }
  // The rest is there when the version has it; no test calls it.
  static const std::map<std::string, int> others{{"ncclMemAlloc", 21900},
                                                 {"ncclMemFree", 21900},
                                                 {"ncclCommRegister", 21900},
                                                 {"ncclCommDeregister", 21900},
                                                 {"ncclCommWindowRegister", 22700},
                                                 {"ncclCommWindowDeregister", 22700},
                                                 {"ncclReduceScatter", 0},
                                                 {"ncclAllGather", 0},
                                                 {"ncclBroadcast", 0},
                                                 {"ncclReduce", 0},
                                                 {"ncclSend", 0},
                                                 {"ncclRecv", 0},
                                                 {"ncclGroupStart", 0},
                                                 {"ncclGroupEnd", 0}};
  const auto other = others.find(symbol);
  if (other == others.end() || version_ < other->second) return nullptr;
  return offer<0>(+[]() { return internal_error; });
}

}  // namespace weft::detail::nccl
