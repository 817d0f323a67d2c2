// The state of LocalSteps as pieces. What all ranks have alike is shared out: each rank saves a range of each tensor. All pieces are
// copies, because the trainer writes its parameters without telling.

#include <cstring>
#include <utility>

#include "gradient/plan/plan_agreement.hpp"
#include "local/fragments.hpp"
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
const std::string mean_ending = "/outer_mean";

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

/// "0 0 1": by parameter.
std::string words_of(const std::vector<int>& fragments) {
  std::string words;
  for (const int one : fragments) words += text(words.empty() ? "" : " ", one);
  return words;
}

// What a checkpoint says of a fragment.
constexpr std::int64_t no_age = -1;
constexpr const char* behind_value = "behind";
constexpr const char* moved_value = "moved";
constexpr const char* age_value = "steps under way";
constexpr const char* bad_value = "bad values";

}  // namespace

std::string LocalSteps::State::named(const std::string& what) const {
  return text("local steps/", what, "/", layout_.name(ParamId{0}));
}

std::string LocalSteps::State::named(const std::string& what, const Fragment& fragment) const {
  return text("local steps/", what, "/", layout_.name(fragment.ids.front()));
}

checkpoint::State LocalSteps::State::state(const Stream& compute) {
  const auto turn = users_.enter("state");
  checkpoint::State result;
  for (Fragment& one : fragments_) {
    if (one.age) arrive(one, compute);  // it is taken in when it is due, as if nothing had been saved
    // Other reducers may save into the same checkpoint.
    const std::string hook_prefix = named("hook", one) + ": ";
    checkpoint::State of_hook = one.reducer.state();
    for (auto& [name, value] : of_hook.values) result.values[hook_prefix + name] = std::move(value);
    for (Piece& piece : of_hook.pieces) {
      piece.tensor = hook_prefix + piece.tensor;
      result.pieces.push_back(std::move(piece));
    }
    for (std::size_t i = 0; i < one.ids.size(); ++i) {
      const ParamId id = one.ids[i];
      const auto [first, count] = share_of(layout_.count(id), comm_.rank(), comm_.size());
      // Clang 14 has no captures of structured bindings.
      const auto add_share = [&, first = first, count = count](const std::string& ending, const View& whole) {
        if (count == 0) return;
        result.pieces.push_back(
            copied(layout_.name(id) + ending, layout_.shape(id), first, whole.slice(first, count), compute));
      };
      add_share(outer_ending, outer(id));
      if (has_momentum()) add_share(momentum_ending, momentum(id));
      if (one.age && one.bad.empty())
        add_share(mean_ending, one.reducer.gradient(ParamId{static_cast<int>(i)}));
      if (one.moved > 0)
        result.pieces.push_back(
            copied(layout_.name(id) + ending_of_rank(comm_.rank()), layout_.shape(id), 0, now(id), compute));
    }
    result.values[named(behind_value, one)] = one.behind;
    result.values[named(moved_value, one)] = one.moved;
    result.values[named(age_value, one)] = one.age.value_or(no_age);
    if (one.age) result.values[named(bad_value, one)] = one.bad;
  }
  result.values[named("inner steps")] = inner_steps();
  result.values[named("outer steps")] = outer_steps_;
  result.values[named("ranks")] = std::int64_t{comm_.size()};
  result.values[named("outer optimizer")] = detail::kind_of(options_.outer);
  result.values[named("every")] = options_.every;
  result.values[named("fragments")] = words_of(fragment_of_);
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
  // What has no fragments was saved before there were any.
  const auto* const words = found<std::string>(values, named("fragments"));
  const std::string fragments =
      words != nullptr ? *words : words_of(std::vector<int>(fragment_of_.size(), 0));
  if (fragments != words_of(fragment_of_))
    throw Error(ErrorKind::usage,
                text("a checkpoint whose parameters are in the fragments ", fragments,
                     ", and here they are in ", words_of(fragment_of_)),
                "go on with the same LocalStepsOptions::fragments and fragment_of", here);
  const bool has_all_ranks = *ranks == comm_.size();
  const auto number = [&](const std::string& name, std::int64_t otherwise) {
    const auto* const value = found<std::int64_t>(values, name);
    return value == nullptr ? otherwise : *value;
  };
  const bool anew = options_.fragments > 1 && number(named("every"), options_.every) != options_.every;
  // To the host first: a reader fills host memory.
  std::vector<std::pair<View, Buffer>> places;
  std::vector<Wanted> wanted;
  const auto want = [&](std::string tensor, ParamId id, const View& to) {
    places.emplace_back(to, Buffer::on_host(to.dtype(), to.count()));
    wanted.push_back({std::move(tensor), layout_.shape(id), 0, places.back().second.view()});
  };
  for (Fragment& one : fragments_) {
    if (one.age) arrive(one, compute);  // and is dropped
    one.moved = has_all_ranks ? number(named(moved_value, one), *inner) : 0;
    one.behind = anew || !has_all_ranks ? detail::steps_behind(options_, one.number)
                                        : number(named(behind_value, one), *inner);
    const std::int64_t age = number(named(age_value, one), no_age);
    const auto* const bad = found<std::string>(values, named(bad_value, one));
    one.age = age == no_age ? std::nullopt : std::optional(age);
    one.bad = bad == nullptr ? std::string() : *bad;
    one.is_here = one.age.has_value();
    one.bytes = 0;
    for (std::size_t i = 0; i < one.ids.size(); ++i) {
      const ParamId id = one.ids[i];
      want(layout_.name(id) + outer_ending, id, outer(id));
      if (has_momentum()) want(layout_.name(id) + momentum_ending, id, momentum(id));
      if (one.age && one.bad.empty())
        want(layout_.name(id) + mean_ending, id, one.reducer.gradient(ParamId{static_cast<int>(i)}));
      want(layout_.name(id) + (one.moved > 0 ? ending_of_rank(comm_.rank()) : outer_ending), id, now(id));
    }
  }
  read(wanted);
  for (const auto& [to, from] : places) copy(to, from.view(), compute);
  Stream(compute).synchronize();
  for (Fragment& one : fragments_) load_hook(one, values, read);
  if (*inner > 0 && !has_all_ranks && comm_.rank() == 0)
    log::warn(text("saved ", *inner, " inner steps after outer step ", *outer_steps, " of ", *ranks,
                   " ranks: ", comm_.size(), " ranks begin at that outer step"));
  outer_steps_ = *outer_steps;
}

void LocalSteps::State::load_hook(Fragment& fragment, const checkpoint::Values& values,
                                  const checkpoint::Reader& read) {
  const std::string hook_prefix = named("hook", fragment) + ": ";
  checkpoint::Values of_hook;
  for (const auto& [name, value] : values) {
    if (name.starts_with(hook_prefix)) of_hook[name.substr(hook_prefix.size())] = value;
  }
  fragment.reducer.load_state(of_hook, [&read, &hook_prefix](std::span<const Wanted> of_hook_wanted) {
    std::vector<Wanted> renamed(of_hook_wanted.begin(), of_hook_wanted.end());
    for (Wanted& one : renamed) one.tensor = hook_prefix + one.tensor;
    read(renamed);
  });
}

}  // namespace weft
