#include "support/steady_trainings.hpp"

#include <algorithm>
#include <barrier>

#include "collectives/shm/threads_backend.hpp"
#include "support/heap_watch.hpp"
#include "support/zero_training.hpp"
#include "weft/collectives/world.hpp"
#include "weft/compression/hook_named.hpp"
#include "weft/compression/power_sgd.hpp"
#include "weft/core/log.hpp"
#include "weft/gradient/gradient_reducer.hpp"

namespace weft::test {
namespace {

constexpr int ranks = 2;

/// Gradients of ones, reduced and looked at.
struct ReducerTraining {
  ReducerOptions options{};
  std::function<std::shared_ptr<CommHook>()> hook{};
  bool queued_wire = false;
  bool queued_compute = false;
  int micro_steps = 1;

  void on(const Communicator& comm, int steps, const std::function<void(int)>& after_step) const {
    ReducerOptions mine = options;
    if (hook) mine.hook = hook();
    mine.wire = queued_wire ? Stream::queued() : Stream();
    GradientReducer reducer(comm, ZeroTraining::layout_of_matrices(), mine);
    Stream compute = queued_compute ? Stream::queued() : Stream();
    double sum = 0;
    for (int step = 0; step < steps; ++step) {
      for (int micro = 1; micro <= micro_steps; ++micro) {
        reducer.begin_step(micro == micro_steps ? Exchange::now : Exchange::no_sync);
        for (int i = reducer.layout().parameters() - 1; i >= 0; --i) {
          const View gradient = reducer.gradient(ParamId{i}, compute);
          compute.run([gradient] { std::ranges::fill(gradient.as<float>(), 1.0F); });
          reducer.mark_ready(ParamId{i}, compute);
        }
        const auto look = [&](const Bucket& bucket) {
          compute.run([&sum, means = reducer.means(bucket)] { sum += means.as<float>().front(); });
        };
        reducer.finish_step(compute, std::ref(look));
      }
      compute.synchronize();
      after_step(step);
    }
  }
};

class Trainings {
 public:
  Trainings() {
    stages();
    accumulation_and_norms();
    exact_values();
    groups();
    offload();
    hooks_and_replicas();
    reducers();
  }
  std::vector<SteadyTraining> all() && { return std::move(all_); }

 private:
  static ZeroTraining in_stage(int stage) {
    ZeroTraining job;
    job.sharding.stage = stage;
    job.sharding.bucket_bytes = 4000;
    return job;
  }
  void add(std::string name, const ZeroTraining& job,
           std::function<std::shared_ptr<CommHook>()> hook = nullptr, int warm_steps = 2) {
    const auto train = [job, hook](const Communicator& comm, int steps,
                                   const std::function<void(int)>& after_step) {
      ZeroTraining mine = job;
      mine.steps = steps;
      mine.after_step = after_step;
      if (hook) mine.sharding.hook = hook();
      (void)mine.on(comm);
    };
    all_.push_back({std::move(name), train, warm_steps});
  }
  void add(std::string name, const ReducerTraining& job, int warm_steps = 2) {
    const auto train = [job](const Communicator& comm, int steps,
                             const std::function<void(int)>& after_step) { job.on(comm, steps, after_step); };
    all_.push_back({std::move(name), train, warm_steps});
  }

  void stages() {
    for (int stage = 0; stage <= 3; ++stage) {
      ZeroTraining job = in_stage(stage);
      add(text("stage_", stage), job);
      job.queued = true;
      add(text("stage_", stage, "_wire_on_thread"), job);
      job.computes_on_thread = true;
      add(text("stage_", stage, "_all_on_threads"), job);
    }
    ZeroTraining job = in_stage(3);
    for (const std::size_t bytes : {0, 8000, 1 << 20}) {
      job.sharding.prefetch_bytes = bytes;
      add(text("prefetch_of_", bytes), job);
    }
    job.sharding.whole_below = 600;
    add("small_units_whole", job);
  }
  void accumulation_and_norms() {
    for (int stage = 0; stage <= 3; ++stage) {
      ZeroTraining job = in_stage(stage);
      job.micro_steps = 3;
      add(text("stage_", stage, "_accumulates"), job);
      job.micro_steps = 1;
      job.stepping.clip_norm = 20;
      job.stepping.loss_scale = zero::LossScalerOptions{.initial = 8};
      job.dtype = DataType::f16;
      add(text("stage_", stage, "_clips_and_scales"), job);  // a skipped step says why, which takes memory
    }
  }
  void exact_values() {
    ZeroTraining job = in_stage(2);
    job.dtype = DataType::bf16;
    add("bf16", job);
    job.stepping.master = zero::Master::split;
    add("bf16_in_halves", job);
  }
  /// Every second parameter decays, and one is frozen.
  void groups() {
    for (int stage = 0; stage <= 3; ++stage) {
      ZeroTraining job = in_stage(stage);
      zero::ParamGroup even{.name = "even"}, odd{.name = "odd", .weight_decay = 0.0};
      for (int i = 1; i < ZeroTraining::parameters; ++i)
        (i % 2 == 0 ? even : odd).params.push_back(ParamId{i});
      const zero::ParamGroup frozen{.name = "frozen", .params = {ParamId{0}}, .frozen = true};
      job.stepping.groups = zero::ParamGroups(ZeroTraining::layout(job.dtype), {even, odd, frozen});
      job.sharding.frozen = job.stepping.groups->frozen();
      job.before_step = [](int step, zero::ShardedOptimizer& optimizer) {
        optimizer.set_rate_factor("even", 1.0 / (1 + step));
      };
      add(text("stage_", stage, "_groups"), job);
      job.stepping.offload = {.share = 0.5, .tile_bytes = 1000};
      job.says_rate = true;
      add(text("stage_", stage, "_groups_behind_backward"), job);
    }
  }
  void offload() {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const double share : {0.5, 1.0}) {
        ZeroTraining job = in_stage(stage);
        job.stepping.offload = {.share = share, .tile_bytes = 1000};
        const std::string name = text("stage_", stage, share == 1 ? "_offloads_all" : "_offloads_half");
        add(name, job);
        job.says_rate = true;
        add(name + "_behind_backward", job);
      }
    }
    ZeroTraining job = in_stage(3);
    job.stepping.offload.share = 1;
    job.sharding.offload_parameters = job.sharding.offload_gradients = true;
    job.computes_on_thread = job.queued = true;
    add("offloads_everything_on_threads", job);
    job = in_stage(2);
    job.stepping.offload.share.reset();
    add("offloads_what_it_finds", job, nullptr, 5);  // three to find it, and two
  }
  void hooks_and_replicas() {
    ZeroTraining job = in_stage(2);
    job.has_matrices = true;
    const auto low_rank = [] { return power_sgd({.rank = 1, .start_step = 0, .min_rate = 1}); };
    add("low_rank_stage_2", job, low_rank);
    add("low_rank_later", job, [] { return power_sgd({.rank = 1, .start_step = 10, .min_rate = 1}); });
    job.sharding.shard_ranks = 1;
    add("replicas", job);
    for (const std::string codec : {"fp16", "int8", "fp8-e4m3:stochastic", "top-k:0.1", "random-k:0.1"}) {
      const auto end = codec.find_first_of("-:");
      add("coded_as_" + codec.substr(0, end), in_stage(2), [codec] { return hook_named(codec, 0); });
    }
    job = in_stage(1);
    add("reduced_as_bf16", job, [] { return cast_hook(DataType::bf16); });
  }
  void reducers() {
    ReducerTraining job{.options = {.buckets = BucketBytes{4000}}};
    add("reducer", job);
    job.queued_wire = true;
    add("reducer_wire_on_thread", job);
    job.queued_compute = true;
    add("reducer_all_on_threads", job);
    job.options.means = Means::sharded;
    add("reducer_of_shards", job);
    job = {.options = {.buckets = BucketBytes{4000}}, .micro_steps = 3};
    add("reducer_accumulates", job);
    job = {.options = {
               .buckets = BucketBytes{4000}, .unused = Unused::find, .uneven = Uneven::mean_of_the_rest}};
    add("reducer_of_some", job);
    job = {.options = {.buckets = BucketBytes{4000}, .count_bad_values = true, .norm_block = 64}};
    add("reducer_that_looks", job);
    job = {.options = {.buckets = BucketBytes{4000}}, .hook = [] { return tree_hook(4); }, .micro_steps = 2};
    add("reducer_of_fixed_parts", job);
    job = {.options = {.buckets = BucketBytes{4000}}, .hook = [] { return cast_hook(DataType::bf16); }};
    add("reducer_casts", job);
    for (const auto form : {LowRankForm::two_sided, LowRankForm::alternating}) {
      job = {.options = {.buckets = BucketBytes{4000}}};
      job.hook = [form] { return power_sgd({.rank = 1, .start_step = 0, .min_rate = 1, .form = form}); };
      add(form == LowRankForm::two_sided ? "reducer_low_rank" : "reducer_low_rank_in_turns", job);
    }
    job.hook = [] { return power_sgd({.rank = 1, .start_step = 0, .min_rate = 1, .warm_start = false}); };
    add("reducer_low_rank_anew", job);
    job = {.queued_wire = true};
    add("reducer_that_plans", job, 7);
  }

  std::vector<SteadyTraining> all_;
};

/// Watches from when every rank has taken its warm steps, until every rank has taken all.
class Watch {
 public:
  Watch(int warm, int steps) : warm_(warm), steps_(steps), meeting_(ranks, Turn{this}) {}
  void after(int step) {
    if (step + 1 == warm_ || step + 1 == steps_) meeting_.arrive_and_wait();
  }
  std::uint64_t taken() const { return taken_; }

 private:
  struct Turn {
    Watch* watch;
    void operator()() noexcept {
      if (watch->watches_) watch->taken_ = heap_watch::end();
      if (!watch->watches_) heap_watch::begin();
      watch->watches_ = !watch->watches_;
    }
  };

  int warm_;
  int steps_;
  bool watches_ = false;
  std::uint64_t taken_ = 0;
  std::barrier<Turn> meeting_;
};

}  // namespace

std::vector<SteadyTraining> steady_trainings() {
  return Trainings().all();
}

std::uint64_t allocations_of(const SteadyTraining& training, RankKind kind, int steps) {
  log::set_level(log::Level::error);  // a rank that waits long says so
  Watch watch(training.warm_steps, steps);
  const auto train = [&](const Communicator& comm) {
    training.train(comm, steps, [&watch](int step) { watch.after(step); });
  };
  if (kind == RankKind::threads) {
    run_as_threads(ranks, train);
  } else {
    const auto store = make_memory_store();
    detail::on_threads(ranks, [&](int rank) {
      train(connect(World::over(make_store_rendezvous(store, "steady", rank, ranks))));
    });
  }
  return watch.taken();
}

}  // namespace weft::test
