#pragma once
// The state of a StageExecutor: buffers, message queues, and how far the step is. stage_executor.cpp makes
// it, executor_step.cpp executes a row, executor_wait.cpp waits and ends a step in an error.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/diagnosis/counters.hpp"
#include "collectives/diagnosis/used_by_one.hpp"
#include "core/streams/stream_stopwatch.hpp"
#include "pipeline/execution/message_queues.hpp"
#include "pipeline/execution/progress_table.hpp"
#include "pipeline/execution/value_slots.hpp"
#include "weft/core/buffer.hpp"
#include "weft/core/stream_trace.hpp"
#include "weft/pipeline/simulate.hpp"
#include "weft/pipeline/stage_executor.hpp"

namespace weft::pipeline {

class StageExecutor::State {
 public:
  State(Communicator comm, Schedule given, std::vector<Stage*> mine, const ExecutorOptions& chosen);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void step(const Stream& on);
  std::int64_t held_bytes() const { return static_cast<std::int64_t>(arena_.size_bytes()); }
  std::uint64_t wire_bytes() const { return queues_->wire_bytes(); }

  weft::detail::UsedByOne users;
  Communicator comm;
  Schedule schedule;
  ExecutorOptions options;
  Execution execution;

 private:
  using Clock = std::chrono::steady_clock;

  /// One microbatch at one of this device's stages: where its values lie, how large they are, and the
  /// messages that carry them.
  struct MicrobatchSlots {
    detail::StageSlots values;
    std::int64_t input_count = 0;
    std::int64_t output_count = 0;
    bool recomputed = false;
    std::shared_ptr<detail::Message> received_input{};
    std::shared_ptr<detail::Message> received_gradient{};
    std::shared_ptr<detail::Message> sent_output{};
    std::shared_ptr<detail::Message> sent_gradient{};
  };

  void place();
  void count_step(Clock::time_point begin);
  void run_row();
  void trace_prediction(Clock::time_point begin);
  void execute(const Action& action);
  void compute(const Action& action);
  void transfer(const Action& action);
  void send(const Action& action);
  /// Those from the same device that the row names before it, and it.
  void post_receives(const Action& up_to);
  void post_receive(const Action& action);
  void side(const Action& action);
  void forward(const Action& action);
  void free_slots_after(std::size_t entry);
  void await(const detail::Message& message);
  void finish_computing();
  /// Drives messages until `is_so`. @param event that it depends on, null while there is none
  void wait_on_host(const std::function<bool()>& is_so, const std::function<const Event*()>& event);
  void warn_of_wait(Clock::duration waited);
  /// The current entry, or null after the last.
  const Action* here() const;
  std::string place_in_row() const;
  std::string blocked_by() const;
  /// The error that ends the step, as all devices get it.
  Error step_error(const Error& error) const;
  void give_up(const Error& error) noexcept;

  Stage& stage(const Action& action);
  MicrobatchSlots& of(const Action& action) { return of(action.stage, action.microbatch); }
  MicrobatchSlots& of(int stage, int microbatch);
  bool is_here(int stage) const;
  MicrobatchValues values(const Action& action);
  /// The first `count` elements of a value at a boundary; empty if it has no slot.
  View view(int slot, int boundary, std::int64_t count);
  Event free_since(int slot) const;

  std::vector<Stage*> stages_;
  std::vector<int> stage_numbers_;
  std::vector<Boundary> boundaries_;
  detail::ValueSlots plan_;
  Buffer arena_;
  std::vector<Event> free_since_;  // of each slot, if the compute stream is not inline
  std::vector<std::vector<MicrobatchSlots>> microbatches_;  // by own stage and microbatch
  std::optional<detail::MessageQueues> queues_;
  std::optional<detail::ProgressTable> progress_;
  StreamTrace trace_;
  std::optional<Prediction> prediction_;  // for the trace
  Stream compute_;                        // of the current step
  std::shared_ptr<weft::detail::Counters> counters_;
  weft::detail::StreamStopwatch step_time_, wait_time_;  // on the compute stream
  weft::detail::Growth stepped_, waited_;                // seconds
  std::size_t entry_ = 0;
  std::vector<const Action*> unposted_;  // receives that the row has named
  std::uint64_t steps_ = 0;
  std::optional<Error> broken_;
};

}  // namespace weft::pipeline
