// The state of LocalSteps as pieces. What all ranks have alike is shared out: each rank saves a range of each tensor. All pieces are
// copies, because the trainer writes its parameters without telling.

#include <cstring>
#include <utility>

#include "gradient/plan/plan_agreement.hpp"
#include "local/local_steps_state.hpp"
#include "local/outer_update.hpp"
#include "weft/core/copy.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"

namespace weft {
namespace {

using checkpoint::Piece;
using checkpoint::Value;
using checkpoint::Wanted;

const std::string outer_ending = "/outer";
const std::string momentum_ending = "/outer_momentum";

std::string ending_of_rank(int rank) {
  return text("/rank ", rank);
}

struct Range {
  std::int64_t first, count;
};
Range share_of(std::int64_t count, int rank, int ranks) {
  const std::int64_t first = count * rank / ranks;
  return {first, count * (rank + 1) / ranks - first};
}

/// A piece with a copy of the values; the copy is there when the stream has passed it.
Piece copied(std::string tensor, std::vector<std::int64_t> shape, std::int64_t first, ConstView values,
             const Stream& stream) {
  const auto held = std::make_shared<Buffer>(Buffer::on_host(values.dtype(), values.count()));
  copy(held->view(), values, stream);
  const auto fill = [held](std::int64_t at, View to) {
    const ConstView from = ConstView(held->view()).slice(at, to.count());
    std::memcpy(to.bytes(), from.bytes(), to.size_bytes());
  };
  return {std::move(tensor), std::move(shape), first,
          checkpoint::Computed{values.dtype(), values.count(), fill}};
}

template <class T>
const T* found(const checkpoint::Values& values, const std::string& name) {
  const auto one = values.find(name);
  return one == values.end() ? nullptr : std::get_if<T>(&one->second);
}

}  // namespace

std::string LocalSteps::State::named(const std::string& what) const {
  return text("local steps/", what, "/", layout_.name(ParamId{0}));
}

checkpoint::State LocalSteps::State::state(const Stream& compute) {
  const auto turn = users_.enter("state");
  checkpoint::State result = reducer_.state();
  // Other reducers may save into the same checkpoint.
  const std::string hook_prefix = named("hook") + ": ";
  checkpoint::Values values;
  for (auto& [name, value] : result.values) values[hook_prefix + name] = std::move(value);
  for (Piece& piece : result.pieces) piece.tensor = hook_prefix + piece.tensor;
  for (int i = 0; i < layout_.parameters(); ++i) {
    const ParamId id{i};
    const auto [first, count] = share_of(layout_.count(id), comm_.rank(), comm_.size());
    // Clang 14 has no captures of structured bindings.
    const auto add_share = [&, first = first, count = count](const std::string& ending, const View& whole) {
      if (count == 0) return;
      result.pieces.push_back(
          copied(layout_.name(id) + ending, layout_.shape(id), first, whole.slice(first, count), compute));
    };
    add_share(outer_ending, outer(id));
    if (has_momentum()) add_share(momentum_ending, momentum(id));
    if (inner_ > 0)
      result.pieces.push_back(copied(layout_.name(id) + ending_of_rank(comm_.rank()), layout_.shape(id), 0,
                                     parameters_[static_cast<std::size_t>(i)], compute));
  }
  values[named("inner steps")] = inner_;
  values[named("outer steps")] = outer_steps_;
  values[named("ranks")] = std::int64_t{comm_.size()};
  values[named("outer optimizer")] = detail::kind_of(options_.outer);
  result.values = std::move(values);
  Stream(compute).synchronize();
  return result;
}

void LocalSteps::State::load_state(const checkpoint::Values& values, const checkpoint::Reader& read,
                                   const Stream& compute) {
  const auto turn = users_.enter("load_state");
  const ErrorContext here{comm_.rank(), "LocalSteps::load_state", 0};
  const auto* const inner = found<std::int64_t>(values, named("inner steps"));
  const auto* const outer_steps = found<std::int64_t>(values, named("outer steps"));
  const auto* const ranks = found<std::int64_t>(values, named("ranks"));
  const auto* const kind = found<std::string>(values, named("outer optimizer"));
  const bool is_whole = inner != nullptr && outer_steps != nullptr && ranks != nullptr && kind != nullptr;
  detail::agree_on(comm_,
                   is_whole ? text("loads outer step ", *outer_steps, " and ", *inner, " inner steps of ",
                                   *ranks, " ranks, ", *kind)
                            : std::string("loads no state of LocalSteps"),
                   {"ranks load different states", "load the same checkpoint on every rank", "LocalSteps"});
  if (!is_whole)
    throw Error(ErrorKind::usage,
                text("a checkpoint without LocalSteps whose first parameter is ", layout_.name(ParamId{0})),
                "load what state() of such parameters gave", here);
  if (*kind != detail::kind_of(options_.outer))
    throw Error(ErrorKind::usage,
                text("a checkpoint with the outer optimizer ", *kind, ", and this one is ",
                     detail::kind_of(options_.outer)),
                "go on with the same outer optimizer", here);
  const bool between = *inner > 0 && *ranks == comm_.size();
  // To the host first: a reader fills host memory.
  std::vector<std::pair<View, Buffer>> places;
  std::vector<Wanted> wanted;
  const auto want = [&](std::string tensor, ParamId id, const View& to) {
    places.emplace_back(to, Buffer::on_host(to.dtype(), to.count()));
    wanted.push_back({std::move(tensor), layout_.shape(id), 0, places.back().second.view()});
  };
  for (int i = 0; i < layout_.parameters(); ++i) {
    const ParamId id{i};
    want(layout_.name(id) + outer_ending, id, outer(id));
    if (has_momentum()) want(layout_.name(id) + momentum_ending, id, momentum(id));
    want(layout_.name(id) + (between ? ending_of_rank(comm_.rank()) : outer_ending), id,
         parameters_[static_cast<std::size_t>(i)]);
  }
  read(wanted);
  for (const auto& [to, from] : places) copy(to, from.view(), compute);
  Stream(compute).synchronize();
  const std::string hook_prefix = named("hook") + ": ";
  checkpoint::Values of_hook;
  for (const auto& [name, value] : values) {
    if (name.starts_with(hook_prefix)) of_hook[name.substr(hook_prefix.size())] = value;
  }
  reducer_.load_state(of_hook, [&read, &hook_prefix](std::span<const Wanted> of_hook_wanted) {
    std::vector<Wanted> renamed(of_hook_wanted.begin(), of_hook_wanted.end());
    for (Wanted& one : renamed) one.tensor = hook_prefix + one.tensor;
    read(renamed);
  });
  if (*inner > 0 && !between && comm_.rank() == 0)
    log::warn(text("saved ", *inner, " inner steps after outer step ", *outer_steps, " of ", *ranks,
                   " ranks: ", comm_.size(), " ranks begin at that outer step"));
  inner_ = between ? *inner : 0;
  outer_steps_ = *outer_steps;
}

}  // namespace weft
