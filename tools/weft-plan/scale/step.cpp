#include "weft-plan/scale/step.hpp"

#include <algorithm>
#include <cmath>

#include "weft-plan/scale/collectives.hpp"
#include "weft-plan/scale/kernels.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/schedules.hpp"
#include "weft/pipeline/simulate.hpp"

namespace weft::scale {
namespace {

using pipeline::Nanoseconds;

/// Bytes of a parameter that Adam in mixed precision moves: gradients to f32 (6), unscaled (8), their norm (4)
/// and clipping (8), the update (28), to 16 bits (6), and zeros for the next step (2).
constexpr double optimizer_bytes = 62;

Nanoseconds nanoseconds(double seconds) {
  return std::max<Nanoseconds>(1, std::llround(seconds * 1e9));
}

/// One micro-batch on one stage, in seconds.
struct StageTimes {
  Passes passes{};
  double send_forward = 0, send_backward = 0;  ///< on the compute stream
  double factor = 1;                           ///< of the software

  double forward() const { return factor * (passes.forward.total() + send_forward); }
  double backward_input() const {
    return factor * (passes.recomputation.total() + passes.backward_input.total() + send_backward);
  }
  double backward_weight() const { return factor * passes.backward_weight.total(); }
  double backward() const { return backward_input() + backward_weight(); }
};

class Prediction {
 public:
  Prediction(const Model& model, const Hardware& hardware, const Plan& plan);
  Step run();
  double least();

 private:
  void set_stages();
  double transfer() const;
  void run_pipeline();
  void run_alone();
  void add_parts();
  void add_gradients();
  void add_shards();
  double reduction(double parameters) const;
  double gather(double parameters) const;
  std::vector<Piece> reductions(std::int64_t device) const;
  std::vector<Piece> gathers(std::int64_t device) const;
  std::int64_t layers_of(std::int64_t device) const;
  bool overlaps() const;
  double beside(double exposed_seconds, double all) const;
  double update() const;
  void part(const char* name, double seconds);
  void count_operations();

  const Model& model_;
  const Hardware& hardware_;
  const Plan& plan_;
  const Software& software_;
  Passes layer_;
  std::vector<StageTimes> stages_;
  double makespan_ = 0;
  std::vector<double> last_backward_;  // by stage
  std::vector<double> peaks_;          // by device
  Group shards_;
  Step step_;
};

Prediction::Prediction(const Model& model, const Hardware& hardware, const Plan& plan)
    : model_(model),
      hardware_(hardware),
      plan_(plan),
      software_(software_of(hardware, plan)),
      layer_(layer_passes(model, hardware, plan)),
      shards_(group_of(hardware, {.ranks = plan.data() * plan.context, .stride = plan.tensor})) {}

/// A message to the next stage. Where activations are whole on each tensor-parallel rank, each sends its part,
/// and the receivers gather them within their node (Narayanan et al. 2021, section 4.1).
double Prediction::transfer() const {
  if (plan_.pipeline == 1) return 0;
  const double bytes = element_bytes *
                       static_cast<double>(plan_.micro_batch * model_.sequence / plan_.context) *
                       static_cast<double>(model_.hidden);
  const std::int64_t stride = plan_.gpus / plan_.pipeline;
  const double sent = message(hardware_, stride, bytes / static_cast<double>(plan_.tensor));
  if (plan_.tensor == 1 || plan_.sequence_parallel) return sent;
  return sent + all_gather(hardware_, group_of(hardware_, {.ranks = plan_.tensor, .stride = 1}), bytes);
}

void Prediction::set_stages() {
  const Passes logits = logits_passes(model_, hardware_, plan_);
  const auto factor = hardware_.software.find(software_.name);
  const double send = software_.overlaps_transfers ? 0 : transfer();
  const std::int64_t count = plan_.stages();
  for (std::int64_t s = 0; s < count; ++s) {
    const auto layers = static_cast<double>(layers_of_stage(model_, plan_, s));
    StageTimes times{.factor = factor == hardware_.software.end() ? 1 : factor->second};
    times.passes = {layers * layer_.forward, layers * layer_.backward_input, layers * layer_.backward_weight,
                    layers * layer_.recomputation};
    if (s == count - 1) {
      times.passes.forward += logits.forward;
      times.passes.backward_input += logits.backward_input;
      times.passes.backward_weight += logits.backward_weight;
    }
    if (!software_.fuses_accumulation && plan_.microbatches() > 1) {
      const double elements =
          layers * static_cast<double>(model_.layer_matrices()) / static_cast<double>(plan_.tensor);
      times.passes.backward_weight.memory +=
          memory_seconds(hardware_, elements * 3 * software_.gradient_bytes);
    }
    times.send_forward = s == count - 1 ? 0 : send;
    times.send_backward = s == 0 ? 0 : send;
    stages_.push_back(times);
  }
}

void Prediction::run_alone() {
  const StageTimes& only = stages_.front();
  const auto count = static_cast<double>(plan_.microbatches());
  makespan_ = count * (only.forward() + only.backward());
  last_backward_ = {makespan_};
  peaks_ = {static_cast<double>(model_.layers) * kept_bytes(model_, hardware_, plan_)};
}

void Prediction::run_pipeline() {
  pipeline::Problem problem{.devices = static_cast<int>(plan_.pipeline),
                            .microbatches = static_cast<int>(plan_.microbatches()),
                            .costs = {}};
  const double kept = kept_bytes(model_, hardware_, plan_);
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const StageTimes& one = stages_[s];
    const pipeline::Bytes layers = layers_of_stage(model_, plan_, static_cast<std::int64_t>(s));
    problem.costs.stages.push_back({.forward = nanoseconds(one.forward()),
                                    .backward_input = nanoseconds(one.backward_input()),
                                    .backward_weight = nanoseconds(one.backward_weight()),
                                    .activation = layers,
                                    .kept_for_weight = layers});
  }
  const pipeline::Hop hop{.latency = software_.overlaps_transfers ? std::llround(transfer() * 1e9) : 0};
  problem.costs.hops.assign(stages_.size() - 1, hop);
  const pipeline::Schedule schedule = pipeline::make_named(plan_.schedule, problem);
  if (schedule.device_of != pipeline::looped_placement(problem.devices, problem.chunks()))
    throw Error(ErrorKind::usage,
                text("--schedule ", plan_.schedule, " places its chunks as a V, which is not modelled"),
                "give one whose chunks are placed in a loop, such as interleaved");
  const pipeline::Prediction predicted = simulate(schedule, problem, pipeline::Keep::times);
  makespan_ = static_cast<double>(predicted.makespan) * 1e-9;
  last_backward_.assign(stages_.size(), 0);
  for (std::size_t d = 0; d < schedule.rows.size(); ++d) {
    peaks_.push_back(kept * static_cast<double>(predicted.devices[d].peak_memory));
    for (std::size_t i = 0; i < schedule.rows[d].size(); ++i) {
      const auto stage = static_cast<std::size_t>(schedule.rows[d][i].stage);
      if (pipeline::is_backward(schedule.rows[d][i].type))
        last_backward_[stage] =
            std::max(last_backward_[stage], static_cast<double>(predicted.ends[d][i]) * 1e-9);
    }
  }
}

void Prediction::part(const char* name, double seconds) {
  step_.parts.push_back({name, seconds});
  step_.seconds += seconds;
}

/// The parts of the device that computes longest, and the bubble beside them.
void Prediction::add_parts() {
  double most = -1;
  StageTimes busiest;
  for (std::int64_t d = 0; d < plan_.pipeline; ++d) {
    StageTimes sum;
    sum.factor = stages_.front().factor;
    double seconds = 0;
    for (std::int64_t s = d; s < plan_.stages(); s += plan_.pipeline) {
      const StageTimes& one = stages_[static_cast<std::size_t>(s)];
      sum.passes.forward += one.passes.forward;
      sum.passes.backward_input += one.passes.backward_input;
      sum.passes.backward_weight += one.passes.backward_weight;
      sum.passes.recomputation += one.passes.recomputation;
      sum.send_forward += one.send_forward;
      sum.send_backward += one.send_backward;
      seconds += one.forward() + one.backward();
    }
    if (seconds > most) {
      most = seconds;
      busiest = sum;
    }
  }
  const auto count = static_cast<double>(plan_.microbatches());
  Work work = busiest.passes.forward;
  work += busiest.passes.backward_input;
  work += busiest.passes.backward_weight;
  part("products of matrices", count * work.gemm);
  part("attention", count * work.attention);
  part("kernels that only read and write", count * work.memory);
  part("tensor parallelism", count * work.tensor);
  part("context parallelism", count * work.context);
  part("recomputation", count * busiest.passes.recomputation.total());
  part("sends between stages", count * (busiest.send_forward + busiest.send_backward));
  part("software", count * most * (1 - 1 / busiest.factor));
  part("bubble", makespan_ - count * most);
}

bool Prediction::overlaps() const {
  return software_.gradients == GradientOverlap::always ||
         (software_.gradients == GradientOverlap::without_pipeline && plan_.pipeline == 1);
}

double Prediction::reduction(double parameters) const {
  const double bytes = parameters * software_.gradient_bytes;
  return plan_.zero == 0 ? all_reduce(hardware_, shards_, bytes) : all_gather(hardware_, shards_, bytes);
}

double Prediction::gather(double parameters) const {
  return plan_.zero == 0 ? 0 : all_gather(hardware_, shards_, parameters * element_bytes);
}

std::int64_t Prediction::layers_of(std::int64_t device) const {
  std::int64_t layers = 0;
  for (std::int64_t s = device; s < plan_.stages(); s += plan_.pipeline)
    layers += layers_of_stage(model_, plan_, s);
  return layers;
}

/// The gradients of a device leave layer by layer, with the last backward pass of each.
std::vector<Piece> Prediction::reductions(std::int64_t device) const {
  const auto layers = static_cast<double>(layers_of(device));
  const double each = reduction(parameters_of_device(model_, plan_, device)) / layers;
  std::vector<Piece> pieces;
  for (std::int64_t s = device; s < plan_.stages(); s += plan_.pipeline) {
    const auto index = static_cast<std::size_t>(s);
    const std::int64_t own = layers_of_stage(model_, plan_, s);
    const double apart = stages_[index].backward() / static_cast<double>(own);
    for (std::int64_t layer = own - 1; layer >= 0; --layer)
      pieces.push_back({last_backward_[index] - static_cast<double>(layer) * apart, each});
  }
  std::ranges::sort(pieces, {}, &Piece::when);
  return pieces;
}

/// The parameters of a device are gathered layer by layer, before its first forward passes need them. A chunk
/// comes after as many micro-batches of the chunk before as there are devices.
std::vector<Piece> Prediction::gathers(std::int64_t device) const {
  const double each =
      gather(parameters_of_device(model_, plan_, device)) / static_cast<double>(layers_of(device));
  const auto before = static_cast<double>(std::min(plan_.pipeline, plan_.microbatches()));
  std::vector<Piece> pieces;
  double begin = 0;
  for (std::int64_t s = device; s < plan_.stages(); s += plan_.pipeline) {
    const StageTimes& stage = stages_[static_cast<std::size_t>(s)];
    const std::int64_t own = layers_of_stage(model_, plan_, s);
    for (std::int64_t layer = 0; layer < own; ++layer)
      pieces.push_back(
          {begin + stage.forward() * static_cast<double>(layer) / static_cast<double>(own), each});
    begin += before * stage.forward();
  }
  return pieces;
}

/// What is exposed, and what the rest takes from the computation beside it.
double Prediction::beside(double exposed_seconds, double all) const {
  const double taken = exposed(hardware_, std::max(0.0, all - exposed_seconds), all);
  return exposed_seconds + taken;
}

/// Of the device with the most parameters.
double Prediction::update() const {
  double most = 0;
  for (std::int64_t d = 0; d < plan_.pipeline; ++d)
    most = std::max(most, parameters_of_device(model_, plan_, d));
  const double held = most / static_cast<double>(plan_.zero == 0 ? 1 : shards_.ranks);
  return memory_seconds(hardware_, held * optimizer_bytes);
}

/// Stages 0 and 1: once a step.
void Prediction::add_gradients() {
  double reduce = 0, gathered = 0;
  for (std::int64_t d = 0; d < plan_.pipeline; ++d) {
    const double parameters = parameters_of_device(model_, plan_, d);
    const double r = reduction(parameters), g = gather(parameters);
    reduce = std::max(reduce, overlaps() ? beside(beyond(reductions(d), makespan_), r) : r);
    gathered = std::max(gathered, overlaps() ? beside(delay(gathers(d)), g) : g);
  }
  if (model_.tied && plan_.pipeline > 1) {
    // The embedding and the logits share a matrix, whose gradient the first and the last stage sum.
    const Group ends = group_of(hardware_, {.ranks = 2, .stride = plan_.gpus / plan_.pipeline});
    reduce += all_reduce(hardware_, ends,
                         static_cast<double>(model_.vocabulary * model_.hidden) /
                             static_cast<double>(plan_.tensor) * software_.gradient_bytes);
  }
  part("gradients", reduce);
  part("parameters", gathered);
  part("optimizer", update());
}

/// Stages 2 and 3, of one stage of a pipeline: with every micro-batch.
void Prediction::add_shards() {
  const auto count = static_cast<double>(plan_.microbatches());
  const double all = parameters_of_device(model_, plan_, 0);
  const auto layers = static_cast<double>(model_.layers);
  const double reduce = reduction(all) / layers, gathered = gather(all) / layers;
  const double forward = stages_.front().forward() / layers;
  const double backward = stages_.front().backward() / layers;
  const auto hidden = [&](double communication, double computation) {
    return overlaps() ? exposed(hardware_, communication, computation) : communication;
  };
  if (plan_.zero == 2) {
    part("gradients", count * layers * hidden(reduce, backward));
    part("parameters", layers * hidden(gathered, forward));
  } else {
    part("gradients", count * (layers * hidden(reduce, backward) + (overlaps() ? reduce : 0)));
    // Beside the gradients, which take the same wire.
    part("parameters", count * (layers * (hidden(gathered, forward) + hidden(reduce + gathered, backward) -
                                          hidden(reduce, backward)) +
                                (overlaps() ? gathered : 0)));
  }
  part("optimizer", update());
}

void Prediction::count_operations() {
  const auto sequences = static_cast<double>(plan_.global_batch);
  const auto layers = static_cast<double>(model_.layers);
  const double layer = layers * model_.layer_operations(sequences);
  const double tokens = sequences * static_cast<double>(model_.sequence);
  const double scores = layers * 4 * tokens * static_cast<double>(model_.sequence * model_.hidden);
  step_.model_operations = 3 * (layer + model_.logits_operations(sequences));
  step_.operations = step_.model_operations;
  if (plan_.recompute == Recompute::full) step_.operations += layer;
  if (plan_.recompute == Recompute::selective) step_.operations += scores;
}

double Prediction::least() {
  set_stages();
  const auto count = static_cast<double>(plan_.microbatches());
  double before = 0, longest = 0;  // before: there and back through the stages before a device's first
  for (std::int64_t d = 0; d < plan_.pipeline; ++d) {
    double work = 0;
    for (std::int64_t s = d; s < plan_.stages(); s += plan_.pipeline) {
      const StageTimes& one = stages_[static_cast<std::size_t>(s)];
      work += one.forward() + one.backward();
    }
    longest = std::max(longest, before + count * work);
    const StageTimes& first = stages_[static_cast<std::size_t>(d)];
    before += first.forward() + first.backward_input();
  }
  return longest + update();
}

Step Prediction::run() {
  set_stages();
  plan_.pipeline == 1 ? run_alone() : run_pipeline();
  add_parts();
  plan_.zero >= 2 ? add_shards() : add_gradients();
  count_operations();
  step_.low = step_.seconds / (1 + hardware_.uncertainty);
  step_.high = step_.seconds * (1 + hardware_.uncertainty);
  step_.memory = memory_of(model_, hardware_, plan_, peaks_);
  return std::move(step_);
}

}  // namespace

double least_seconds(const Model& model, const Hardware& hardware, const Plan& plan) {
  return Prediction(model, hardware, plan).least();
}

double beyond(const std::vector<Piece>& ready, double end) {
  double free = 0;
  for (const Piece& piece : ready) free = std::max(free, piece.when) + piece.seconds;
  return std::max(0.0, free - end);
}

double delay(const std::vector<Piece>& needed) {
  double arrived = 0, late = 0;
  for (const Piece& piece : needed) {
    arrived += piece.seconds;
    late = std::max(late, arrived - piece.when);
  }
  return late;
}

Step predict(const Model& model, const Hardware& hardware, const Plan& plan) {
  return Prediction(model, hardware, plan).run();
}

}  // namespace weft::scale
