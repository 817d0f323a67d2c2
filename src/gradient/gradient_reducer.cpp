#include "weft/gradient/gradient_reducer.hpp"

#include <algorithm>
#include <numeric>

#include "gradient/agreement.hpp"
#include "gradient/reducer_state.hpp"
#include "weft/core/log.hpp"

namespace weft {
namespace {

/// Nodes differ, and some may have a core for a thread where others have none.
bool on_all_ranks(Communicator& comm, bool here) {
  std::int32_t all = here ? 1 : 0;
  Stream stream;
  comm.all_reduce(View(std::span(&all, 1)), ReduceOp::min, stream).wait();
  return all == 1;
}

std::shared_ptr<CommHook> hook_of(const ReducerOptions& options, DataType dtype) {
  std::shared_ptr<CommHook> hook = options.hook ? options.hook : all_reduce_hook();
  if (options.fixed_parts > 0) {
    if (options.hook)
      throw Error(ErrorKind::usage, "fixed_parts beside a hook", "a fixed tree of sums is a hook of its own");
    hook = tree_hook();
  }
  if (options.reduce_dtype && *options.reduce_dtype != dtype) hook = cast_hook(*options.reduce_dtype, hook);
  return hook;
}

/// What ranks must have alike, but for what the plan says.
std::string described(const ReducerOptions& options, const CommHook& hook) {
  const auto number = [](auto choice) { return static_cast<int>(choice); };
  return text("hook ", hook.name(), ", means ", number(options.means), ", unused ", number(options.unused),
              ", uneven ", number(options.uneven), ", fixed_parts ", options.fixed_parts,
              ", count_bad_values ", options.count_bad_values, ", norm_block ", options.norm_block);
}

}  // namespace

GradientReducer::State::State(Communicator comm, const ParamLayout& layout, ReducerOptions options)
    : comm_(std::move(comm)),
      options_(std::move(options)),
      layout_(layout),
      wire_(std::make_shared<detail::Wire>(comm_, options_.wire)),
      hook_(hook_of(options_, layout.dtype())),
      ready_(std::make_shared<detail::ReadyTracker>(layout_)),
      note_(std::make_shared<detail::ReadyNote>(ready_, layout_)),
      used_(options_.unused, layout.parameters()) {
  if (!is_floating(layout.dtype()))
    throw Error(ErrorKind::usage, text("gradients of type ", layout.dtype()), "gradients are floating-point");
  detail::agree_on(comm_, layout_, described(options_, *hook_));
  if (!options_.bucket_bytes) options_.bucket_bytes = hook_->bucket_bytes(comm_);
  is_planned_ = on_all_ranks(
      comm_, !options_.bucket_bytes && !wire_->is_inline() && comm_.size() > 1 && comm_.device().is_host());
  if (options_.fixed_parts > 0 && options_.uneven != Uneven::refuse)
    throw Error(ErrorKind::usage, "fixed_parts with uneven batches",
                "every rank has its share of every step");
  if (options_.fixed_parts > 0)
    parts_ = std::make_unique<detail::FixedParts>(options_.fixed_parts, comm_, layout_);
  if (options_.uneven != Uneven::refuse)
    rest_ = std::make_unique<detail::RestOfRanks>(options_.uneven == Uneven::mean_of_the_rest);
  if (options_.count_bad_values)
    bad_values_ = std::make_unique<detail::BadValueWatch>(layout_, comm_.device());
  if (options_.norm_block != 0)
    squares_ = std::make_unique<detail::BlockSquares>(layout_, comm_.device(), options_.norm_block);
  BucketPlan first = first_plan();
  wire_->serve(first.buckets().size());
  if (is_planned_) observed_ = std::make_unique<detail::ObservedSteps>(first);
  arena_ = comm_.allocate(layout.dtype(), first.end());
  adopt(std::move(first));
  if (const auto recorder = comm_.flight_recorder()) recorder->add(note_);
}

GradientReducer::State::~State() {
  wire_->close();
}

BucketPlan GradientReducer::State::first_plan() const {
  if (is_planned_) return divisible(detail::probing_plan(layout_));
  const std::size_t usual = std::size_t{comm_.topology().nodes() == 1 ? 1U : 25U} << 20;
  return divisible(plan_buckets(layout_, options_.bucket_bytes.value_or(usual)));
}

// Sharded, every rank's part of a bucket is whole cache lines, and whole blocks where squares are summed by
// block. A tree of sums needs a part for every rank, which buckets of whole cache lines mostly have. What a
// hook asks for holds in any case.
BucketPlan GradientReducer::State::divisible(BucketPlan plan) const {
  const auto line = static_cast<std::int64_t>(Buffer::alignment / size_of(plan.layout().dtype()));
  std::int64_t unit = std::lcm(line, hook_->granularity());
  if (options_.means == Means::sharded) {
    const std::int64_t part = squares_ ? std::lcm(unit, options_.norm_block) : unit;
    return aligned(plan, part * comm_.size());
  }
  if (parts_) unit = std::lcm<std::int64_t>(unit, comm_.size());
  return unit == line ? plan : aligned(plan, unit, parts_ ? Tail::padded : Tail::partial);
}

detail::BlockSquares::Range GradientReducer::State::landing(const Bucket& bucket) const {
  if (options_.means == Means::everywhere) return {bucket.begin, bucket.end};
  const std::int64_t part = bucket.count() / comm_.size();
  const std::int64_t begin = bucket.begin + part * comm_.rank();
  return {begin, begin + part};
}

View GradientReducer::State::means(const Bucket& bucket) {
  const auto [begin, end] = landing(bucket);
  return arena_.view().slice(begin, end - begin);
}

void GradientReducer::State::adopt(BucketPlan plan) {
  detail::agree_on(comm_, plan);
  plan_ = std::make_unique<BucketPlan>(std::move(plan));
  hook_->planned(*plan_, arena_.view().slice(0, plan_->end()), comm_);
  ready_->adopt(*plan_);
  clock_.adopt(plan_->buckets().size());
  reduced_.assign(plan_->buckets().size(), {});
  if (!squares_) return;
  std::vector<detail::BlockSquares::Range> all;
  for (const Bucket& bucket : plan_->buckets()) all.push_back(landing(bucket));
  squares_->adopt(all);
}

void GradientReducer::State::plan_from_what_was_seen() {
  wire_->synchronize();
  profile_ = observed_->agree(comm_, *plan_, clock_, wire_->lane(0));
  const auto& [ready_seconds, link] = *profile_;
  observed_.reset();
  // Steps differ, and a bucket waits for the last of its gradients: none is so large that smaller ones would
  // cost more than a fiftieth of its time.
  constexpr double worth_a_latency = 50;
  const double most_bytes = std::max(1.0, worth_a_latency * link.latency_seconds * link.bytes_per_second);
  BucketPlan planned = divisible(
      plan_buckets(layout(), ready_seconds, link, static_cast<std::size_t>(std::min(most_bytes, 1e15))));
  log::info(text("rank ", comm_.rank(), ": buckets of ", link.latency_seconds * 1e6, " us and ",
                 link.bytes_per_second * 1e-9, " GB/s; exposed ",
                 forecast(*plan_, ready_seconds, link).exposed_seconds * 1e3, " ms in ",
                 plan_->buckets().size(), " buckets, planned ",
                 forecast(planned, ready_seconds, link).exposed_seconds * 1e3, " ms in ",
                 planned.buckets().size()));
  first_plan_ = std::move(plan_);
  adopt(std::move(planned));
}

const std::vector<BadValues>& GradientReducer::State::bad_values() {
  if (!bad_values_)
    throw Error(ErrorKind::usage, "bad values are not counted", "set ReducerOptions::count_bad_values");
  return bad_values_->found();
}

ConstView GradientReducer::State::squares() const {
  if (!squares_) throw Error(ErrorKind::usage, "squares are not summed", "set ReducerOptions::norm_block");
  return squares_->sums();
}

StepHistory GradientReducer::State::account() {
  if (!comm_.device().is_host())
    throw Error(ErrorKind::usage, "an account of steps on a device",
                "trace them instead (ConnectOptions::trace)");
  expect_finished("account");
  wire_->synchronize();
  return detail::account(clock_, comm_, wire_->in_order());
}

GradientReducer::GradientReducer(Communicator comm, const ParamLayout& layout, ReducerOptions options)
    : state_(std::make_unique<State>(std::move(comm), layout, std::move(options))) {}
GradientReducer::~GradientReducer() = default;
GradientReducer::GradientReducer(GradientReducer&&) noexcept = default;

const ParamLayout& GradientReducer::layout() const {
  return state_->layout();
}
const BucketPlan& GradientReducer::plan() const {
  return state_->plan();
}
const std::optional<BackwardProfile>& GradientReducer::profile() const {
  return state_->profile();
}
View GradientReducer::gradients() {
  return state_->gradients();
}
View GradientReducer::gradient(ParamId id) {
  return state_->gradient(id);
}
View GradientReducer::means(const Bucket& bucket) {
  return state_->means(bucket);
}
void GradientReducer::begin_step(Exchange exchange) {
  state_->begin_step(exchange);
}
bool GradientReducer::accumulating() const {
  return state_->accumulating();
}
void GradientReducer::mark_ready(ParamId id, const Stream& stream) {
  state_->mark_ready(id, stream);
}
void GradientReducer::mark_ready(ParamId id, ConstView gradient, const Stream& stream) {
  state_->mark_ready(id, gradient, stream);
}
void GradientReducer::poll() {
  state_->poll();
}
void GradientReducer::finish_step(Stream stream, const BucketConsumer& consume) {
  state_->finish_step(std::move(stream), consume);
}
void GradientReducer::join(Stream stream, const std::function<void()>& each) {
  state_->join(std::move(stream), each);
}
bool GradientReducer::used(ParamId id) {
  return state_->used(id);
}
const std::vector<BadValues>& GradientReducer::bad_values() {
  return state_->bad_values();
}
ConstView GradientReducer::squares() const {
  return state_->squares();
}
double GradientReducer::exposed_seconds() const {
  return state_->exposed_seconds();
}
StepHistory GradientReducer::account() {
  return state_->account();
}

}  // namespace weft
