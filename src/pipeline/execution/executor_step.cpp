// A step: the entries of this device's row, one after the other. After each entry the message queues are
// polled, so that messages move without a thread of their own.

#include <algorithm>

#include "pipeline/execution/executor_state.hpp"
#include "pipeline/execution/message_queues.hpp"
#include "pipeline/execution/progress_table.hpp"
#include "weft/core/error.hpp"

namespace weft::pipeline {
namespace {

/// Whether the entry takes time on the compute stream.
bool takes_time(const Action& action) {
  return action.awaits || is_compute(action.type) || action.type == ActionType::recompute;
}

Nanoseconds now() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

}  // namespace

void StageExecutor::State::step(const Stream& on) {
  if (broken_) throw Error(*broken_);
  compute_ = on;
  progress_->begin(++steps_);
  const auto begin = Clock::now();
  step_time_.start(compute_);
  try {
    // Messages need a thread of their own if the computing thread polls no queue, or if this one may leave
    // the step before they are needed or block on a rank that needs one.
    const auto blocks = [](const Stage* stage) { return stage->waits_for_others(); };
    if (!compute_.is_inline() || std::ranges::any_of(stages_, blocks)) queues_->run_on_thread();
    run_row();
  } catch (const Error& error) {
    give_up(step_error(error));
  } catch (const std::exception& error) {
    // Other devices get its text; this one throws the exception itself.
    give_up(step_error(Error(ErrorKind::peer_lost, message_of(error))));
    throw;
  } catch (...) {
    give_up(step_error(Error(ErrorKind::peer_lost, "a stage threw something that is not a std::exception")));
    throw;
  }
  if (broken_) throw Error(*broken_);
  step_time_.stop(compute_);
  count_step(begin);
}

// A stream that is not inline may have passed only a part of the step; the rest is added after the next one.
void StageExecutor::State::count_step(Clock::time_point begin) {
  counters_->pipeline_steps.add();
  counters_->pipeline.add(stepped_.of(step_time_.seconds()));
  counters_->pipeline_waits.add(waited_.of(wait_time_.seconds()));
  counters_->step_finished(this, begin);
}

void StageExecutor::State::run_row() {
  const std::vector<Action>& row = schedule.rows[static_cast<std::size_t>(comm.rank())];
  if (options.keep_times) {
    execution.begins.resize(row.size());
    execution.ends.resize(row.size());
  }
  const auto begin = Clock::now();
  unposted_.clear();
  for (entry_ = 0; entry_ < row.size(); ++entry_) {
    progress_->set(entry_);
    if (options.trace && takes_time(row[entry_])) trace_.begin(compute_, text(row[entry_]));
    if (options.keep_times) execution.begins[entry_] = now();
    execute(row[entry_]);
    if (options.trace && takes_time(row[entry_])) trace_.end(compute_);
    free_slots_after(entry_);
    if (options.keep_times) execution.ends[entry_] = now();
    queues_->poll();
  }
  if (compute_.is_inline()) finish_computing();
  progress_->clear();
  if (prediction_) trace_prediction(begin);
}

void StageExecutor::State::trace_prediction(Clock::time_point begin) {
  const auto device = static_cast<std::size_t>(comm.rank());
  for (std::size_t i = 0; i < schedule.rows[device].size(); ++i) {
    const Action& action = schedule.rows[device][i];
    const auto at = [begin](Nanoseconds time) { return begin + std::chrono::nanoseconds(time); };
    if (!action.awaits && takes_time(action))
      options.trace->span("predicted", text(action), at(prediction_->begins[device][i]),
                          at(prediction_->ends[device][i]));
  }
}

void StageExecutor::State::execute(const Action& action) {
  if (is_compute(action.type) || action.type == ActionType::recompute) return compute(action);
  if (detail::is_transfer(action.type)) return transfer(action);
  side(action);
}

MicrobatchValues StageExecutor::State::values(const Action& action) {
  const MicrobatchSlots& slots = of(action);
  return {.microbatch = action.microbatch,
          .recomputed = slots.recomputed,
          .input = view(slots.values.input, action.stage, slots.input_count)};
}

void StageExecutor::State::compute(const Action& action) {
  if (action.type == ActionType::forward) return forward(action);
  const MicrobatchSlots& slots = of(action);
  MicrobatchValues of_this = values(action);
  if (action.type == ActionType::recompute) return stage(action).recompute(of_this, compute_);
  of_this.output_gradient = view(slots.values.output_gradient, action.stage + 1, slots.output_count);
  if (action.type == ActionType::backward_weight) return stage(action).backward_weight(of_this, compute_);
  of_this.input_gradient = view(slots.values.input_gradient, action.stage, slots.input_count);
  if (action.type == ActionType::backward_input) return stage(action).backward_input(of_this, compute_);
  stage(action).backward(of_this, compute_);
}

void StageExecutor::State::forward(const Action& action) {
  MicrobatchSlots& slots = of(action);
  MicrobatchValues of_this = values(action);
  const std::int64_t most = boundaries_[static_cast<std::size_t>(action.stage) + 1].count;
  slots.output_count = stage(action).output_count(action.microbatch, slots.input_count);
  if (slots.output_count > most || (slots.output_count != most && !options.sizes_travel) ||
      (slots.output_count < 1 && most > 0)) {
    throw Error(ErrorKind::usage,
                text("stage ", action.stage, " gives ", slots.output_count, " elements of microbatch ",
                     action.microbatch, " where its boundary has ", most),
                options.sizes_travel ? "output().count is that of the largest microbatch"
                                     : "where microbatches differ, set ExecutorOptions::sizes_travel");
  }
  of_this.output = view(slots.values.output, action.stage + 1, slots.output_count);
  stage(action).forward(of_this, compute_);
  if (most > 0 && is_here(action.stage + 1))
    of(action.stage + 1, action.microbatch).input_count = slots.output_count;
}

void StageExecutor::State::transfer(const Action& action) {
  if (action.type == ActionType::send_forward || action.type == ActionType::send_backward)
    return send(action);
  if (!action.awaits) {
    unposted_.push_back(&action);
    if (comm.device().is_host()) post_receives(action);
    return;
  }
  post_receives(action);
  MicrobatchSlots& slots = of(action);
  const bool forwards = action.type == ActionType::receive_forward;
  const detail::Message& message = *(forwards ? slots.received_input : slots.received_gradient);
  await(message);
  if (forwards) {
    slots.input_count = message.count();
  } else if (message.count() != slots.output_count) {
    throw Error(ErrorKind::mismatch,
                text("stage ", action.stage + 1, " sends a gradient of ", message.count(), " elements for ",
                     slots.output_count, " that stage ", action.stage, " has given"),
                "a stage's input gradient has as many elements as its input");
  }
}

void StageExecutor::State::send(const Action& action) {
  MicrobatchSlots& slots = of(action);
  const bool forwards = action.type == ActionType::send_forward;
  auto& message = forwards ? slots.sent_output : slots.sent_gradient;
  if (action.awaits) return await(*message);
  const View value = forwards ? view(slots.values.output, action.stage + 1, slots.output_count)
                              : view(slots.values.input_gradient, action.stage, slots.input_count);
  const Event computed = compute_.is_inline() ? Event() : compute_.record();
  message = queues_->to(detail::peer_of(schedule, action)).send(value, computed);
}

// On a device a receive is posted where it is awaited, when all that comes before it in the row has been launched. Its kernel waits on the device, and
// the launch of a kernel that is not loaded yet waits until the device is idle: posted ahead, it would keep this device from computing what the
// other one needs to send.
void StageExecutor::State::post_receives(const Action& up_to) {
  const int peer = detail::peer_of(schedule, up_to);
  const auto is_wanted = [&](const Action* one) {
    return one->type == up_to.type && one->stage == up_to.stage && one->microbatch == up_to.microbatch;
  };
  const auto last = std::ranges::find_if(unposted_, is_wanted);
  if (last == unposted_.end()) return;  // posted with a later one
  const auto posted = [&](const Action* one) { return detail::peer_of(schedule, *one) == peer; };
  // In the order of the row, in which the other device sends.
  for (auto one = unposted_.begin(); one <= last; ++one) {
    if (posted(*one)) post_receive(**one);
  }
  unposted_.erase(std::remove_if(unposted_.begin(), last + 1, posted), last + 1);
}

void StageExecutor::State::post_receive(const Action& action) {
  MicrobatchSlots& slots = of(action);
  const bool forwards = action.type == ActionType::receive_forward;
  auto& message = forwards ? slots.received_input : slots.received_gradient;
  const int boundary = forwards ? action.stage : action.stage + 1;
  const int slot = forwards ? slots.values.input : slots.values.output_gradient;
  const View room = view(slot, boundary, boundaries_[static_cast<std::size_t>(boundary)].count);
  message = queues_->from(detail::peer_of(schedule, action)).receive(room, free_since(slot));
}

void StageExecutor::State::side(const Action& action) {
  Stage& of_this = stage(action);
  switch (action.type) {
    case ActionType::unshard:
      return action.awaits ? of_this.await_unshard(compute_) : of_this.unshard(compute_);
    case ActionType::reshard:
      return of_this.reshard(compute_);
    case ActionType::reduce_gradients:
      return action.awaits ? of_this.await_reduce_gradients(compute_) : of_this.reduce_gradients(compute_);
    case ActionType::offload:
      return action.awaits ? of_this.await_offload(action.microbatch, compute_)
                           : of_this.offload(action.microbatch, compute_);
    case ActionType::load:
      return action.awaits ? of_this.await_load(action.microbatch, compute_)
                           : of_this.load(action.microbatch, compute_);
    default:
      throw Error(ErrorKind::internal, text("an entry ", action, " that the executor does not know"));
  }
}

Event StageExecutor::State::free_since(int slot) const {
  return free_since_[static_cast<std::size_t>(slot)];
}

void StageExecutor::State::free_slots_after(std::size_t entry) {
  if (compute_.is_inline() || plan_.freed[entry].empty()) return;
  const Event passed = compute_.record();
  for (const int slot : plan_.freed[entry]) free_since_[static_cast<std::size_t>(slot)] = passed;
}

}  // namespace weft::pipeline
