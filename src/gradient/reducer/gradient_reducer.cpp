// The construction of a reducer, what is read of it between steps, and the public class.
//
// Construction: all ranks compare their models and options; a wire, the first plan and the memory of
// gradients are made; and adopt() (reducer_plans.cpp) tells every part of the reducer its plan.

#include "weft/gradient/gradient_reducer.hpp"

#include <algorithm>

#include "gradient/bucket_ring/ring_gradients.hpp"
#include "gradient/hooks/deterministic_tree.hpp"
#include "gradient/plan/plan_agreement.hpp"
#include "gradient/reducer/gradient_stats.hpp"
#include "gradient/reducer/observed_steps.hpp"
#include "gradient/reducer/reducer_state.hpp"
#include "gradient/reducer/uneven_inputs.hpp"
#include "weft/core/log.hpp"

namespace weft {
namespace {

/// Whether `here` is true on all ranks. Nodes differ: some may have a core for a thread where others have
/// none.
bool on_all_ranks(Communicator& comm, bool here) {
  std::int32_t all = here ? 1 : 0;
  Stream stream;
  comm.all_reduce(View(std::span(&all, 1)), ReduceOp::min, stream).wait();
  return all == 1;
}

constexpr const char* hook_value = "gradient hook";  // whose name it has

const BucketPlan* given_plan(const ReducerOptions& options) {
  return std::get_if<BucketPlan>(&options.buckets);
}

/// The options that must be the same on all ranks, except what the plan says.
std::string described(const ReducerOptions& options, const CommHook& hook) {
  const auto number = [](auto choice) { return static_cast<int>(choice); };
  return text("hook ", hook.name(), ", means ", number(options.means), ", unused ", number(options.unused),
              ", uneven ", number(options.uneven), ", count_bad_values ", options.count_bad_values,
              ", norm_block ", options.norm_block, ", micro_batches ", options.micro_batches, ", plan ",
              given_plan(options) ? "given" : "made",
              std::holds_alternative<BucketsAsSeen>(options.buckets) ? ", in the order seen" : "",
              ", a ring of ", options.ring.value_or(BucketRing()).bytes, " bytes");
}

}  // namespace

GradientReducer::State::State(Communicator comm, const ParamLayout& layout, ReducerOptions options)
    : users_("GradientReducer", comm),
      comm_(std::move(comm)),
      options_(std::move(options)),
      layout_(given_plan(options_) ? given_plan(options_)->layout() : layout),
      wire_(std::make_shared<detail::Wire>(comm_, options_.wire)),
      hook_(options_.hook ? options_.hook : all_reduce_hook()),
      ready_(std::make_shared<detail::ReadyTracker>(layout_)),
      note_(std::make_shared<detail::ReadyNote>(ready_, layout_)),
      used_(options_.unused, layout.parameters()),
      shares_(options_.micro_batches, comm_.size()),
      counters_(detail::shared_counters(comm_)) {
  if (!is_floating(layout.dtype()))
    throw Error(ErrorKind::usage, text("gradients of type ", layout.dtype()), "gradients are floating-point");
  claim_.take(detail::storages_of(layout), layout, comm_, "GradientReducer");
  detail::agree_on(comm_, layout, described(options_, *hook_));
  if (options_.ring) expect_ring_fits();
  if (std::holds_alternative<PlannedBuckets>(options_.buckets)) {
    if (const auto bytes = hook_->bucket_bytes(comm_)) options_.buckets = BucketBytes{*bytes};
  }
  is_planned_ = on_all_ranks(comm_, std::holds_alternative<PlannedBuckets>(options_.buckets) &&
                                        !wire_->is_inline() && comm_.size() > 1);
  if (!comm_.device().is_host()) device_clock_.emplace(comm_.device().index());
  expect_micro_batches();
  if (hook_->micro_batches() > 0 && options_.uneven != Uneven::refuse)
    throw Error(ErrorKind::usage, text("hook ", hook_->name(), " with uneven batches"),
                "every rank has its share of every step");
  if (hook_->micro_batches() > 0)
    tree_ = std::make_unique<detail::DeterministicTree>(hook_->micro_batches(), comm_, layout_);
  if (options_.uneven != Uneven::refuse)
    uneven_ = std::make_unique<detail::UnevenInputs>(options_.uneven == Uneven::mean_of_the_rest);
  if (options_.count_bad_values) count_bad_values();
  if (options_.norm_block != 0)
    squares_ = std::make_unique<detail::BlockSquares>(layout_, comm_.device(), options_.norm_block);
  BucketPlan first = first_plan(layout);
  wire_->serve(first.buckets().size());
  if (std::holds_alternative<BucketsAsSeen>(options_.buckets)) seen_.emplace();
  if (is_planned_) observed_ = std::make_unique<detail::ObservedSteps>(first);
  if (options_.ring) make_ring(first);
  memory_ = comm_.allocate(layout_.dtype(), ring_ ? ring_->places().size() : first.end());
  space_ = ring_ ? GradientSpace(memory_.view(), ring_->places().places(first)) : memory_.view();
  adopt(std::move(first));
  if (const auto recorder = comm_.flight_recorder()) recorder->add(note_);
}

void GradientReducer::State::expect_micro_batches() const {
  const std::int64_t all = options_.micro_batches, tree = hook_->micro_batches();
  if (all < 0)
    throw Error(ErrorKind::usage, text(all, " micro-batches of a step"), "give 1 or more, or leave it 0");
  if (all > 0 && tree > 0 && all != tree)
    throw Error(ErrorKind::usage, text(all, " micro-batches of a step, and hook ", hook_->name()),
                "give both the same number");
  if (all > 0 && options_.uneven != Uneven::refuse)
    throw Error(ErrorKind::usage, text(all, " micro-batches of a step with uneven batches"),
                "every rank has its share of every step");
}

GradientReducer::State::~State() {
  counters_->leave(this);
  wire_->close();
}

View GradientReducer::State::gradients() {
  if (ring_)
    throw Error(ErrorKind::usage, "gradients() where they lie in a bucket ring",
                "backward writes to gradient(id, stream); what is left of a bucket is means(bucket)");
  return memory_.view().slice(0, layout().size());
}

View GradientReducer::State::gradient(ParamId id) {
  if (ring_)
    throw Error(ErrorKind::usage, "gradient(id) where gradients lie in a bucket ring",
                "call gradient(id, stream), which lets the stream wait for the place");
  expect_known(id, "gradient");
  return place(id);
}

View GradientReducer::State::means(const Bucket& bucket) {
  const auto found = std::ranges::find(plan_->buckets(), bucket.begin, &Bucket::begin);
  const bool is_now = found != plan_->buckets().end() && found->end == bucket.end;
  const auto is_it = [&](const Bucket& one) { return one.begin == bucket.begin && one.end == bucket.end; };
  if (!is_now && !(first_plan_ && std::ranges::any_of(first_plan_->buckets(), is_it)))
    throw Error(ErrorKind::usage, text("means of a bucket [", bucket.begin, ", ", bucket.end, ") of no plan"),
                "give one of plan().buckets()", {comm_.rank(), "means", 0});
  if (ring_) {
    return ring_->store().part(static_cast<std::size_t>(found - plan_->buckets().begin()));
  }
  const auto [begin, end] = owned(bucket);
  return memory_.view().slice(begin, end - begin);
}

const std::vector<BadValues>& GradientReducer::State::bad_values() {
  if (!bad_values_)
    throw Error(ErrorKind::usage, "bad values are not counted", "set ReducerOptions::count_bad_values");
  return bad_values_->found();
}

void GradientReducer::State::count_bad_values() {
  expect_finished("count_bad_values");
  if (!bad_values_)
    bad_values_ =
        std::make_unique<detail::BadValueCounter>(layout_, comm_.device(), options_.count_bad_values);
}

checkpoint::State GradientReducer::State::state() {
  expect_finished("state");
  checkpoint::State saved = hook_->saved_state();
  if (!saved.values.empty()) saved.values[hook_value] = hook_->name();
  return saved;
}

void GradientReducer::State::load_state(const checkpoint::Values& values, const checkpoint::Reader& read) {
  expect_finished("load_state");
  const auto saved = values.find(hook_value);
  if (saved == values.end()) return;
  if (saved->second == checkpoint::Value(hook_->name())) return hook_->load_saved_state(values, read);
  if (comm_.rank() == 0)
    log::warn(text("gradients are reduced by ", hook_->name(), ": what ",
                   std::get<std::string>(saved->second), " had not sent yet is dropped"));
}

ConstView GradientReducer::State::squares() const {
  if (!squares_) throw Error(ErrorKind::usage, "squares are not summed", "set ReducerOptions::norm_block");
  return squares_->sums();
}

std::int64_t GradientReducer::State::held_bytes() const {
  const std::int64_t parts = ring_ && !options_.ring->means_on_host ? ring_->store().bytes() : 0;
  const std::int64_t aside = ring_ ? ring_->bytes_aside() : 0;
  return static_cast<std::int64_t>(memory_.size_bytes()) + parts + aside;
}

std::int64_t GradientReducer::State::host_bytes() const {
  return ring_ && options_.ring->means_on_host ? ring_->store().bytes() : 0;
}

StepHistory GradientReducer::State::account() {
  expect_finished("account");
  wire_->synchronize();
  if (device_clock_) device_clock_->finish(Deadline::in(comm_.timeout()));
  StepHistory history = detail::account(clock_, comm_, wire_->in_order(), wire_->is_inline());
  count_account(history);
  return history;
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
View GradientReducer::gradient(ParamId id, Stream compute) {
  return state_->gradient(id, std::move(compute));
}
View GradientReducer::means(const Bucket& bucket) {
  return state_->means(bucket);
}
void GradientReducer::begin_step(Exchange exchange) {
  const auto turn = state_->turn("begin_step");
  state_->begin_step(exchange);
}
bool GradientReducer::accumulating() const {
  return state_->accumulating();
}
void GradientReducer::mark_ready(ParamId id, const Stream& stream) {
  const auto turn = state_->turn("mark_ready");
  state_->mark_ready(id, stream);
}
void GradientReducer::mark_ready(ParamId id, ConstView gradient, const Stream& stream) {
  const auto turn = state_->turn("mark_ready");
  state_->mark_ready(id, gradient, stream);
}
View GradientReducer::mark_ready_in_place(ParamId id, View gradient, const Stream& stream) {
  const auto turn = state_->turn("mark_ready_in_place");
  return state_->mark_ready_in_place(id, gradient, stream);
}
void GradientReducer::poll() {
  const auto turn = state_->turn("poll");
  state_->poll();
}
void GradientReducer::finish_step(Stream stream, const BucketConsumer& consume) {
  const auto turn = state_->turn("finish_step");
  state_->finish_step(std::move(stream), consume);
}
void GradientReducer::on_reduced(ReducedListener listener) {
  state_->on_reduced(std::move(listener));
}
void GradientReducer::join(Stream stream, const std::function<void()>& each) {
  const auto turn = state_->turn("join");
  state_->join(std::move(stream), each);
}
bool GradientReducer::used(ParamId id) {
  return state_->used(id);
}
const std::vector<BadValues>& GradientReducer::bad_values() {
  return state_->bad_values();
}
void GradientReducer::count_bad_values() {
  state_->count_bad_values();
}
void GradientReducer::share_bad_values() {
  const auto turn = state_->turn("share_bad_values");
  state_->share_bad_values();
}
checkpoint::State GradientReducer::state() {
  const auto turn = state_->turn("state");
  return state_->state();
}
void GradientReducer::load_state(const checkpoint::Values& values, const checkpoint::Reader& read) {
  state_->load_state(values, read);
}
ConstView GradientReducer::squares() const {
  return state_->squares();
}
double GradientReducer::exposed_seconds() const {
  return state_->exposed_seconds();
}
std::int64_t GradientReducer::held_bytes() const {
  return state_->held_bytes();
}
std::int64_t GradientReducer::host_bytes() const {
  return state_->host_bytes();
}
StepHistory GradientReducer::account() {
  const auto turn = state_->turn("account");
  return state_->account();
}

}  // namespace weft
