#pragma once
// The two kinds of host stream: inline, whose work runs in the threads that submit, poll or wait, and queued,
// which has a thread of its own.

#include <memory>
#include <thread>

#include "core/streams/stream_state.hpp"

namespace weft::detail {

/// Runs its tasks in the threads that submit, poll or wait.
class InlineStream : public StreamState {
 public:
  ~InlineStream() override { finish(); }

  void close() noexcept override { finish(); }
  void progress() override;
  void rest(std::chrono::microseconds at_most) override;
  bool is_inline() const override { return true; }
  bool runs_in_this_thread() override;

 protected:
  /// Runs or drops what is left. False, and nothing done, when the caller is a task of this stream: the
  /// thread that runs the queue finishes it afterwards.
  bool finish() noexcept;

 private:
  void appended() override { progress(); }
  /// True when it ended because of them.
  bool run_until_calls_are_due();
  void drop_unless_running() noexcept;

  std::thread::id runner_{};  // the thread that runs the queue now
};

/// New streams, as pointers for handles to share.
std::shared_ptr<StreamState> make_inline_stream();
std::shared_ptr<StreamState> make_queued_stream();

}  // namespace weft::detail
