#pragma once
// A training without a model: gradients are drawn from step, rank and element, and pull parameters towards
// zero, so that a rank with a wrong parameter soon has many.

#include <cmath>
#include <functional>
#include <limits>
#include <mutex>
#include <vector>

#include "support/draw.hpp"
#include "weft/collectives/communicator.hpp"
#include "weft/zero/sharded_optimizer.hpp"

namespace weft::test {

struct ZeroTraining {
  int ranks = 2;
  int steps = 8;
  DataType dtype = DataType::f32;
  zero::Optimizer optimizer = zero::AdamW{.learning_rate = 1e-2};
  zero::ShardedOptimizerOptions stepping{};
  zero::ShardedOptions sharding{};
  bool queued = false;       ///< gradients and parameters travel on a thread of their own
  bool gather_twice = true;  ///< forward and backward
  bool says_rate = false;    ///< before backward
  bool has_matrices = false;
  /// The numbers of the parameters of a model in parts that this rank trains, rising; default: all.
  std::vector<int> part{};
  /// Backward runs on a compute stream with a thread of its own.
  bool computes_on_thread = false;
  /// Called by every rank after each of its steps, which then is over.
  std::function<void(int step)> after_step{};
  /// Shares of the optimizer's state that move to the host, after each step and in turn; none: it stays.
  std::vector<double> offloads{};
  /// The same for the state in a file; none: as before.
  std::vector<double> file_shares{};
  /// Runs work on gradients in the order of a stream; default: now.
  std::function<void(const Stream&, std::function<void()>)> launch{};
  /// The learning rates of the steps, in turn; none: the optimizer's own.
  std::vector<double> rates{};
  /// Called by every rank before each of its steps.
  std::function<void(int step, zero::ShardedOptimizer& optimizer)> before_step{};
  /// Gradients do not depend on parameters and are multiples of 1/64, so that their sums have no rounding.
  bool coarse = false;
  int micro_steps = 1;
  /// Each step has so many parts, whatever the number of ranks, which divides it: a rank takes its share of them in micro-steps. Gradients
  /// are their mean.
  int parts = 0;
  int first_step = 0;  ///< of a training that goes on from a checkpoint
  /// Called by every rank before its first step and after its last.
  using Visit = std::function<void(const Communicator& comm, zero::ShardedParams& params,
                                   zero::ShardedOptimizer& optimizer, const Stream& compute)>;
  Visit at_start{};
  Visit at_end{};
  /// Steps whose gradients are infinite on one rank, by number; drawn.
  int overflow_once_in = 0;
  std::uint64_t seed = 1;

  struct Result {
    std::vector<float> parameters;  ///< one after the other
    std::vector<double> norms;
    std::vector<int> skipped;  ///< steps
    double loss_scale = 1;
    std::int64_t held_bytes = 0;   ///< of the last rank
    std::int64_t host_bytes = 0;   ///< so, too
    std::int64_t file_bytes = 0;   ///< so, too
    std::uint64_t wire_bytes = 0;  ///< so, too; of all steps
    friend bool operator==(const Result& a, const Result& b) {
      return a.parameters == b.parameters && a.norms == b.norms && a.skipped == b.skipped &&
             a.loss_scale == b.loss_scale;
    }
  };

  static constexpr int parameters = 12;
  static std::int64_t count(int number) { return 1 + 173 * (number % 4) + 40 * number; }
  static ParamLayout layout(DataType dtype) {
    std::vector<ParamSpec> specs;
    for (int i = 0; i < parameters; ++i) specs.push_back({"parameter" + std::to_string(i), count(i)});
    return ParamLayout(dtype, specs);
  }
  ParamLayout layout_of_part() const {
    std::vector<ParamSpec> specs;
    for (const int i : part) specs.push_back({"parameter" + std::to_string(i), count(i)});
    return ParamLayout(dtype, specs);
  }
  ParamId of_model(ParamId id) const { return part.empty() ? id : ParamId{part[index(id)]}; }
  /// Every second one a matrix.
  static ParamLayout layout_of_matrices(DataType dtype = DataType::f32) {
    std::vector<ParamSpec> specs;
    for (int i = 0; i < 12; ++i) {
      std::vector<std::int64_t> shape{8 + i};
      if (i % 2 == 0) shape.push_back(40);
      specs.push_back({.name = "parameter" + std::to_string(i),
                       .count = shape.size() == 1 ? shape[0] : shape[0] * shape[1],
                       .shape = shape});
    }
    return ParamLayout(dtype, specs);
  }
  static std::vector<ParamId> units() { return {ParamId{0}, ParamId{1}, ParamId{5}, ParamId{9}}; }

  Result run() const {
    Result result;
    std::mutex mutex;
    run_as_threads(ranks, [&](Communicator comm) {
      const Result mine = on(comm);
      const std::lock_guard lock(mutex);
      if (!result.parameters.empty() && !(result == mine)) throw Error(ErrorKind::internal, "ranks differ");
      result = mine;
    });
    return result;
  }

  Result on(const Communicator& comm) const {
    zero::ShardedOptions options = sharding;
    if (options.units.empty() && part.empty()) options.units = units();
    if (queued) options.wire = Stream::queued();
    const ParamLayout all = has_matrices ? layout_of_matrices(dtype) : layout(dtype);
    zero::ShardedParams params(comm, part.empty() ? all : layout_of_part(), options);
    const auto each = [&](auto function) {
      for (int i = params.layout().parameters() - 1; i >= 0; --i) function(ParamId{i});
    };
    each([&](ParamId id) {
      Buffer values = Buffer::on_host(dtype, params.layout().count(id));
      for (std::int64_t i = 0; i < values.count(); ++i)
        put(values.view(), i, 0.1F * noise(0, 0, of_model(id), i));
      params.load(id, values.view());
    });
    zero::ShardedOptimizer adam(params, optimizer, stepping);
    Stream compute = computes_on_thread ? Stream::queued() : Stream(comm.device());
    if (at_start) at_start(comm, params, adam, compute);
    const int micros = parts == 0 ? micro_steps : parts / comm.size();
    Result result;
    result.norms.reserve(static_cast<std::size_t>(steps));
    result.skipped.reserve(static_cast<std::size_t>(steps));
    for (int step = first_step; step < steps; ++step) {
      const double scale = adam.loss_scale();
      if (before_step) before_step(step, adam);
      if (says_rate) adam.begin_step(learning_rate(step));
      for (int micro = 0; micro < micros; ++micro) {
        const bool last = micro + 1 == micros;
        params.begin_step(last ? Exchange::now : Exchange::no_sync);
        if (gather_twice) {
          for (int unit = 0; unit < params.units(); ++unit) (void)params.gather(unit, compute);
        }
        if (parts == 0) {
          backward(params, comm.rank(), step * micros + micro, scale, compute);
        } else {  // a part is drawn by its number
          backward(params, comm.rank() * micros + micro, step, scale, compute);
        }
        if (!last) params.finish_step(compute);
      }
      const zero::StepResult stepped = adam.step(compute, learning_rate(step));
      compute.synchronize();
      const auto turn = [step](const std::vector<double>& list) -> std::optional<double> {
        if (list.empty()) return std::nullopt;
        return list[static_cast<std::size_t>(step) % list.size()];
      };
      if (!offloads.empty()) adam.offload(*turn(offloads), turn(file_shares));
      if (stepped.skipped) result.skipped.push_back(step);
      if (stepped.norm) result.norms.push_back(*stepped.norm);
      if (after_step) after_step(step);
    }
    if (at_end) at_end(comm, params, adam, compute);
    for (int i = 0; i < params.layout().parameters(); ++i) {
      const Buffer values = params.whole(ParamId{i});
      for (std::int64_t k = 0; k < values.count(); ++k) result.parameters.push_back(get(values.view(), k));
    }
    result.loss_scale = adam.loss_scale();
    result.held_bytes = params.held_bytes() + adam.state_bytes();
    result.host_bytes = params.host_bytes() + adam.host_bytes();
    result.file_bytes = adam.file_bytes();
    result.wire_bytes = params.wire_bytes();
    return result;
  }

  double learning_rate(int step) const {
    if (!rates.empty()) return rates[static_cast<std::size_t>(step) % rates.size()];
    return std::visit([](const auto& rule) { return rule.learning_rate; }, optimizer);
  }

  void backward(zero::ShardedParams& params, int rank, int step, double scale, const Stream& compute) const {
    const ParamLayout& layout = params.layout();
    const bool overflows =
        overflow_once_in > 0 &&
        hash(static_cast<std::uint64_t>(step), 77) % static_cast<std::uint64_t>(overflow_once_in) == 0;
    int id = layout.parameters() - 1;
    for (int unit = params.units() - 1; unit >= 0; --unit) {
      const zero::Gathered full = params.gather(unit, compute);
      for (; id >= 0 && params.unit_of(ParamId{id}) == unit; --id) {
        if (params.is_frozen(ParamId{id})) continue;
        const View values = full[ParamId{id}];
        const View gradient = params.gradient(ParamId{id}, compute);
        const bool adds = params.accumulating();
        const ParamId number = of_model(ParamId{id});
        const bool is_endless = overflows && number == ParamId{3} && rank == step % ranks;
        const auto work = [this, number, step, rank, scale, values, gradient, adds, is_endless] {
          for (std::int64_t i = 0; i < values.count(); ++i) {
            const float slope = slope_at(get(values, i), step, rank, number, i);
            const float before = adds ? get(gradient, i) : 0;
            put(gradient, i, before + static_cast<float>(slope * scale));
          }
          if (is_endless) put(gradient, 5, std::numeric_limits<float>::infinity());
        };
        if (launch) {
          launch(compute, work);
        } else if (computes_on_thread) {
          Stream(compute).run(work);
        } else {
          work();
        }
        params.mark_ready(ParamId{id}, compute);
      }
    }
  }

  /// The gradient of an element.
  float slope_at(float value, int step, int rank, ParamId number, std::int64_t i) const {
    const float drawn = noise(static_cast<std::uint64_t>(step) + 1, rank, number, i);
    return coarse ? std::floor(drawn * 64) / 64 : value + drawn;
  }
  static std::uint64_t hash(std::uint64_t a, std::uint64_t b) {
    return mixed(a * 0x9e3779b97f4a7c15ULL + b + 0x632be59bd9b4e019ULL);
  }
  /// In [-1, 1).
  float noise(std::uint64_t step, int rank, ParamId id, std::int64_t i) const {
    const std::uint64_t bits = hash(hash(seed * 1000003 + step, static_cast<std::uint64_t>(rank)),
                                    index(id) * 100003 + static_cast<std::uint64_t>(i));
    return static_cast<float>(static_cast<std::int64_t>(bits >> 40U) - (1 << 23)) * 0x1p-23F;
  }
  static float get(const ConstView& values, std::int64_t i) {
    float value = 0;
    dispatch(values.dtype(), [&]<class T>(std::type_identity<T>) {
      value = static_cast<float>(static_cast<const T*>(values.data())[i]);
    });
    return value;
  }
  static void put(const View& values, std::int64_t i, float value) {
    dispatch(values.dtype(), [&]<class T>(std::type_identity<T>) {
      static_cast<T*>(values.data())[i] = static_cast<T>(value);
    });
  }
};

}  // namespace weft::test
