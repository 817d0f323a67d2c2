#pragma once
// A call that may wait for other ranks for ever, on a thread of its own, so that its caller can stop waiting.
//
//   SeparateCall call(enter, [api, made] { return api->CommInitRankConfig(made.get(), ...); });
//   if (!call.wait_for(1s)) ...                     // not yet
//
// WRONG: a call that refers to its caller's variables: it may outlive them. It owns what it reads and writes.

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "collectives/nccl/api.hpp"

namespace weft::detail::nccl {

class SeparateCall {
 public:
  /// @param enter is called first on the new thread; may be empty
  SeparateCall(const std::function<void()>& enter, std::function<Result()> call);
  /// Leaves a call that has not returned, and its thread, behind.
  ~SeparateCall();
  SeparateCall(const SeparateCall&) = delete;
  SeparateCall& operator=(const SeparateCall&) = delete;

  /// Whether it has returned by then.
  bool wait_for(std::chrono::nanoseconds at_most);
  /// What a call that is over answered. @throws the exception of the call or of `enter`
  Result result() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace weft::detail::nccl
