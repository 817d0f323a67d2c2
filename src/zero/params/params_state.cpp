// The memory of ShardedParams. Construction: split communicators (hybrid sharding), plan (params_plan.hpp),
// make the reducer over the shards' buckets, then allocate replicated units, this rank's shard and the
// gather buffers. params_gather.cpp has gather, release and prefetch.

#include "zero/params/params_state.hpp"

#include <algorithm>

#include "core/memory/host_memory.hpp"
#include "gradient/plan/initial_values.hpp"
#include "gradient/plan/plan_agreement.hpp"
#include "weft/core/copy.hpp"

namespace weft::zero {
namespace {

detail::ParamsSharing sharing_of(const ShardedOptions& options, const std::vector<ParamId>& units,
                                 const Communicator& comm) {
  std::optional<std::size_t> bucket_bytes = options.bucket_bytes;
  if (!bucket_bytes && options.hook) bucket_bytes = options.hook->bucket_bytes(comm);
  return {.stage = options.stage,
          .ranks = comm.size(),
          .bucket_bytes = bucket_bytes.value_or(detail::usual_bucket_bytes(comm.topology().nodes())),
          .bucket_ring_bytes = options.bucket_ring_bytes,
          .granularity = options.hook ? options.hook->granularity() : 1,
          .units = units,
          .prefetch_bytes = options.prefetch_bytes,
          .held_units = options.held_units,
          .whole_below = options.whole_below};
}

/// The options of the reducer that do not follow from the stage.
ReducerOptions reducer_of(const ShardedOptions& options) {
  return {.hook = options.hook,
          .wire = options.wire,
          .unused = options.unused,
          .count_bad_values = options.count_bad_values,
          .micro_batches = options.micro_batches};
}

Communicator sharing(Communicator all, const ShardedOptions& options) {
  if (options.shard_ranks == 0) return all;
  if (options.shard_ranks < 1 || all.size() % options.shard_ranks != 0) {
    throw Error(ErrorKind::usage, text("shards within ", options.shard_ranks, " of ", all.size(), " ranks"),
                "shard_ranks divides the number of ranks");
  }
  if (zero::stage(options.stage).optimizer == Placement::replicated)
    throw Error(ErrorKind::usage, "shard_ranks in stage 0, which shares nothing out", "use stage 1, 2 or 3");
  if (options.micro_batches != 0)
    throw Error(ErrorKind::usage,
                text(options.micro_batches, " micro-batches of a step with shards within ",
                     options.shard_ranks, " ranks"),
                "leave out micro_batches, and give every rank as many");
  return *all.split(all.rank() / options.shard_ranks, all.rank());
}

/// Otherwise ranks would reduce different gradients.
void agree_on_frozen(Communicator all, const detail::TrainedParams& model) {
  std::vector<std::string> names;
  for (int i = 0; i < model.model().parameters(); ++i) {
    if (model.is_frozen(ParamId{i})) names.push_back(model.model().name(ParamId{i}));
  }
  detail::agree_on(all, names,
                   {"ranks freeze different parameters", "give the same ShardedOptions::frozen on every rank",
                    "ShardedParams", "frozen parameter"});
}

/// Hybrid sharding: ranks that share reduce among themselves; then each part is averaged over the ranks that
/// keep its replicas. Between the sets of ranks only a part travels, not a bucket.
class ReplicasHook final : public CommHook {
 public:
  ReplicasHook(std::shared_ptr<CommHook> inner, Communicator replicas)
      : inner_(std::move(inner)), replicas_(std::move(replicas)) {}

  std::string name() const override {
    return text(inner_->name(), ", then over ", replicas_.size(), " replicas");
  }
  std::int64_t granularity() const override { return inner_->granularity(); }
  std::optional<std::size_t> bucket_bytes(const Communicator& comm) const override {
    return inner_->bucket_bytes(comm);
  }
  void planned(const BucketPlan& plan, GradientSpace gradients, Communicator& comm) override {
    if (!gradients.device().is_host() && !registered_)
      registered_ = replicas_.register_memory(gradients.memory());
    inner_->planned(plan, std::move(gradients), comm);
  }
  bool settled() const override { return inner_->settled(); }
  void reduce(const Bucket& bucket, View gradient, Communicator& comm, const Stream& compute,
              const Stream& wire) override {
    inner_->reduce(bucket, gradient, comm, compute, wire);
    replicas_.all_reduce(gradient, ReduceOp::avg, wire);
  }
  void reduce_scatter(const Bucket& bucket, View gradient, View mine, Communicator& comm,
                      const Stream& compute, const Stream& wire) override {
    inner_->reduce_scatter(bucket, gradient, mine, comm, compute, wire);
    replicas_.all_reduce(mine, ReduceOp::avg, wire);
  }

 private:
  std::shared_ptr<CommHook> inner_;
  Communicator replicas_;
  std::shared_ptr<const void> registered_;  // the gradients, which another communicator allocated
};

}  // namespace

ShardedParams::State::State(Communicator comm, const ParamLayout& layout, ShardedOptions options)
    : users_("ShardedParams", comm),
      all_(std::move(comm)),
      comm_(sharing(all_, options)),
      gathers_(comm_.device().is_host() ? comm_ : *comm_.split(0, comm_.rank())),
      options_(std::move(options)),
      stage_(zero::stage(options_.stage)),
      model_(layout, options_.frozen),
      wire_(std::make_shared<detail::Wire>(gathers_, options_.wire)),
      counters_(detail::shared_counters(all_)),
      own_(comm_.device()) {
  detail::expect_offload_fits(options_.stage, options_.offload_parameters, options_.offload_gradients);
  detail::expect_units(layout, options_.units);
  claim_.take(detail::storages_of(model_.trained()), model_.trained(), all_, "ShardedParams");
  agree_on_frozen(all_, model_);
  const auto [units, numbers] = model_.units(options_.units);
  const detail::ParamsPlan plan(model_.trained(), sharing_of(options_, units, comm_));
  if (plan.shards()) {
    make_shards(plan);
  } else {
    ReducerOptions reducer = reducer_of(options_);
    if (options_.bucket_bytes) reducer.buckets = BucketBytes{*options_.bucket_bytes};
    reducer_ = std::make_unique<GradientReducer>(comm_, model_.trained().without_storages(), reducer);
  }
  place_units(plan, numbers);
}

ShardedParams::State::~State() {
  wire_->close();
}

void ShardedParams::State::make_shards(const detail::ParamsPlan& plan) {
  shards_ = plan.shards();
  ReducerOptions reducer = reducer_of(options_);
  if (options_.shard_ranks > 0) {
    replicas_ = *all_.split(all_.rank() % options_.shard_ranks, all_.rank());
    reducer.hook =
        std::make_shared<ReplicasHook>(reducer.hook ? reducer.hook : all_reduce_hook(), *replicas_);
  }
  reducer.buckets = shards_->plan();
  reducer.means = Means::sharded;
  if (const auto bytes = plan.bucket_ring_bytes())
    reducer.ring = BucketRing{.bytes = *bytes, .means_on_host = options_.offload_gradients};
  reducer_ = std::make_unique<GradientReducer>(comm_, model_.trained().without_storages(), reducer);
  wire_->serve(shards_->plan().buckets().size());
}

// The plan has no unit for a unit of the model whose parameters are all frozen.
void ShardedParams::State::place_units(const detail::ParamsPlan& plan,
                                       const std::vector<std::size_t>& numbers) {
  whole_ = gathers_.allocate(layout().dtype(), plan.whole());
  if (const auto& frozen = model_.frozen()) {
    frozen_memory_ = Buffer::on(comm_.device(), frozen->dtype(), frozen->size());
    frozen_ = frozen_memory_.view();
  }
  for (const ParamId first : options_.units.empty() ? std::vector{ParamId{0}} : options_.units)
    units_.push_back({.first = first});
  for (std::size_t i = 0; i < plan.units().size(); ++i) {
    const auto& planned = plan.units()[i];
    Unit& unit = units_[numbers[i]];
    unit.begin = planned.begin;
    unit.count = planned.count;
    unit.buckets = planned.buckets;
    unit.is_whole = planned.whole_at.has_value();
    if (unit.is_whole) unit.memory = whole_.view().slice(*planned.whole_at, unit.count);
  }
  if (shards_) unit_of_bucket_.resize(shards_->plan().buckets().size());
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    for (const std::size_t bucket : units_[unit].buckets) unit_of_bucket_[bucket] = unit;
  }
  updated_.resize(unit_of_bucket_.size());
  offloaded_.resize(unit_of_bucket_.size());
  if (plan.gather_buffers() > 0) make_gather_buffers(plan);
}

// The shard holds this rank's parts in the order of its optimizer state; parts of replicated units are left out.
void ShardedParams::State::make_gather_buffers(const detail::ParamsPlan& plan) {
  const DataType dtype = layout().dtype();
  shard_at_.resize(unit_of_bucket_.size());
  std::int64_t shard = 0;
  for (std::size_t bucket = 0; bucket < shard_at_.size(); ++bucket) {
    shard_at_[bucket] = shard;
    if (!is_whole(bucket)) shard += shards_->part(bucket, 0).count;
  }
  shard_memory_ = options_.offload_parameters ? detail::pinned(comm_.device(), dtype, plan.shard())
                                              : gathers_.allocate(dtype, plan.shard());
  shard_ = detail::on_device(shard_memory_, comm_.device());
  buffers_.emplace(plan.gather_buffers());
  gather_memory_ = gathers_.allocate(dtype, plan.gather_buffers() * plan.gather_buffer());
  for (std::int64_t buffer = 0; buffer < plan.gather_buffers(); ++buffer)
    buffer_.push_back(
        {.memory = gather_memory_.view().slice(buffer * plan.gather_buffer(), plan.gather_buffer())});
}

int ShardedParams::State::unit_of(ParamId id) const {
  (void)model_.model().count(id);  // which refuses a number that is no parameter's
  const auto after = std::ranges::upper_bound(units_, id, {}, &Unit::first);
  return static_cast<int>(after - units_.begin()) - 1;
}

View ShardedParams::State::own_part(std::size_t bucket) {
  const auto part = shards_->part(bucket, comm_.rank());
  if (!is_whole(bucket)) return shard_.slice(shard_at_[bucket], part.count);
  const Unit& unit = units_[unit_of_bucket_[bucket]];
  return unit.memory.slice(part.begin - unit.begin, part.count);
}

void ShardedParams::State::load(ParamId id, ConstView values) {
  const ParamLayout& layout = model_.model();
  if (values.count() != layout.count(id) || values.dtype() != layout.dtype()) {
    throw Error(ErrorKind::usage,
                text("values of ", layout.name(id), " are ", values.count(), " ", values.dtype(),
                     ", the parameter ", layout.count(id), " ", layout.dtype()),
                "load a parameter whole", {comm_.rank(), "load", 0});
  }
  if (options_.initial_values == InitialValues::from_rank_0) {
    Buffer from_rank_0 = all_.allocate(values.dtype(), values.count());
    if (all_.rank() == 0) copy(from_rank_0.view(), values, own_);
    all_.broadcast(from_rank_0.view(), 0, own_);
    set(id, from_rank_0.view());
  } else {
    loaded_.resize(static_cast<std::size_t>(layout.parameters()));
    loaded_[index(id)] = detail::line_of_values(layout.name(id), values);
    alike_ = false;
    set(id, values);
  }
}

void ShardedParams::State::set(ParamId id, ConstView values) {
  const Unit& unit = units_[static_cast<std::size_t>(unit_of(id))];
  const std::int64_t begin = model_.is_frozen(id) ? 0 : layout().offset(model_.number(id));
  const std::int64_t end = begin + values.count();
  if (model_.is_frozen(id)) {
    copy(frozen(id), values, own_);
  } else if (unit.is_whole) {
    copy(unit.memory.slice(begin - unit.begin, values.count()), values, own_);
  } else {
    for (const std::size_t bucket : unit.buckets) {
      const auto part = shards_->part(bucket, comm_.rank());
      const std::int64_t from = std::max(begin, part.begin);
      const std::int64_t to = std::min(end, part.begin + part.count);
      if (from >= to) continue;
      copy(own_part(bucket).slice(from - part.begin, to - from), values.slice(from - begin, to - from), own_);
    }
  }
  own_.synchronize();
}

// Collective: before the first step, a rank that has loaded nothing also takes part.
void ShardedParams::State::expect_alike() {
  if (alike_ || options_.initial_values != InitialValues::compare) return;
  const ParamLayout& model = model_.model();
  loaded_.resize(static_cast<std::size_t>(model.parameters()));
  for (int i = 0; i < model.parameters(); ++i) {
    std::string& line = loaded_[static_cast<std::size_t>(i)];
    if (line.empty()) line = model.name(ParamId{i}) + ", not loaded";
  }
  detail::agree_on(
      all_, loaded_,
      {"ranks start with different values",
       "load the same values on every rank, or set ShardedOptions::initial_values to from_rank_0",
       "ShardedParams"});
  loaded_ = {};
  alike_ = true;
}

void ShardedParams::State::begin_step(Exchange exchange) {
  expect_alike();
  reducer_->begin_step(exchange);
  exchange_ = exchange;
}

void ShardedParams::State::finish_step(const Stream& compute) {
  if (exchange_ == Exchange::now)
    throw Error(ErrorKind::usage, "finish_step in a micro-step that reduces gradients",
                "ShardedOptimizer::step() finishes it", {comm_.rank(), "finish_step", 0});
  reducer_->finish_step(compute);
}

std::int64_t ShardedParams::State::state_elements() const {
  return shards_ ? shards_->shard_elements() : layout().size();
}

ShardedParams::State::Part ShardedParams::State::part(const Bucket& bucket) {
  if (!shards_) {
    const std::int64_t count = std::min(bucket.end, layout().size()) - bucket.begin;
    return {bucket.begin, bucket.begin, whole_.view().slice(bucket.begin, count),
            reducer_->means(bucket).slice(0, count)};
  }
  const std::size_t number = shards_->number(bucket);
  const auto part = shards_->part(number, comm_.rank());
  return {part.begin, part.at, own_part(number), reducer_->means(bucket)};
}

std::uint64_t ShardedParams::State::wire_bytes() const {
  std::uint64_t bytes = comm_.wire_bytes();
  if (replicas_) bytes += replicas_->wire_bytes();
  if (!comm_.device().is_host()) bytes += gathers_.wire_bytes();
  return bytes;
}

std::int64_t ShardedParams::State::held_bytes() const {
  const std::size_t shard = options_.offload_parameters ? 0 : shard_memory_.size_bytes();
  return static_cast<std::int64_t>(whole_.size_bytes() + frozen_memory_.size_bytes() + shard +
                                   gather_memory_.size_bytes()) +
         reducer_->held_bytes();
}

std::int64_t ShardedParams::State::host_bytes() const {
  const std::size_t shard = options_.offload_parameters ? shard_memory_.size_bytes() : 0;
  return static_cast<std::int64_t>(shard) + reducer_->host_bytes();
}

}  // namespace weft::zero
