// A step: the entries of this device's row, one after the other.

#include <algorithm>

#include "pipeline/execution/executor_state.hpp"
#include "weft/core/error.hpp"

namespace weft::pipeline {
namespace {

/// Of the compute stream's.
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
  ++steps_;
  try {
    // A thread that computes carries no messages on, and this one may be gone before they are needed, or be
    // held up by a rank that needs one.
    const auto blocks = [](const Stage* stage) { return stage->waits_for_others(); };
    if (!compute_.is_inline() || std::ranges::any_of(stages_, blocks)) lanes_->run_beside();
    run_row();
  } catch (const Error& error) {
    give_up(told(error));
  } catch (const std::exception& error) {
    // Others hear what it was; here it stays what it is.
    give_up(told(Error(ErrorKind::peer_lost, error.what())));
    throw;
  } catch (...) {
    give_up(told(Error(ErrorKind::peer_lost, "a stage threw something that is no std::exception")));
    throw;
  }
  if (broken_) throw Error(*broken_);
}

void StageExecutor::State::run_row() {
  const std::vector<Action>& row = schedule.rows[static_cast<std::size_t>(comm.rank())];
  if (options.keep_times) {
    execution.begins.resize(row.size());
    execution.ends.resize(row.size());
  }
  const auto begin = Clock::now();
  for (entry_ = 0; entry_ < row.size(); ++entry_) {
    whereabouts_->at(entry_);
    if (options.trace && takes_time(row[entry_])) trace_.begin(compute_, text(row[entry_]));
    if (options.keep_times) execution.begins[entry_] = now();
    carry_out(row[entry_]);
    if (options.trace && takes_time(row[entry_])) trace_.end(compute_);
    free_slots_after(entry_);
    if (options.keep_times) execution.ends[entry_] = now();
    lanes_->poll();
  }
  if (compute_.is_inline()) finish_computing();
  whereabouts_->nowhere();
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

void StageExecutor::State::carry_out(const Action& action) {
  if (is_compute(action.type) || action.type == ActionType::recompute) return compute(action);
  if (detail::is_transfer(action.type)) return transfer(action);
  side(action);
}

MicrobatchValues StageExecutor::State::values(const Action& action) {
  const Passage& passage = of(action);
  return {.microbatch = action.microbatch,
          .recomputed = passage.recomputed,
          .input = view(passage.slots.input, action.stage, passage.input_count)};
}

void StageExecutor::State::compute(const Action& action) {
  if (action.type == ActionType::forward) return forward(action);
  const Passage& passage = of(action);
  MicrobatchValues of_this = values(action);
  if (action.type == ActionType::recompute) return stage(action).recompute(of_this, compute_);
  of_this.output_gradient = view(passage.slots.output_gradient, action.stage + 1, passage.output_count);
  if (action.type == ActionType::backward_weight) return stage(action).backward_weight(of_this, compute_);
  of_this.input_gradient = view(passage.slots.input_gradient, action.stage, passage.input_count);
  if (action.type == ActionType::backward_input) return stage(action).backward_input(of_this, compute_);
  stage(action).backward(of_this, compute_);
}

void StageExecutor::State::forward(const Action& action) {
  Passage& passage = of(action);
  MicrobatchValues of_this = values(action);
  const std::int64_t most = boundaries_[static_cast<std::size_t>(action.stage) + 1].count;
  passage.output_count = stage(action).output_count(action.microbatch, passage.input_count);
  if (passage.output_count > most || (passage.output_count != most && !options.sizes_travel) ||
      (passage.output_count < 1 && most > 0)) {
    throw Error(ErrorKind::usage,
                text("stage ", action.stage, " gives ", passage.output_count, " elements of microbatch ",
                     action.microbatch, " where its boundary has ", most),
                options.sizes_travel ? "output().count is that of the largest microbatch"
                                     : "where microbatches differ, set ExecutorOptions::sizes_travel");
  }
  of_this.output = view(passage.slots.output, action.stage + 1, passage.output_count);
  stage(action).forward(of_this, compute_);
  if (most > 0 && is_here(action.stage + 1))
    of(action.stage + 1, action.microbatch).input_count = passage.output_count;
}

void StageExecutor::State::transfer(const Action& action) {
  Passage& passage = of(action);
  const int stage = action.stage;
  const bool forwards = action.type == ActionType::send_forward || action.type == ActionType::receive_forward;
  if (action.type == ActionType::send_forward || action.type == ActionType::send_backward) {
    auto& message = forwards ? passage.sent_output : passage.sent_gradient;
    if (action.awaits) return await(*message);
    const View value = forwards ? view(passage.slots.output, stage + 1, passage.output_count)
                                : view(passage.slots.input_gradient, stage, passage.input_count);
    const Event computed = compute_.is_inline() ? Event() : compute_.record();
    message = lanes_->to(detail::peer_of(schedule, action)).send(value, computed);
    return;
  }
  auto& message = forwards ? passage.received_input : passage.received_gradient;
  if (!action.awaits) {
    const int boundary = forwards ? stage : stage + 1;
    const int slot = forwards ? passage.slots.input : passage.slots.output_gradient;
    const View room = view(slot, boundary, boundaries_[static_cast<std::size_t>(boundary)].count);
    message = lanes_->from(detail::peer_of(schedule, action)).receive(room, free_since(slot));
    return;
  }
  await(*message);
  if (forwards) {
    passage.input_count = message->count();
  } else if (message->count() != passage.output_count) {
    throw Error(ErrorKind::mismatch,
                text("stage ", stage + 1, " sends a gradient of ", message->count(), " elements for ",
                     passage.output_count, " that stage ", stage, " has given"),
                "a stage's input gradient has as many elements as its input");
  }
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
      throw Error(ErrorKind::internal, text("an entry ", action, " that nobody carries out"));
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
