// An optimizer's state as pieces of tensors, to save and to load.
//
// The parts of buckets that this rank updates are cut where tensors begin and where their state lies in another place. Each range
// is a piece of its parameter, its master and its moments. What lies on the device or in host memory that it shares is named where it is;
// what is offloaded passes through blocks. A split master is saved as the f32 that its halves make.
//
// Loading reads this rank's parts; parameters that every rank has whole then travel as after a step. Stage 0 reads all on each rank.

#include <algorithm>
#include <utility>

#include "core/memory/copy_now.hpp"
#include "gradient/plan/plan_agreement.hpp"
#include "zero/optimizer/sharded_optimizer_state.hpp"
#include "zero/update/update_kernel.hpp"

namespace weft::zero {
namespace {

using checkpoint::Computed;
using checkpoint::Piece;
using checkpoint::Taken;
using checkpoint::Wanted;
using detail::copy_now;
using detail::StateViews;

constexpr const char* steps_name = "optimizer/steps";
constexpr const char* scale_name = "loss scale";
constexpr const char* overflows_left_name = "loss scale/overflows left";
constexpr const char* clean_steps_name = "loss scale/clean steps";
constexpr const char* skipped_name = "loss scale/skipped steps";
constexpr const char* rate_factor_name = "rate factor/";

/// An array of the state, and what a checkpoint calls it.
struct Array {
  View StateViews::*view;
  const char* ending;
};
constexpr Array master{&StateViews::master, "/master"};

/// @param moments that a tensor's rule keeps
std::vector<Array> kept_arrays(const detail::StateKind& kind, int moments) {
  std::vector<Array> all;
  if (kind.kept != detail::Master::none) all.push_back(master);
  if (moments == 1) all.push_back({&StateViews::first, "/momentum_buffer"});
  if (moments == 2) {
    all.push_back({&StateViews::first, "/exp_avg"});
    all.push_back({&StateViews::second, "/exp_avg_sq"});
  }
  return all;
}

/// Visits elements of one place, as OffloadedState::visit does.
using Visit = std::function<void(std::int64_t at, std::int64_t count, bool changes,
                                 const detail::OffloadedState::Visitor& visitor)>;

/// f32 masters of split ones: parameters are the upper halves.
struct SplitMasters {
  Visit visit;
  View parameters;

  void fill(std::int64_t at, View to) const {
    Buffer high = Buffer::on_host(DataType::bf16, to.count(), Contents::any);
    Buffer low = Buffer::on_host(DataType::bf16, to.count(), Contents::any);
    copy_now(high.view(), parameters.slice(at, to.count()));
    visit(at, to.count(), false, [&](std::int64_t done, std::int64_t count, const StateViews& there) {
      copy_now(low.view().slice(done, count), there.master);
    });
    const std::span<float> joined = to.as<float>();
    for (std::size_t i = 0; i < joined.size(); ++i)
      joined[i] = detail::joined(
          {high.as<BFloat16>()[i].bits, static_cast<std::int16_t>(low.as<BFloat16>()[i].bits)});
  }
  void take(std::int64_t at, ConstView from) const {
    Buffer high = Buffer::on_host(DataType::bf16, from.count(), Contents::any);
    Buffer low = Buffer::on_host(DataType::bf16, from.count(), Contents::any);
    for (std::size_t i = 0; i < from.as<const float>().size(); ++i) {
      const detail::SplitFloat halves = detail::split(from.as<const float>()[i]);
      high.as<BFloat16>()[i].bits = halves.high;
      low.as<BFloat16>()[i].bits = static_cast<std::uint16_t>(halves.low);
    }
    copy_now(parameters.slice(at, from.count()), high.view());
    visit(at, from.count(), true, [&](std::int64_t done, std::int64_t count, const StateViews& there) {
      copy_now(there.master, low.view().slice(done, count));
    });
  }
};

template <class T>
T value_in(const checkpoint::Values& values, const std::string& name) {
  const auto found = values.find(name);
  const T* const value = found == values.end() ? nullptr : std::get_if<T>(&found->second);
  if (value != nullptr) return *value;
  throw Error(ErrorKind::usage, text("what is loaded has no value \"", name, "\" of that type"),
              "load a checkpoint that has the state of a ShardedOptimizer");
}

}  // namespace

void ShardedOptimizer::State::expect_between_steps(const char* operation) const {
  if (reduced_buckets_.empty() && !begun_) return;
  throw Error(ErrorKind::usage, text(operation, " within a step"), "call step() first",
              {params_.comm().rank(), operation, static_cast<std::uint64_t>(steps_ + 1)});
}

void ShardedOptimizer::State::settle(const Stream& compute, const char* operation) {
  expect_between_steps(operation);
  params_.settle(compute);
  Stream(compute).synchronize();
  if (offloaded_) offloaded_->synchronize();
}

void ShardedOptimizer::State::before_change() {
  for (const auto& reader : readers_) {
    if (*reader) std::exchange(*reader, nullptr)();
  }
  readers_.clear();
}

template <class Visit>
void ShardedOptimizer::State::each_range(bool own, Visit&& visit) {
  const ParamLayout& layout = params_.layout();
  const bool cut = own && params_.stage().optimizer == Placement::replicated;
  const std::int64_t ranks = params_.comm().size();
  for (const Bucket& bucket : params_.buckets()) {
    const auto part = params_.part(bucket);
    const std::int64_t count = part.parameters.count();
    const std::int64_t begin = cut ? count * params_.comm().rank() / ranks : 0;
    const std::int64_t end = cut ? count * (params_.comm().rank() + 1) / ranks : count;
    for (int i = 0; i < layout.parameters(); ++i) {
      const std::int64_t tensor = layout.offset(ParamId{i}) - part.begin;
      const std::int64_t from = std::max(begin, tensor);
      const std::int64_t to = std::min(end, tensor + layout.count(ParamId{i}));
      if (from >= to) continue;
      for (const auto& piece : split_.pieces(part.state_at + from, part.state_at + to)) {
        const std::int64_t at = piece.begin - part.state_at;
        visit(Range{ParamId{i}, at - tensor, part.parameters.slice(at, piece.count), piece});
      }
    }
  }
}

/// Under Muon a matrix has one momentum; the tensors that AdamW updates have its two moments.
int ShardedOptimizer::State::moments_of(ParamId id) const {
  const auto tensor = groups_->tensor(static_cast<int>(id));
  return tensor.is_whole && std::holds_alternative<Muon>(tensor.rule) ? 1 : kind_.moments;
}

checkpoint::State ShardedOptimizer::State::state(const Stream& compute) {
  settle(compute, "state");
  checkpoint::State saved{{}, saved_values()};
  if (!params_.saves()) return saved;
  saved.before_change = readers_.emplace_back(std::make_shared<std::function<void()>>());
  const ParamLayout& layout = params_.layout();
  const auto elsewhere = params_.model().trained_of(options_.counted_elsewhere, "counted_elsewhere");
  each_range(true, [&](const Range& range) {
    const auto& [id, first, parameters, piece] = range;
    if (std::ranges::find(elsewhere, id) != elsewhere.end()) return;  // another part saves it
    const auto add = [&, id = id, first = first](const std::string& ending, auto values) {
      saved.pieces.push_back({layout.name(id) + ending, layout.shape(id), first, std::move(values)});
    };
    add("", ConstView(parameters));
    const auto visit = visitor_of(piece);
    for (const Array& array : kept_arrays(kind_, moments_of(id))) {
      if (array.view == master.view && kind_.kept == detail::Master::split) {
        add(array.ending, Computed{DataType::f32, piece.count,
                                   [split = SplitMasters{visit, parameters}](std::int64_t at, View to) {
                                     split.fill(at, to);
                                   }});
      } else if (piece.offloaded) {
        add(array.ending, Computed{kind_.exact_type(), piece.count, [visit, array](std::int64_t at, View to) {
                                     visit(
                                         at, to.count(), false,
                                         [&](std::int64_t done, std::int64_t count, const StateViews& there) {
                                           copy_now(to.slice(done, count), there.*array.view);
                                         });
                                   }});
      } else {
        add(array.ending, ConstView(arrays_.views(piece.at, piece.count).*array.view));
      }
    }
  });
  checkpoint::State hook = params_.reducer().state();
  std::ranges::move(hook.pieces, std::back_inserter(saved.pieces));
  saved.values.merge(hook.values);
  if (const auto& frozen = params_.frozen_layout(); frozen && params_.all().rank() == 0) {
    for (int i = 0; i < frozen->parameters(); ++i)
      saved.pieces.push_back({frozen->name(ParamId{i}), frozen->shape(ParamId{i}), 0,
                              ConstView(frozen->view(params_.frozen_memory(), ParamId{i}))});
  }
  return saved;
}

std::vector<Wanted> ShardedOptimizer::State::wanted() {
  std::vector<Wanted> all;
  const ParamLayout& layout = params_.layout();
  each_range(false, [&](const Range& range) {
    const auto& [id, first, parameters, piece] = range;
    const auto add = [&, id = id, first = first](const std::string& ending, auto values) {
      all.push_back({layout.name(id) + ending, layout.shape(id), first, std::move(values)});
    };
    // A split master contains its parameter as its upper half. That is not always the value to which an f32 master would be rounded.
    if (kind_.kept != detail::Master::split) add("", parameters);
    const auto visit = visitor_of(piece);
    for (const Array& array : kept_arrays(kind_, moments_of(id))) {
      if (array.view == master.view && kind_.kept == detail::Master::split) {
        add(array.ending, Taken{DataType::f32, piece.count,
                                [split = SplitMasters{visit, parameters}](std::int64_t at, ConstView from) {
                                  split.take(at, from);
                                }});
      } else if (piece.offloaded) {
        add(array.ending,
            Taken{kind_.exact_type(), piece.count, [visit, array](std::int64_t at, ConstView from) {
                    visit(at, from.count(), true,
                          [&](std::int64_t done, std::int64_t count, const StateViews& there) {
                            copy_now(there.*array.view, from.slice(done, count));
                          });
                  }});
      } else {
        add(array.ending, arrays_.views(piece.at, piece.count).*array.view);
      }
    }
  });
  if (const auto& frozen = params_.frozen_layout()) {
    for (int i = 0; i < frozen->parameters(); ++i)
      all.push_back({frozen->name(ParamId{i}), frozen->shape(ParamId{i}), 0,
                     frozen->view(params_.frozen_memory(), ParamId{i})});
  }
  return all;
}

std::function<void(std::int64_t, std::int64_t, bool, const detail::OffloadedState::Visitor&)>
ShardedOptimizer::State::visitor_of(const detail::StateSplit::Piece& piece) {
  return [this, piece](std::int64_t at, std::int64_t count, bool changes,
                       const detail::OffloadedState::Visitor& visitor) {
    if (piece.offloaded) return offloaded_->visit(piece.at + at, count, changes, visitor);
    visitor(0, count, arrays_.views(piece.at + at, count));
  };
}

void ShardedOptimizer::State::load_state(const checkpoint::Values& values, const checkpoint::Reader& read,
                                         const Stream& compute) {
  settle(compute, "load_state");
  before_change();
  load_values(values);
  read(wanted());
  if (offloaded_) {
    const Stream stream(params_.comm().device());
    each_range(false, [&](const Range& range) {
      if (range.piece.offloaded) offloaded_->copy_parameters(range.piece.at, range.parameters, stream);
    });
    Stream(stream).synchronize();
    offloaded_->synchronize();
  }
  params_.reducer().load_state(values, read);
  params_.restored();
  for (const Bucket& bucket : params_.buckets()) params_.updated(bucket, compute);
  params_.all_updated();
}

checkpoint::Values ShardedOptimizer::State::saved_values() {
  checkpoint::Values values{{steps_name, steps_}};
  for (const auto& [name, factor] : groups_->rate_factors()) values[rate_factor_name + name] = factor;
  if (const LossScaler* scaler = guard_->scaler()) {
    const auto [scale, overflows_left, clean_steps, skipped] = scaler->state();
    values[scale_name] = scale;
    values[overflows_left_name] = overflows_left;
    values[clean_steps_name] = clean_steps;
    values[skipped_name] = skipped;
  }
  return values;
}

// All ranks load the same, or one would scale and correct its moments differently from the first step on.
void ShardedOptimizer::State::load_values(const checkpoint::Values& values) {
  const auto steps = value_in<std::int64_t>(values, steps_name);
  if (steps < 0) throw Error(ErrorKind::usage, text("what is loaded was saved after ", steps, " steps"));
  std::string line = text("goes on after ", steps, " steps");
  LossScaler* const scaler = guard_->scaler();
  if (scaler != nullptr && values.contains(scale_name)) {
    scaler->load_state(
        {value_in<double>(values, scale_name), value_in<std::int64_t>(values, overflows_left_name),
         value_in<std::int64_t>(values, clean_steps_name), value_in<std::int64_t>(values, skipped_name)});
    line += text(" with a loss scale of ", scaler->scale());
  }
  for (const auto& [name, factor] : groups_->rate_factors()) {
    if (values.contains(rate_factor_name + name))
      groups_->set_rate_factor(name, value_in<double>(values, rate_factor_name + name));
  }
  Communicator all = params_.all();
  detail::agree_on(all, line,
                   {"ranks load different checkpoints", "name the same one on every rank", "load_state"});
  steps_ = steps;
}

}  // namespace weft::zero
