#include "weft-scaling/gpt/pipeline/gpt_stage.hpp"

#include <algorithm>
#include <numeric>

#include "weft/core/copy.hpp"
#include "weft/core/error.hpp"

namespace weft::examples {

using pipeline::Boundary;
using pipeline::MicrobatchValues;

// The gradient of each parameter is computed alone first: the sum of two gradients must not depend on how a
// matrix product accumulates.
template <class Real>
class GptStage<Real>::Sums final : public GradientSink<Real> {
 public:
  explicit Sums(GptStage& stage) : stage_(stage), is_first_(stage.summed_ == 0) {}

  Real* target(int parameter) override { return is_first_ ? sum(parameter) : stage_.scratch_; }
  void ready(int parameter) override {
    if (is_first_) return;
    const std::int64_t count = stage_.table_.infos()[static_cast<std::size_t>(parameter)].count;
    stage_.table_.math().add(stage_.scratch_, sum(parameter), count);
  }

 private:
  Real* sum(int parameter) { return static_cast<Real*>(stage_.gradient(parameter).data()); }

  GptStage& stage_;
  bool is_first_;
};

template <class Real>
GptStage<Real>::GptStage(const GptLayers<Real>& layers, const ParameterTable<Real>& table,
                         const GptSizes& sizes, const GptStageOptions& options)
    : layers_(layers),
      table_(table),
      sizes_(sizes),
      options_(options),
      workspace_(table.math()),
      slot_of_(static_cast<std::size_t>(options.microbatches), -1),
      losses_(static_cast<std::size_t>(options.microbatches)) {
  const Math<Real>& math = table.math();
  const auto infos = std::span(table.infos())
                         .subspan(static_cast<std::size_t>(first_parameter()),
                                  static_cast<std::size_t>(end_parameter() - first_parameter()));
  offsets_ = packed_offsets(infos);
  sums_ = math.allocate(total_count(infos));
  scratch_ = workspace_.take(1, std::ranges::max(infos, {}, &ParameterInfo::count).count);
  stream_ = workspace_.take(rows(), sizes.width);
  flows_ = make_flows(nullptr);
  const std::int64_t before = workspace_.bytes();
  for (int i = 0; i < options.held + (options.recomputes ? 1 : 0); ++i) slots_.push_back(make_slot());
  slot_bytes_ = (workspace_.bytes() - before) / std::ssize(slots_);
  free_.resize(static_cast<std::size_t>(options.held));
  std::iota(free_.begin(), free_.end(), 0);
  const std::int64_t bytes = std::int64_t{options.microbatches} * rows();
  if (has_embedding()) tokens_ = Buffer::on(math.device(), DataType::u8, bytes);
  if (has_head()) targets_ = Buffer::on(math.device(), DataType::u8, bytes);
  bytes_.reserve(static_cast<std::size_t>(bytes));
}

template <class Real>
auto GptStage<Real>::make_slot() -> Slot {
  Slot slot;
  for (int unit = options_.begin; unit < options_.end; ++unit) {
    Saved saved;
    if (kind(unit) == GptUnit::attention)
      saved.attention = layers_.attention[block_of(unit)].make_saved(workspace_, options_.sequences);
    if (kind(unit) == GptUnit::mlp)
      saved.mlp = layers_.mlp[block_of(unit)].make_saved(workspace_, options_.sequences);
    slot.units.push_back(saved);
  }
  if (has_head()) {
    slot.norm = layers_.norm.make_saved(workspace_, rows());
    slot.features = workspace_.take(rows(), sizes_.width);
    slot.logits = workspace_.take(rows(), GptSizes::vocabulary);
  }
  if (options_.splits) slot.flows = make_flows(&flows_);
  return slot;
}

// Without another stage to share with, one of each kind is enough for all units: each reads what another kind
// wrote.
template <class Real>
auto GptStage<Real>::make_flows(const Flows* shared) -> Flows {
  Flows flows;
  const int sequences = options_.sequences;
  for (int unit = options_.begin; unit < options_.end; ++unit) {
    Flow flow;
    const auto place = static_cast<std::size_t>(unit - options_.begin);
    if (!shared && place >= 2 && kind(unit) == kind(unit - 2)) {
      flow = flows.units[place - 2];
    } else if (kind(unit) == GptUnit::attention) {
      const AttentionBranch<Real>& branch = layers_.attention[block_of(unit)];
      flow.attention = shared ? branch.make_flow(workspace_, sequences, shared->units[place].attention)
                              : branch.make_flow(workspace_, sequences);
    } else if (kind(unit) == GptUnit::mlp) {
      flow.mlp = layers_.mlp[block_of(unit)].make_flow(workspace_, sequences);
    }
    flows.units.push_back(flow);
  }
  if (has_head()) {
    flows.features = workspace_.take(rows(), sizes_.width);
    flows.stream = workspace_.take(rows(), sizes_.width);
  }
  return flows;
}

template <class Real>
void GptStage<Real>::begin_step(Batch batch) {
  if (std::ssize(batch) != std::int64_t{options_.microbatches} * options_.sequences) {
    throw Error(ErrorKind::usage, weft::text("a step of ", batch.size(), " sequences for ",
                                             options_.microbatches, " microbatches of ", options_.sequences));
  }
  Math<Real>& math = table_.math();
  bytes_.clear();
  for (const Sequence& sequence : batch) bytes_.insert(bytes_.end(), sequence.begin(), sequence.end() - 1);
  if (has_embedding()) math.put_bytes(bytes_, tokens_);
  bytes_.clear();
  for (const Sequence& sequence : batch) bytes_.insert(bytes_.end(), sequence.begin() + 1, sequence.end());
  if (has_head()) math.put_bytes(bytes_, targets_);
  summed_ = 0;
}

template <class Real>
double GptStage<Real>::loss() const {
  return std::accumulate(losses_.begin(), losses_.end(), 0.0);
}

template <class Real>
int GptStage<Real>::first_parameter() const {
  return layers_.firsts()[static_cast<std::size_t>(options_.begin)];
}

template <class Real>
int GptStage<Real>::end_parameter() const {
  return layers_.firsts()[static_cast<std::size_t>(options_.end)];
}

template <class Real>
View GptStage<Real>::gradient(int parameter) {
  return sums_.view().slice(offsets_[static_cast<std::size_t>(parameter - first_parameter())],
                            table_.infos()[static_cast<std::size_t>(parameter)].count);
}

template <class Real>
Boundary GptStage<Real>::boundary(bool is_end_of_model) const {
  return {data_type_of<Real>, is_end_of_model ? 0 : std::int64_t{rows()} * sizes_.width};
}

template <class Real>
auto GptStage<Real>::take_slot(int microbatch) -> Slot& {
  if (free_.empty()) {
    throw Error(ErrorKind::usage, weft::text("microbatch ", microbatch, " comes while a stage made for ",
                                             options_.held, " at once holds so many"));
  }
  const int slot = slot_of_[static_cast<std::size_t>(microbatch)] = free_.back();
  free_.pop_back();
  return slots_[static_cast<std::size_t>(slot)];
}

template <class Real>
auto GptStage<Real>::slot_of(int microbatch) -> Slot& {
  const int slot = slot_of_[static_cast<std::size_t>(microbatch)];
  if (slot < 0)
    throw Error(ErrorKind::usage, weft::text("nothing is kept of microbatch ", microbatch),
                "run its forward first");
  return slots_[static_cast<std::size_t>(slot)];
}

// For forwards that keep nothing. No slot is in use between steps.
template <class Real>
auto GptStage<Real>::spare_slot() -> Slot& {
  if (!options_.recomputes && std::ssize(free_) < options_.held)
    throw Error(ErrorKind::usage, "a forward that keeps nothing, in a stage that was not made to recompute");
  return slots_.back();
}

template <class Real>
void GptStage<Real>::release_slot(int microbatch) {
  free_.push_back(std::exchange(slot_of_[static_cast<std::size_t>(microbatch)], -1));
  ++summed_;
}

template <class Real>
const std::uint8_t* GptStage<Real>::bytes_of(const Buffer& bytes, int microbatch) const {
  return static_cast<const std::uint8_t*>(bytes.view().data()) + std::int64_t{microbatch} * rows();
}

template <class Real>
void GptStage<Real>::forward(const MicrobatchValues& of, const Stream& compute) {
  run_forward(of, of.recomputed ? spare_slot() : take_slot(of.microbatch), compute);
}

template <class Real>
void GptStage<Real>::recompute(const MicrobatchValues& of, const Stream& compute) {
  MicrobatchValues again = of;
  again.output = {};
  run_forward(again, take_slot(of.microbatch), compute);
}

// Branches change their stream in place, so it is the output from the start.
template <class Real>
void GptStage<Real>::run_forward(const MicrobatchValues& of, Slot& slot, const Stream& compute) {
  Math<Real>& math = table_.math();
  Real* x = of.output.empty() ? stream_ : static_cast<Real*>(of.output.data());
  if (!has_embedding())
    copy(View(x, of.input.count(), of.input.dtype(), of.input.device()), of.input, compute);
  for (int unit = options_.begin; unit < options_.end; ++unit) {
    const Saved& saved = slot.units[static_cast<std::size_t>(unit - options_.begin)];
    switch (kind(unit)) {
      case GptUnit::embedding:
        layers_.embedding.forward(bytes_of(tokens_, of.microbatch), x, options_.sequences);
        break;
      case GptUnit::attention:
        layers_.attention[block_of(unit)].forward(x, saved.attention, options_.sequences);
        break;
      case GptUnit::mlp:
        layers_.mlp[block_of(unit)].forward(x, saved.mlp, options_.sequences);
        break;
      case GptUnit::head:
        layers_.norm.forward(x, slot.features, slot.norm, rows());
        layers_.head.forward(slot.features, slot.logits, rows());
        losses_[static_cast<std::size_t>(of.microbatch)] =
            math.cross_entropy(slot.logits, bytes_of(targets_, of.microbatch), rows(), GptSizes::vocabulary,
                               GptSizes::vocabulary, std::int64_t{options_.microbatches} * rows());
    }
  }
}

template <class Real>
void GptStage<Real>::backward_input(const MicrobatchValues& of, const Stream&) {
  run_backward(Pass::input, of);
}

template <class Real>
void GptStage<Real>::backward_weight(const MicrobatchValues& of, const Stream&) {
  run_backward(Pass::weight, of);
  release_slot(of.microbatch);
}

template <class Real>
void GptStage<Real>::backward(const MicrobatchValues& of, const Stream&) {
  run_backward(Pass::both, of);
  release_slot(of.microbatch);
}

template <class Real>
void GptStage<Real>::run_backward(Pass pass, const MicrobatchValues& of) {
  Slot& slot = slot_of(of.microbatch);
  const Flows& flows = options_.splits ? slot.flows : flows_;
  Sums sums(*this);
  const auto* gradient = static_cast<const Real*>(of.output_gradient.data());
  for (int unit = options_.end; unit-- > options_.begin;) {
    const auto place = static_cast<std::size_t>(unit - options_.begin);
    const Saved& saved = slot.units[place];
    Flow flow = flows.units[place];
    Real* stream = flows.stream;
    // The gradient that leaves the stage is written to its destination.
    if (unit == options_.begin)
      stream = flow.attention.dx = flow.mlp.dx = static_cast<Real*>(of.input_gradient.data());
    switch (kind(unit)) {
      case GptUnit::head:
        if (wants_weight(pass)) layers_.head.backward_weight(slot.features, slot.logits, rows(), sums);
        if (wants_input(pass)) layers_.head.backward_input(slot.logits, flows.features, rows());
        if (wants_weight(pass)) layers_.norm.backward_weight(flows.features, slot.norm, rows(), sums);
        if (wants_input(pass))
          layers_.norm.backward_input(flows.features, slot.norm, nullptr, stream, rows());
        gradient = stream;
        break;
      case GptUnit::mlp:
        layers_.mlp[block_of(unit)].backward(pass, gradient, saved.mlp, flow.mlp, options_.sequences, sums);
        gradient = flow.mlp.dx;
        break;
      case GptUnit::attention:
        layers_.attention[block_of(unit)].backward(pass, gradient, saved.attention, flow.attention,
                                                   options_.sequences, sums);
        gradient = flow.attention.dx;
        break;
      case GptUnit::embedding:
        if (wants_weight(pass))
          layers_.embedding.backward_weight(bytes_of(tokens_, of.microbatch), gradient, options_.sequences,
                                            sums);
    }
  }
}

template class GptStage<float>;
template class GptStage<double>;

}  // namespace weft::examples
