// Outer steps of fragments: differences through a reducer, the test for bad values, the update of each parameter.
//
// A fragment is sent (begin_step to the last mark_ready), perhaps `delay` inner steps later it arrives (finish_step), and is taken in. All
// ranks do so after the same inner steps, and in the order of fragments.

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "core/memory/elementwise.hpp"
#include "local/fragments.hpp"
#include "local/local_steps_state.hpp"
#include "local/outer_update.hpp"
#include "weft/core/copy.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"

namespace weft {
namespace {

/// Adds the time until it goes, also where an exception leaves.
class Timed {
 public:
  explicit Timed(double& seconds) : seconds_(seconds) {}
  ~Timed() { seconds_ += std::chrono::duration<double>(Clock::now() - begin_).count(); }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  Clock::time_point begin_ = Clock::now();
};

/// Of two outer steps in one call.
OuterStep both(OuterStep one, OuterStep other) {
  return std::max(one, other);
}
static_assert(OuterStep::none < OuterStep::taken && OuterStep::taken < OuterStep::skipped);

}  // namespace

OuterStep LocalSteps::State::step(const Stream& compute) {
  const auto turn = users_.enter("step");
  ++account_.inner_steps;
  for (Fragment& one : fragments_) {
    ++one.behind;
    ++one.moved;
    if (!one.age) continue;
    ++*one.age;
    if (!one.is_here) one.reducer.poll();
  }
  OuterStep did = OuterStep::none;
  for (Fragment& one : fragments_) {
    const bool is_due = one.behind >= options_.every;
    if (one.age && (is_due || *one.age >= options_.delay))
      did = both(did, take_in(one, options_.mixing, compute));
    if (!is_due) continue;
    send(one, compute);
    if (options_.delay > 0) {
      one.behind = 0;
    } else {
      did = both(did, take_in(one, options_.mixing, compute));
    }
  }
  return did;
}

OuterStep LocalSteps::State::outer_step(const Stream& compute) {
  const auto turn = users_.enter("outer_step");
  OuterStep did = OuterStep::none;
  for (Fragment& one : fragments_) {
    if (one.age) did = both(did, take_in(one, options_.mixing, compute));
  }
  for (Fragment& one : fragments_) {
    if (one.moved == 0) continue;
    send(one, compute);
    did = both(did, take_in(one, 0, compute));
  }
  if (did != OuterStep::none) begin_anew();
  return did;
}

void LocalSteps::State::begin_anew() {
  for (Fragment& one : fragments_) one.behind = detail::steps_behind(options_, one.number);
}

void LocalSteps::State::send(Fragment& fragment, const Stream& compute) {
  const Timed timed(account_.outer_step_seconds);
  const std::uint64_t before = comm_.wire_bytes();
  GradientReducer& reducer = fragment.reducer;
  reducer.begin_step();
  for (int i = static_cast<int>(fragment.ids.size()) - 1; i >= 0; --i) {
    const ParamId id = fragment.ids[static_cast<std::size_t>(i)];
    detail::difference(reducer.gradient(ParamId{i}), outer(id), now(id), compute);
    reducer.mark_ready(ParamId{i}, compute);
  }
  if (options_.delay > 0) reducer.share_bad_values();
  fragment.age = 0;
  fragment.is_here = false;
  fragment.bytes = comm_.wire_bytes() - before;
}

void LocalSteps::State::arrive(Fragment& fragment, const Stream& compute) {
  if (fragment.is_here) return;
  const std::uint64_t before = comm_.wire_bytes();
  fragment.reducer.finish_step(compute);
  fragment.bad = bad_values(fragment, compute);
  fragment.is_here = true;
  fragment.bytes += comm_.wire_bytes() - before;
  account_.bytes_last = fragment.bytes;
  account_.bytes_sent += fragment.bytes;
}

OuterStep LocalSteps::State::take_in(Fragment& fragment, double mixing, const Stream& compute) {
  const Timed timed(account_.outer_step_seconds);
  arrive(fragment, compute);
  const std::int64_t age = *std::exchange(fragment.age, std::nullopt);
  const std::string bad = std::exchange(fragment.bad, {});
  const auto number = static_cast<std::uint64_t>(outer_steps_ + 1);
  const auto where = [&] {
    return text("outer step ", number, options_.fragments > 1 ? text(", fragment ", fragment.number) : "");
  };
  if (!bad.empty() && options_.bad == BadDifference::refuse) {
    if (age > 0) fragment.behind = options_.every;  // the next step sends again
    throw Error(ErrorKind::usage, text(where(), ": ", bad),
                "nothing was changed: lower the inner rate, look at this rank's batches, or set "
                "BadDifference::skip_step",
                {comm_.rank(), "LocalSteps::step", number});
  }
  if (!bad.empty()) {
    if (comm_.rank() == 0) log::warn(text(where(), " is skipped: ", bad));
    counters_->skipped_steps.add();
  }
  // After a load by other ranks there may be nothing of a rank's own to mix in.
  if (fragment.moved == 0) mixing = 0;
  // The mean of one rank is its own difference, so that a difference need not come back through rounding.
  const bool stays = comm_.size() == 1 && !has_momentum() && age == 0 && fragment.moved > 0;
  for (std::size_t i = 0; i < fragment.ids.size(); ++i) {
    const ParamId id = fragment.ids[i];
    const View mean = fragment.reducer.gradient(ParamId{static_cast<int>(i)});
    if (!bad.empty()) {
      copy(now(id), outer(id), compute);
    } else if (stays) {
      copy(outer(id), now(id), compute);
    } else {
      const View scratch = mixing == 0 ? View() : scratch_.view().slice(0, mean.count());
      detail::update(options_.outer, {outer(id), momentum(id), mean, now(id), mixing, scratch}, compute);
    }
  }
  if (!bad.empty() || mixing == 0 || stays) fragment.moved = 0;
  if (age == 0) fragment.behind = 0;
  ++(bad.empty() ? account_.outer_steps : account_.skipped);
  if (bad.empty()) ++outer_steps_;
  account_.stale_last = age;
  account_.stale_steps += age;
  return bad.empty() ? OuterStep::taken : OuterStep::skipped;
}

// The reducer's hooks leave no trace of such a step. All ranks have the same mean, and so find the same in it.
std::string LocalSteps::State::bad_values(Fragment& fragment, Stream compute) {
  std::array<std::int64_t, 2> found{};
  detail::fill(bad_.view(), 0, compute);
  detail::count_bad(bad_.view(), fragment.reducer.gradients(), compute);
  copy(View(std::span(found)), bad_.view(), compute);
  compute.synchronize();  // operations have deadlines of their own, which name who is missing
  const std::vector<BadValues>& ranks = fragment.reducer.bad_values();
  if (ranks.empty() && found[0] + found[1] == 0) return {};
  if (ranks.empty())
    return text(
        "no rank's difference is NaN or infinite, but their mean is beyond the range of what carries it: ",
        found[0], " NaN and ", found[1], " infinite values");
  std::string words;
  for (const BadValues& one : ranks)
    words +=
        text(words.empty() ? "" : "; ", "rank ", one.rank, " has ", one.nans, " NaN and ", one.infinities,
             " infinite values in its difference, first in ", layout_.name(fragment.ids[index(one.first)]));
  return words;
}

}  // namespace weft
