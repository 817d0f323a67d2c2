// How a step waits, for a message or for its own stream, and how it ends in an error on all devices. A wait
// polls the message queues, backs off in between, warns after `slow_after` with the device it is blocked by,
// and ends at the communicator's timeout.

#include <algorithm>

#include "pipeline/execution/executor_state.hpp"
#include "pipeline/execution/message_queues.hpp"
#include "pipeline/execution/progress_table.hpp"
#include "weft/core/backoff.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"

namespace weft::pipeline {
namespace {

/// The start of the error that all devices get when one of them ends the step.
constexpr std::string_view stopped = "the pipeline stopped: ";

}  // namespace

void StageExecutor::State::await(const detail::Message& message) {
  // An inline stream works at the call, so the message must be done by then. Any other stream only needs the
  // message's event, which exists once its size is known.
  wait_time_.start(compute_);
  const bool must_be_through = compute_.is_inline();
  if (must_be_through || message.event() == nullptr) {
    wait_on_host([&] { return must_be_through ? message.done() : message.event() != nullptr; },
                 [&] { return message.event(); });
  }
  if (!must_be_through) compute_.wait(*message.event());
  wait_time_.stop(compute_);
}

// A stage may have left something to its stream that needs other devices, and they may need messages that are
// still in the queues.
void StageExecutor::State::finish_computing() {
  const Event last = compute_.record();
  wait_on_host([&] { return last.done(); }, [&] { return &last; });
  last.wait();  // for its error
}

void StageExecutor::State::wait_on_host(const std::function<bool()>& is_so,
                                        const std::function<const Event*()>& event) {
  const auto begin = Clock::now();
  bool warned = false;
  Backoff backoff;
  while (!is_so()) {
    queues_->poll();
    // Another queue may have to move before this one can, so no pause is long.
    backoff.pause([&](std::chrono::microseconds at_most) {
      const auto shortly = std::min(at_most, std::chrono::microseconds(200));
      if (const Event* awaited = event()) return awaited->rest(shortly);
      Backoff::sleep(shortly);
    });
    const auto waited = Clock::now() - begin;
    if (!warned && waited > options.slow_after) {
      warn_of_wait(waited);
      warned = true;
    }
    if (waited > comm.timeout()) {
      throw Error(ErrorKind::timeout, text("waited ", std::chrono::duration<double>(waited).count(), " s"),
                  "see what that device does; WEFT_TIMEOUT sets how long to wait");
    }
  }
}

void StageExecutor::State::warn_of_wait(Clock::duration waited) {
  log::warn(text("device ", comm.rank(), " of the pipeline has waited ",
                 std::chrono::duration<double>(waited).count(), " s at ", place_in_row(), ": ",
                 blocked_by()));
}

const Action* StageExecutor::State::here() const {
  const std::vector<Action>& row = schedule.rows[static_cast<std::size_t>(comm.rank())];
  return entry_ < row.size() ? &row[entry_] : nullptr;
}

std::string StageExecutor::State::place_in_row() const {
  return here() != nullptr ? detail::described(*here()) : "the end of its row";
}

std::string StageExecutor::State::blocked_by() const {
  if (here() != nullptr && detail::is_transfer(here()->type)) return progress_->blocked_by(*here());
  return "what its stages have given to the compute stream is not through";
}

Error StageExecutor::State::step_error(const Error& error) const {
  const ErrorContext context{comm.rank(), "pipeline step", steps_};
  if (const auto at = error.problem().find(stopped); at != std::string::npos)
    return {error.kind() == ErrorKind::usage ? error.kind() : ErrorKind::peer_lost,
            error.problem().substr(at), error.advice(), context};
  std::string problem = text(stopped, "device ", comm.rank(), " at ", place_in_row(), ": ");
  const bool is_between_devices = here() != nullptr && detail::is_transfer(here()->type);
  const bool waited = is_between_devices || here() == nullptr;
  if (waited && (error.kind() == ErrorKind::timeout || error.kind() == ErrorKind::peer_lost))
    problem += blocked_by() + "; ";
  // The error of a queue names ranks of its own communicator, which has two.
  if (is_between_devices && error.kind() == ErrorKind::peer_lost)
    problem += text("with device ", detail::peer_of(schedule, *here()), " alone: ");
  return {error.kind(), problem + error.problem(), error.advice(), context};
}

void StageExecutor::State::give_up(const Error& error) noexcept {
  broken_ = error;
  queues_->give_up(error);
  comm.give_up(error);
}

}  // namespace weft::pipeline
