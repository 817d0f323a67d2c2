#pragma once
// An operation as its stream sees it: the backend's task, with context on its errors, how far it is in the log, a span in the trace, and
// on a device its turn.

#include <memory>
#include <optional>

#include "collectives/communicator/communicator_state.hpp"
#include "collectives/communicator/operations_under_way.hpp"
#include "core/streams/stream_state.hpp"

namespace weft::detail {

class IssuedTask final : public Task {
 public:
  IssuedTask(std::shared_ptr<CommunicatorState> state, std::unique_ptr<Task> task, const Issued& issued)
      : state_(std::move(state)), task_(std::move(task)), issued_(issued) {}
  ~IssuedTask() override {
    if (!state_->is_here()) keep_for_ever(std::move(task_));  // the parent's peers and libraries know of it
  }
  /// It waits until the operation before it was handed over.
  void take_turn(DeviceOrder& order, const Stream& stream) {
    turn_ = make_recycled<DeviceOrder::Turn>(StreamAccess::state(stream)->weak_from_this(), issued_.label,
                                             issued_.number);
    before_ = order.take(turn_);
  }

  bool advance() override {
    if (!is_its_turn()) return false;
    state_->expect_intact();
    if (!begin_) begin();
    try {
      if (!task_->advance()) {
        wait();
        return false;
      }
    } catch (const Error& error) {
      state_->log().ended(issued_.place, OperationLog::State::failed);
      state_->fail(state_->explained(error, issued_, *begin_));
      state_->expect_intact();  // throws that, or what broke the communicator before
    }
    if (!issued_.on_device) state_->log().ended(issued_.place, OperationLog::State::done);
    if (has_told_) state_->came_after_all(issued_);
    state_->record_span(issued_);
    return true;
  }
  void rest(std::chrono::microseconds at_most) override {
    task_->rest(at_most);
    polls_ = 0;
  }
  /// The others wait for this operation in vain, and hear why.
  void dropped(const std::exception_ptr& why) noexcept override {
    try {
      std::rethrow_exception(why);
    } catch (const Error& error) {
      state_->fail(error);
    } catch (const std::exception& error) {
      state_->fail(
          state_->in_context(Error(ErrorKind::system, message_of(error)), issued_.label, issued_.number));
    } catch (...) {
      state_->fail(state_->in_context(Error(ErrorKind::system, "an exception ended its stream"),
                                      issued_.label, issued_.number));
    }
  }

 private:
  bool is_its_turn() {
    if (const auto before = before_.lock()) {
      if (const auto stream = before->stream.lock()) stream->progress();
    }
    const auto before = before_.lock();
    if (before) check_wait_for(*before);
    return !before;
  }
  /// @throws Error (timeout): its stream waits for an event of the host, which has no deadline of its own
  void check_wait_for(const DeviceOrder::Turn& before) {
    const auto now = Trace::Clock::now();
    if (!waits_since_) waits_since_ = now;
    if (now - *waits_since_ < issued_.timeout) return;
    const double waited = std::chrono::duration<double>(now - *waits_since_).count();
    const Error error(ErrorKind::timeout,
                      text("waited ", waited, " s for ", before.label, " #", before.number,
                           ", which was issued before it and has not been handed to the device"),
                      "its stream waits for an event of the host that does not happen");
    state_->fail(state_->in_context(error, issued_.label, issued_.number));
    state_->expect_intact();  // throws it
  }

  // A look at the clock costs as much as a look at the peers: most attempts go without.
  void wait() {
    constexpr int attempts_a_look = 64;
    if (polls_++ % attempts_a_look != 0) return;
    if (!issued_.on_device) state_->under_way().progress();
    if (state_->watchdog() != nullptr) state_->watchdog()->look(issued_.watched, *begin_);
    if (!has_told_ && Trace::Clock::now() - *begin_ > state_->slow_after())
      has_told_ = state_->tell_late(issued_, *begin_);
  }
  void begin() {
    begin_ = Trace::Clock::now();
    state_->log().begun(issued_.place);
    if (!issued_.span) issued_.span = state_->begin_span(issued_);
  }

  std::shared_ptr<CommunicatorState> state_;
  std::unique_ptr<Task> task_;
  Issued issued_;
  std::shared_ptr<DeviceOrder::Turn> turn_;  // ends with this task
  std::weak_ptr<DeviceOrder::Turn> before_;
  std::optional<Trace::Clock::time_point> waits_since_;  // for that
  std::optional<Trace::Clock::time_point> begin_;
  int polls_ = 0;
  bool has_told_ = false;
};

}  // namespace weft::detail
