// Measures what a Problem needs. All ranks time their own stages at once, so that they compete for memory and
// cores as they will in training; medians of repeated runs, then the maximum over ranks. A hop is half a
// round trip between two neighbours, of 8 bytes (latency) and of the boundary (the rest is occupancy).

#include "weft/pipeline/profile.hpp"

#include <algorithm>
#include <chrono>

#include "weft/core/error.hpp"

namespace weft::pipeline {
namespace {

/// The times of one function, run again and again.
class Times {
 public:
  explicit Times(const MeasureOptions& options) {
    if (options.repetitions < 1)
      throw Error(ErrorKind::usage, text("costs of ", options.repetitions, " repetitions"), "give 1 or more");
    times_.resize(static_cast<std::size_t>(options.repetitions) + 1);
  }
  int runs() const { return static_cast<int>(times_.size()); }

  /// @param function ends when its work is done
  template <class Function>
  void add(Function function) {
    const auto begin = std::chrono::steady_clock::now();
    function();
    times_[next_++] = (std::chrono::steady_clock::now() - begin) / std::chrono::nanoseconds(1);
  }
  /// The median of all runs but the first.
  Nanoseconds median() {
    const auto middle = times_.begin() + 1 + (std::ssize(times_) - 1) / 2;
    std::nth_element(times_.begin() + 1, middle, times_.end());
    return *middle;
  }

 private:
  std::vector<Nanoseconds> times_;
  std::size_t next_ = 0;
};

/// Half a round trip between the ranks `first` and `first` + 1; 0 on others.
Nanoseconds measured_message(Communicator comm, View data, int first, const MeasureOptions& options) {
  const int rank = comm.rank();
  if (rank != first && rank != first + 1) return 0;
  Times times(options);
  const Stream stream(data.device());
  const auto send = [&] { Group(comm).send(data, rank == first ? first + 1 : first).start(stream).wait(); };
  const auto receive = [&] {
    Group(comm).receive(data, rank == first ? first + 1 : first).start(stream).wait();
  };
  for (int run = 0; run < times.runs(); ++run) {
    times.add([&] {
      if (rank == first) send();
      receive();
      if (rank != first) send();
    });
  }
  return rank == first ? times.median() / 2 : 0;
}

Nanoseconds slowest_neighbours(Communicator comm, View data, const MeasureOptions& options) {
  Nanoseconds slowest = 0;
  Stream stream;
  for (int first = 0; first + 1 < comm.size(); ++first) {
    comm.barrier(stream).wait();
    slowest = std::max(slowest, measured_message(comm, data, first, options));
  }
  return slowest;
}

/// The maximum over ranks of each number.
void agree(Communicator comm, std::vector<Nanoseconds>& numbers) {
  Stream stream;
  comm.all_reduce(View(std::span(numbers)), ReduceOp::max, stream).wait();
}

}  // namespace

StageCosts measured_stage(Stage& stage, const Stream& compute, const MeasureOptions& options) {
  const auto buffer = [&](const Boundary& of) { return Buffer::on(compute.device(), of.dtype, of.count); };
  Buffer input = buffer(stage.input());
  Buffer input_gradient = buffer(stage.input());
  Buffer output = buffer(stage.output());
  Buffer output_gradient = buffer(stage.output());
  Stream stream = compute;
  const MicrobatchValues forward{.input = input.view(), .output = output.view()};
  const MicrobatchValues backward{.input = input.view(),
                                  .output_gradient = output_gradient.view(),
                                  .input_gradient = input_gradient.view()};
  Times forwards(options);
  Times inputs(options);
  Times weights(options);
  for (int run = 0; run < forwards.runs(); ++run) {
    forwards.add([&] { stage.forward(forward, stream), stream.synchronize(); });
    inputs.add([&] { stage.backward_input(backward, stream), stream.synchronize(); });
    weights.add([&] { stage.backward_weight(backward, stream), stream.synchronize(); });
  }
  const auto least = [](Nanoseconds time) { return std::max<Nanoseconds>(time, 1); };
  return {.forward = least(forwards.median()),
          .backward_input = least(inputs.median()),
          .backward_weight = least(weights.median())};
}

Hop measured_hop(Communicator comm, const Boundary& boundary, const MeasureOptions& options) {
  Buffer small = comm.allocate(DataType::u8, 8);
  Buffer large = comm.allocate(boundary.dtype, boundary.count);
  std::vector<Nanoseconds> times{slowest_neighbours(comm, small.view(), options),
                                 slowest_neighbours(comm, large.view(), options)};
  agree(comm, times);
  return {.latency = times[0], .occupancy = std::max<Nanoseconds>(times[1] - times[0], 0)};
}

Costs measured_costs(Communicator comm, const std::vector<Stage*>& stages, const Stream& compute,
                     const MeasureOptions& options) {
  constexpr std::size_t each = 5;  // three times, and the boundary to the next
  std::vector<Nanoseconds> numbers(stages.size() * each, 0);
  Stream stream;
  comm.barrier(stream).wait();
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    if (stages[stage] == nullptr) continue;
    const StageCosts costs = measured_stage(*stages[stage], compute, options);
    const Boundary boundary = stages[stage]->output();
    const Nanoseconds found[each] = {costs.forward, costs.backward_input, costs.backward_weight,
                                     boundary.count, static_cast<Nanoseconds>(boundary.dtype)};
    std::ranges::copy(found, numbers.begin() + static_cast<std::ptrdiff_t>(stage * each));
  }
  agree(comm, numbers);
  Costs result;
  Boundary measured;
  Hop hop;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const Nanoseconds* found = &numbers[stage * each];
    if (found[0] == 0)
      throw Error(ErrorKind::usage, text("stage ", stage, " of ", stages.size(), " is measured by no rank"));
    result.stages.push_back({.forward = found[0], .backward_input = found[1], .backward_weight = found[2]});
    if (stage + 1 == stages.size()) break;
    const Boundary boundary{static_cast<DataType>(found[4]), found[3]};
    if (stage == 0 || boundary != measured) hop = measured_hop(comm, measured = boundary, options);
    result.hops.push_back(hop);
  }
  return result;
}

}  // namespace weft::pipeline
