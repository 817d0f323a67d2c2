#include "weft/zero/sharded_params.hpp"

#include "zero/params/params_state.hpp"

namespace weft::zero {

ShardedParams::ShardedParams(Communicator comm, const ParamLayout& layout, ShardedOptions options)
    : state_(std::make_unique<State>(std::move(comm), layout, std::move(options))) {}
ShardedParams::~ShardedParams() = default;
ShardedParams::ShardedParams(ShardedParams&&) noexcept = default;

const Stage& ShardedParams::stage() const {
  return state_->stage();
}
const ParamLayout& ShardedParams::layout() const {
  const detail::TrainedParams& model = state_->model();
  return model.frozen() ? model.model() : state_->layout();
}
int ShardedParams::units() const {
  return state_->units();
}
int ShardedParams::unit_of(ParamId id) const {
  return state_->unit_of(id);
}
void ShardedParams::load(ParamId id, ConstView values) {
  const auto turn = state_->turn("load");
  state_->load(id, values);
}
Buffer ShardedParams::whole(ParamId id) {
  const auto turn = state_->turn("whole");
  return state_->whole(id);
}
Gathered ShardedParams::gather(int unit, const Stream& compute) {
  const auto turn = state_->turn("gather");
  state_->gather(unit, compute);
  return {*state_, unit, compute};
}
void ShardedParams::gather_all(const Stream& compute) {
  const auto turn = state_->turn("gather_all");
  state_->gather_all(compute);
}
void ShardedParams::begin_step(Exchange exchange) {
  const auto turn = state_->turn("begin_step");
  state_->begin_step(exchange);
}
bool ShardedParams::accumulating() const {
  return reducer().accumulating();
}
bool ShardedParams::is_frozen(ParamId id) const {
  (void)layout().count(id);  // which refuses a number that is no parameter's
  return state_->model().is_frozen(id);
}
View ShardedParams::gradient(ParamId id, const Stream& compute) {
  return state_->gradient(id, compute);
}
void ShardedParams::mark_ready(ParamId id, const Stream& compute) {
  const auto turn = state_->turn("mark_ready");
  state_->mark_ready(id, compute);
}
void ShardedParams::poll() {
  reducer().poll();
}
void ShardedParams::finish_step(const Stream& compute) {
  const auto turn = state_->turn("finish_step");
  state_->finish_step(compute);
}
GradientReducer& ShardedParams::reducer() {
  return state_->reducer();
}
const GradientReducer& ShardedParams::reducer() const {
  return state_->reducer();
}
double ShardedParams::exposed_seconds() const {
  return state_->exposed_seconds();
}
std::uint64_t ShardedParams::wire_bytes() const {
  return state_->wire_bytes();
}
std::int64_t ShardedParams::held_bytes() const {
  return state_->held_bytes();
}
std::int64_t ShardedParams::host_bytes() const {
  return state_->host_bytes();
}

Gathered::Gathered(ShardedParams::State& params, int unit, Stream compute)
    : params_(&params), unit_(unit), compute_(std::move(compute)) {}

Gathered::Gathered(Gathered&& other) noexcept
    : params_(std::exchange(other.params_, nullptr)),
      unit_(other.unit_),
      compute_(std::move(other.compute_)) {}

Gathered::~Gathered() {
  if (params_ != nullptr) params_->release(unit_, compute_);
}

View Gathered::operator[](ParamId id) const {
  return params_->at(unit_, id);
}

}  // namespace weft::zero
