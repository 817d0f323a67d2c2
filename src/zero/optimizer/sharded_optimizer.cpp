// A step of the optimizer.
//
// Without clipping and loss scaling (step_at_once): each bucket is updated as it is reduced, and gathered at
// once. With either (step_by_norm): sum the norm of all buckets, then update them in the order in which
// forward needs them. A rule that needs whole tensors goes over the buckets twice, with a collective between
// (zero/tensors). To update a bucket: start the update of its offloaded pieces on the host, update the
// pieces on the device, copy the offloaded pieces' parameters to the device, and hand the bucket to
// ShardedParams to gather it.

#include "weft/zero/sharded_optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "zero/optimizer/sharded_optimizer_state.hpp"

namespace weft::zero {
namespace {

void expect_rate(double learning_rate) {
  if (!(learning_rate >= 0 && std::isfinite(learning_rate)))
    throw Error(ErrorKind::usage, text("a learning rate of ", learning_rate), "it is finite and 0 or more");
}

}  // namespace

ShardedOptimizer::State::State(ShardedParams& params, const Optimizer& optimizer,
                               ShardedOptimizerOptions options)
    : params_(params.state()), optimizer_(optimizer), options_(std::move(options)) {
  detail::check(optimizer_);
  detail::check(detail::scaling_of(options_));
  if (claim_.take({&params_}, "ShardedOptimizer")) {
    const Error error(
        ErrorKind::usage,
        "its ShardedParams have another ShardedOptimizer, which still lives: both would update them",
        "end the other one first", {params_.comm().rank(), "ShardedOptimizer", 0});
    Communicator(params_.all()).give_up(error);
    throw error;
  }
  detail::agree_on_options(params_.all(), optimizer_, options_);
  groups_.emplace(optimizer_, options_.groups, params_.model(), params_.layout());
  counted_ = detail::CountedRanges(
      params_.layout(), params_.model().trained_of(options_.counted_elsewhere, "counted_elsewhere"));
  if (options_.whole_model) detail::agree_on_whole_model(*options_.whole_model, params_.all(), options_);
  guard_.emplace(
      params_.reducer(),
      detail::GradientGuard::Place{.comm = params_.comm(),
                                   .everywhere = params_.stage().optimizer == Placement::replicated,
                                   .whole_model = options_.whole_model,
                                   .has_replicas = params_.has_replicas()},
      detail::scaling_of(options_));
  kind_ = detail::StateKind::of(params_.layout().dtype(), groups_->rule_of_state(), options_.master);
  expect_shares(options_.offload.share.value_or(1), options_.offload.file_share);
  tensors_ = detail::whole_tensors(optimizer_, {*groups_, params_.layout(), params_.comm(),
                                                params_.stage().optimizer == Placement::replicated});
  expect_not_offloaded(options_.offload.share != 0.0);
  place();
  if (!options_.offload.share) finder_.emplace(options_.offload.tile_bytes);
  if (offloaded_) listen();
}

ShardedOptimizer::State::~State() {
  before_change();
  if (offloaded_) params_.reducer().on_reduced(nullptr);
}

void ShardedOptimizer::State::begin_step(double learning_rate) {
  expect_rate(learning_rate);
  if (begun_)
    throw Error(ErrorKind::usage,
                text("begin_step with a learning rate of ", learning_rate, " after one of ", *begun_),
                "call step() first",
                {params_.comm().rank(), "begin_step", static_cast<std::uint64_t>(steps_ + 1)});
  if (!guard_->is_on()) begun_factors_ = groups_->factors(steps_ + 1, learning_rate, 1);
  begun_ = learning_rate;
}

void ShardedOptimizer::State::set_rate_factor(std::string_view group, double factor) {
  if (begun_)
    throw Error(ErrorKind::usage, text("a rate factor of group ", group, " is set after begin_step"),
                "set it before the step begins",
                {params_.comm().rank(), "set_rate_factor", static_cast<std::uint64_t>(steps_ + 1)});
  groups_->set_rate_factor(group, factor);
}

double ShardedOptimizer::State::rate_of_step(std::optional<double> learning_rate) const {
  const double own = std::visit([](const auto& rule) { return rule.learning_rate; }, optimizer_);
  const double rate = learning_rate.value_or(begun_.value_or(own));
  expect_rate(rate);
  if (begun_ && rate != *begun_)
    throw Error(ErrorKind::usage,
                text("step with a learning rate of ", rate, " that was begun with ", *begun_),
                "some parameters have been updated with that: give step() the same, or none",
                {params_.comm().rank(), "step", static_cast<std::uint64_t>(steps_ + 1)});
  return rate;
}

StepResult ShardedOptimizer::State::step(const Stream& compute, std::optional<double> learning_rate) {
  const double rate = rate_of_step(learning_rate);
  if (finder_) finder_->begin_step(compute, params_.exposed_seconds(), begun_ && !guard_->is_on());
  params_.settle(compute);
  free_ = compute.record();
  const StepResult result = guard_->is_on() ? step_by_norm(compute, rate) : step_at_once(compute, rate);
  begun_.reset();
  begun_factors_.reset();
  reduced_buckets_.clear();
  if (offloaded_) offloaded_->end_step();
  if (!result.skipped) params_.all_updated();
  if (finder_) finder_->end_step(params_.exposed_seconds());
  if (finder_ && finder_->knows_enough()) {
    const auto factors = detail::factors(groups_->rule_of_state(), 1, rate, 1);
    const auto bytes = static_cast<std::size_t>(bounds_.back()) * size_of(kind_.dtype);
    Stream(compute).synchronize();
    const double file_rate = offloaded_ ? offloaded_->file_rate() : std::numeric_limits<double>::infinity();
    offload(finder_->share(params_.comm(), kind_, factors, bytes, file_rate), std::nullopt);
    finder_.reset();
  }
  if (result.skipped) guard_->say_why_skipped();
  return result;
}

StepResult ShardedOptimizer::State::step_at_once(const Stream& compute, double learning_rate) {
  if (tensors_) {
    const detail::GroupedFactors& first = tensors_->first({steps_ + 1, learning_rate, 1});
    const auto each = [&](const Bucket& bucket) { first_pass(bucket, first, compute); };
    params_.reducer().finish_step(compute, std::ref(each));
    second_pass(compute);
    ++steps_;
    return {};
  }
  const Factors factors = begun_ ? begun_factors_ : groups_->factors(steps_ + 1, learning_rate, 1);
  const auto each = [&](const Bucket& bucket) { update(bucket, factors, compute); };
  params_.reducer().finish_step(compute, std::ref(each));  // by reference: a copy would allocate
  ++steps_;
  return {};
}

StepResult ShardedOptimizer::State::step_by_norm(const Stream& compute, double learning_rate) {
  const auto each = [&](const Bucket& bucket) {
    const auto part = params_.part(bucket);
    counted_.visit(part.begin, part.begin + part.gradient.count(), [&](std::int64_t from, std::int64_t to) {
      guard_->add(part.gradient.slice(from - part.begin, to - from), compute);
    });
  };
  params_.reducer().finish_step(compute, std::ref(each));
  const auto verdict = guard_->finish(compute);
  if (verdict.bad) return {.skipped = true};
  if (tensors_) {
    const detail::GroupedFactors& first = tensors_->first({steps_ + 1, learning_rate, verdict.factor});
    for (const Bucket& bucket : params_.buckets()) first_pass(bucket, first, compute);
    second_pass(compute);
    ++steps_;
    return {.norm = verdict.norm};
  }
  const Factors factors = groups_->factors(steps_ + 1, learning_rate, verdict.factor);
  // Forward first needs the buckets that backward reduced last.
  const auto& buckets = params_.buckets();
  for (auto bucket = buckets.rbegin(); bucket != buckets.rend(); ++bucket) update(*bucket, factors, compute);
  ++steps_;
  return {.norm = verdict.norm};
}

detail::WholeTensors::Part ShardedOptimizer::State::whole_part(const Bucket& bucket) {
  const auto part = params_.part(bucket);
  const auto state = arrays_.views(part.state_at, part.parameters.count());
  return {part.begin, state.step(kind_, part.gradient, part.parameters), part.gradient};
}

void ShardedOptimizer::State::first_pass(const Bucket& bucket, const detail::GroupedFactors& factors,
                                         const Stream& compute) {
  before_change();
  const detail::WholeTensors::Part part = whole_part(bucket);
  detail::grouped_step(part.slice, part.begin, factors, compute);
  tensors_->add(part, compute);
}

void ShardedOptimizer::State::second_pass(const Stream& compute) {
  RecycledVector<detail::WholeTensors::Part> parts;
  for (const Bucket& bucket : params_.buckets()) parts.push_back(whole_part(bucket));
  const detail::GroupedFactors& factors = tensors_->second(parts, compute);
  for (std::size_t i = parts.size(); i-- > 0;) {
    detail::grouped_step(parts[i].slice, parts[i].begin, factors, compute);
    params_.updated(params_.buckets()[i], compute);
  }
}

// Updates the offloaded pieces behind backward where the rate is known and no norm is needed; otherwise step()
// does.
void ShardedOptimizer::State::on_reduced(const Bucket& bucket, const Event& reduced) {
  if (finder_) finder_->bucket_reduced();
  const bool at_once = begun_ && !guard_->is_on();
  if (at_once) update_on_host(bucket, begun_factors_, reduced);
  reduced_buckets_[bucket.begin] = {reduced, at_once};
}

void ShardedOptimizer::State::update_on_host(const Bucket& bucket, const Factors& factors,
                                             const Event& reduced) {
  before_change();
  const auto part = params_.part(bucket);
  for (const auto& piece : split_.pieces(part.state_at, part.state_at + part.parameters.count())) {
    if (!piece.offloaded) continue;
    const std::int64_t offset = piece.begin - part.state_at;
    offloaded_->update(piece.at, part.gradient.slice(offset, piece.count), {part.begin + offset, factors},
                       reduced, params_.has_gradients_on_host(), static_cast<std::uint64_t>(steps_ + 1));
  }
}

// The offloaded pieces begin first because they take longest.
void ShardedOptimizer::State::update(const Bucket& bucket, const Factors& factors, const Stream& compute) {
  before_change();
  if (offloaded_) {
    const ReducedBucket& known = reduced_buckets_[bucket.begin];
    if (!known.is_updated) update_on_host(bucket, factors, known.reduced);
  }
  Event uploaded;
  const auto part = params_.part(bucket);
  for (const auto& piece : split_.pieces(part.state_at, part.state_at + part.parameters.count())) {
    const std::int64_t offset = piece.begin - part.state_at;
    const View parameters = part.parameters.slice(offset, piece.count);
    if (piece.offloaded) {
      uploaded = offloaded_->upload(piece.at, parameters, free_);
    } else {
      const ConstView gradient = part.gradient.slice(offset, piece.count);
      const detail::StateViews state = arrays_.views(piece.at, piece.count);
      detail::grouped_step(state.step(kind_, gradient, parameters), part.begin + offset, *factors, compute);
    }
  }
  params_.updated(bucket, compute, uploaded);
  if (offloaded_) offloaded_->then([&params = params_] { params.progress(); });
}

ShardedOptimizer::ShardedOptimizer(ShardedParams& params, const Optimizer& optimizer,
                                   ShardedOptimizerOptions options)
    : state_(std::make_unique<State>(params, optimizer, std::move(options))) {}
ShardedOptimizer::~ShardedOptimizer() = default;
ShardedOptimizer::ShardedOptimizer(ShardedOptimizer&&) noexcept = default;

void ShardedOptimizer::begin_step(double learning_rate) {
  const auto turn = state_->turn("ShardedOptimizer::begin_step");
  state_->begin_step(learning_rate);
}
void ShardedOptimizer::set_rate_factor(std::string_view group, double factor) {
  const auto turn = state_->turn("ShardedOptimizer::set_rate_factor");
  state_->set_rate_factor(group, factor);
}
void ShardedOptimizer::offload(double share, std::optional<double> file_share) {
  const auto turn = state_->turn("ShardedOptimizer::offload");
  state_->offload(share, file_share);
}
StepResult ShardedOptimizer::step(const Stream& compute, std::optional<double> learning_rate) {
  const auto turn = state_->turn("ShardedOptimizer::step");
  return state_->step(compute, learning_rate);
}
void ShardedOptimizer::take_parameters(const Stream& compute) {
  const auto turn = state_->turn("ShardedOptimizer::take_parameters");
  state_->take_parameters(compute);
}
checkpoint::State ShardedOptimizer::state(const Stream& compute) {
  const auto turn = state_->turn("ShardedOptimizer::state");
  return state_->state(compute);
}
void ShardedOptimizer::load_state(const checkpoint::Values& values, const checkpoint::Reader& read,
                                  const Stream& compute) {
  const auto turn = state_->turn("ShardedOptimizer::load_state");
  state_->load_state(values, read, compute);
}
double ShardedOptimizer::loss_scale() const {
  return state_->loss_scale();
}
std::int64_t ShardedOptimizer::steps() const {
  return state_->steps();
}
std::int64_t ShardedOptimizer::state_bytes() const {
  return state_->state_bytes();
}
std::int64_t ShardedOptimizer::host_bytes() const {
  return state_->host_bytes();
}
std::int64_t ShardedOptimizer::file_bytes() const {
  return state_->file_bytes();
}

}  // namespace weft::zero
