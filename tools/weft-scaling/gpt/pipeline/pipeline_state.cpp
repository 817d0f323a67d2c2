#include "weft-scaling/gpt/pipeline/pipeline_state.hpp"

#include "weft-scaling/gpt/pipeline/gpt_stage.hpp"
#include "weft/pipeline/profile.hpp"

namespace weft::examples {
namespace {

using pipeline::StageExecutor;

/// Nanoseconds that a step waited for other stages.
pipeline::Nanoseconds waited(const StageExecutor& executor) {
  const auto& row = executor.schedule().rows[static_cast<std::size_t>(executor.device())];
  pipeline::Nanoseconds sum = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const pipeline::ActionStream stream = pipeline::stream_of(row[i].type);
    const bool is_transfer =
        stream == pipeline::ActionStream::wire_in || stream == pipeline::ActionStream::wire_out;
    if (row[i].awaits && is_transfer) sum += executor.execution().ends[i] - executor.execution().begins[i];
  }
  return sum;
}

/// A single unit with all parameters zero: its time does not depend on them.
template <class Real>
struct LoneUnit {
  LoneUnit(Math<Real>& math, const GptSizes& sizes, const GptStageOptions& options)
      : table(math), layers(table, sizes), stage(layers, table, sizes, options) {
    const std::vector<std::uint8_t> text(static_cast<std::size_t>(sizes.context) + 1, ' ');
    const std::vector<Sequence> batch(static_cast<std::size_t>(options.sequences), Sequence(text));
    for (int parameter = stage.first_parameter(); parameter < stage.end_parameter(); ++parameter) {
      values.push_back(math.allocate(table.infos()[static_cast<std::size_t>(parameter)].count));
      table.place(parameter, static_cast<Real*>(values.back().view().data()));
    }
    stage.begin_step(batch);
  }

  ParameterTable<Real> table;
  GptLayers<Real> layers;
  GptStage<Real> stage;
  std::vector<Buffer> values;
};

struct UnitCosts {
  std::vector<pipeline::StageCosts> units;  // of one microbatch, with the bytes that it holds
  pipeline::Hop hop;
};

/// What each unit costs on this machine. Every rank measures its part of the units. Collective; the same on
/// every rank.
template <class Real>
UnitCosts measured_units(Communicator comm, Math<Real>& math, const GptSizes& sizes, int sequences,
                         const Stream& compute) {
  std::vector<std::unique_ptr<LoneUnit<Real>>> mine;
  std::vector<pipeline::Stage*> stages(static_cast<std::size_t>(sizes.units()), nullptr);
  std::vector<std::int64_t> held(stages.size(), 0);
  for (int unit = comm.rank(); unit < sizes.units(); unit += comm.size()) {
    const GptStageOptions options{.begin = unit, .end = unit + 1, .sequences = sequences};
    mine.push_back(std::make_unique<LoneUnit<Real>>(math, sizes, options));
    const auto at = static_cast<std::size_t>(unit);
    stages[at] = &mine.back()->stage;
    held[at] = std::max<std::int64_t>(mine.back()->stage.slot_bytes(), 1);
  }
  pipeline::Costs costs = pipeline::measured_costs(comm, stages, compute);
  Stream stream;
  comm.all_reduce(View(std::span(held)), ReduceOp::max, stream).wait();
  // A slot is held until the weight gradients are computed.
  for (std::size_t unit = 0; unit < held.size(); ++unit)
    costs.stages[unit].activation = costs.stages[unit].kept_for_weight = held[unit];
  return {std::move(costs.stages), costs.hops.front()};
}

}  // namespace

template <class Real>
PipelineTrainer<Real>::State::State(Communicator communicator, const ModelSpec& spec, const Text& read,
                                    const PipelineOptions& given)
    : comm(std::move(communicator)),
      text(read),
      options(given),
      sizes(gpt_sizes(spec)),
      task(task_of(spec, comm.size(), given)),
      microbatches(task.microbatches),
      share{comm.rank() % (comm.size() / task.devices), comm.size() / task.devices},
      pipeline(*comm.split(share.rank, comm.rank())),
      data(*comm.split(pipeline.rank(), comm.rank())),
      compute(comm.device()),
      device_math(comm.device().is_host() ? nullptr : make_cuda_math<Real>(compute)),
      math(device_math ? *device_math : host_math<Real>()),
      table(math),
      layers(table, sizes),
      plan(planned()),
      schedule(completed(plan.schedule,
                         {.recompute = given.recompute, .sharded_parameters = given.sharding.stage == 3})),
      units(layers.firsts(), plan.cut, reduced_order(schedule, pipeline.rank())),
      params(data, layout(), sharding()),
      batch(static_cast<std::size_t>(microbatches * given.microbatch)),
      optimizing(spec.optimizer) {
  load_initial();
  options.stepping.whole_model = pipeline;
  optimizer.emplace(params, optimizer_of(optimizing),
                    with_groups(options.stepping, optimizing, params.layout()));
  make_stages();
}

template <class Real>
PipelinePlan PipelineTrainer<Real>::State::planned() {
  if (options.schedule != "auto") return named_plan(options.schedule, task);
  UnitCosts costs = measured_units(comm, math, sizes, options.microbatch, compute);
  task.units = std::move(costs.units);
  task.hop = costs.hop;
  return found_plan(task);
}

template <class Real>
ParamLayout PipelineTrainer<Real>::State::layout() const {
  std::vector<ParameterInfo> infos;
  for (const int parameter : units.parameters)
    infos.push_back(table.infos()[static_cast<std::size_t>(parameter)]);
  return ParamLayout::of(infos, data_type_of<Real>);
}

template <class Real>
zero::ShardedOptions PipelineTrainer<Real>::State::sharding() const {
  zero::ShardedOptions result = options.sharding;
  result.units = units.firsts;
  if (is_sharded()) result.held_units = whole_at_once(schedule, pipeline.rank());
  return result;
}

// The same initial values as without a pipeline. ShardedParams compares those of the replicas.
template <class Real>
void PipelineTrainer<Real>::State::load_initial() {
  for (const int parameter : units.parameters) {
    const std::vector<Real> values =
        initial_values<Real>(table.infos()[static_cast<std::size_t>(parameter)], parameter, options.seed);
    params.load(units.id_of(parameter), ConstView(std::span(values)));
  }
}

template <class Real>
void PipelineTrainer<Real>::State::make_stages() {
  stages.resize(static_cast<std::size_t>(schedule.stages()));
  std::vector<pipeline::Stage*> mine;
  for (const int number : schedule.stages_of(pipeline.rank())) {
    const StageDemand demand = demand_of(schedule, number);
    const GptStageOptions each{.begin = plan.cut[static_cast<std::size_t>(number)],
                               .end = plan.cut[static_cast<std::size_t>(number) + 1],
                               .microbatches = microbatches,
                               .sequences = options.microbatch,
                               .held = demand.microbatches,
                               .splits = demand.splits,
                               .recomputes = options.recompute};
    auto& made = stages[static_cast<std::size_t>(number)];
    made = std::make_unique<ShardedStage<Real>>(layers, table, sizes, each, params, units);
    mine.push_back(made.get());
  }
  pipeline::ExecutorOptions executing{.keep_times = true, .trace = options.trace};
  if (options.trace && options.schedule == "auto") executing.costs = plan.problem;
  executor.emplace(pipeline, schedule, mine, executing);
}

template <class Real>
void PipelineTrainer<Real>::State::step() {
  const RateSchedule rates{optimizing.warmup_steps, options.steps, optimizing.final_fraction};
  optimizer->begin_step(optimizing.learning_rate * learning_rate(steps, rates));
  text.training(options.seed, steps, share.rank * std::ssize(batch), batch);
  for_stages([&](auto& one) { one.begin_step(batch); });
  params.begin_step();
  // If parameters are whole on every rank, the schedule has no gathers: all are present for the step.
  if (!is_sharded()) for_stages([&](auto& one) { one.await_unshard(compute); });
  executor->step(compute);
  if (!is_sharded()) for_stages([&](auto& one) { one.reshard(compute); });
  optimizer->step(compute);
  compute.synchronize();
  waited_for_stages += waited(*executor);
  training_loss = 0;
  for_stages([&](const auto& one) { training_loss += one.loss(); });
  ++steps;
}

// Stage after stage, each for all microbatches: no rank sends to a rank that waits to send to it.
template <class Real>
double PipelineTrainer<Real>::State::held_out_loss() {
  const std::int64_t count = std::int64_t{options.microbatch} * sizes.context * sizes.width;
  const auto make = [&] { return Buffer::on(comm.device(), data_type_of<Real>, microbatches * count); };
  Buffer inputs = make();
  Buffer outputs = make();
  double loss = 0;
  for (int number = 0; number < schedule.stages(); ++number) {
    if (device_of(number) != pipeline.rank()) continue;
    const bool is_first = number == 0;
    const bool is_last = number + 1 == schedule.stages();
    if (!is_first && device_of(number - 1) != pipeline.rank())
      Group(pipeline).receive(inputs.view(), device_of(number - 1)).start(compute).wait();
    stage(number).begin_step(batch);
    stage(number).await_unshard(compute);
    for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
      stage(number).forward({.microbatch = microbatch,
                             .recomputed = true,
                             .input = inputs.view().slice(microbatch * count, is_first ? 0 : count),
                             .output = outputs.view().slice(microbatch * count, is_last ? 0 : count)},
                            compute);
    }
    compute.synchronize();
    stage(number).reshard(compute);
    if (is_last) loss = stage(number).loss();
    if (!is_last && device_of(number + 1) != pipeline.rank())
      Group(pipeline).send(outputs.view(), device_of(number + 1)).start(compute).wait();
    std::swap(inputs, outputs);
  }
  Stream stream;
  pipeline.broadcast(View(std::span(&loss, 1)), schedule.device_of.back(), stream).wait();
  return loss;
}

template <class Real>
std::vector<Real> PipelineTrainer<Real>::State::parameters() {
  std::vector<Real> all;
  Stream stream;
  for (int number = 0; number < schedule.stages(); ++number) {
    const auto first_of = [&](int at) {
      return layers.firsts()[static_cast<std::size_t>(plan.cut[static_cast<std::size_t>(at)])];
    };
    for (int parameter = first_of(number); parameter < first_of(number + 1); ++parameter) {
      Buffer values =
          device_of(number) == pipeline.rank()
              ? params.whole(units.id_of(parameter))
              : Buffer::on_host(data_type_of<Real>, table.infos()[static_cast<std::size_t>(parameter)].count);
      pipeline.broadcast(values.view(), device_of(number), stream).wait();
      const std::span<const Real> here = values.as<Real>();
      all.insert(all.end(), here.begin(), here.end());
    }
  }
  return all;
}

template class PipelineTrainer<float>::State;
template class PipelineTrainer<double>::State;

}  // namespace weft::examples
