// Construction, and outer steps: differences through the reducer, the test for bad values, the update of each parameter.

#include "weft/local/local_steps.hpp"

#include <array>
#include <chrono>

#include "core/memory/elementwise.hpp"
#include "gradient/plan/plan_agreement.hpp"
#include "gradient/plan/shape_text.hpp"
#include "local/local_steps_state.hpp"
#include "local/outer_update.hpp"
#include "weft/core/copy.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* object = "LocalSteps";
/// All differences are there at once, and nothing computes beside them.
constexpr std::size_t bucket_bytes = std::size_t{4} << 20;

std::string described(const LocalStepsOptions& options) {
  return text("every ", options.every, ", ", detail::described(options.outer), ", hook ",
              options.hook ? options.hook->name() : all_reduce_hook()->name(), ", ",
              options.bad == BadDifference::refuse ? "refuses" : "skips", " bad values, ",
              options.initial == InitialValues::compare ? "compares" : "broadcasts", " initial values");
}

std::vector<std::string> described(const ParamLayout& layout) {
  std::vector<std::string> lines;
  for (int i = 0; i < layout.parameters(); ++i)
    lines.push_back(text(layout.name(ParamId{i}), ", ", detail::shape_text(layout.shape(ParamId{i})), " of ",
                         layout.dtype()));
  return lines;
}

/// Where all ranks agree: what differs would else be found in the middle of a training, or never.
ReducerOptions agreed(Communicator& comm, const ParamLayout& layout, const std::vector<View>& parameters,
                      const LocalStepsOptions& options) {
  detail::agree_on(comm, described(options),
                   {"ranks have different LocalStepsOptions", "use the same options on every rank", object});
  detail::agree_on(
      comm, described(layout),
      {"ranks have different parameters", "build the same model on every rank", object, "parameter"});
  std::vector<NamedValues> values;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    values.push_back({layout.name(ParamId{static_cast<int>(i)}), parameters[i]});
  sync_initial_values(comm, values, options.initial);
  const auto asked = options.hook ? options.hook->bucket_bytes(comm) : std::nullopt;
  return {.buckets = BucketBytes{asked.value_or(bucket_bytes)}, .hook = options.hook, .wire = options.wire};
}

}  // namespace

LocalSteps::State::State(Communicator comm, const ParamLayout& layout, std::vector<View> parameters,
                         LocalStepsOptions options)
    : comm_(std::move(comm)),
      // Parameters stay free for a reducer that averages gradients within an island.
      layout_(layout.without_storages()),
      parameters_(std::move(parameters)),
      options_((check(options), std::move(options))),
      reducer_(comm_, layout_, agreed(comm_, layout_, parameters_, options_)),
      outer_(Buffer::on(comm_.device(), layout_.dtype(), layout_.size())),
      bad_(Buffer::on(comm_.device(), DataType::i64, 2)),
      counters_(detail::shared_counters(comm_)) {
  reducer_.count_bad_values();
  if (has_momentum()) momentum_ = Buffer::on(comm_.device(), layout_.dtype(), layout_.size());
  Stream stream(comm_.device());
  detail::fill(outer_.view(), 0, stream);
  if (has_momentum()) detail::fill(momentum_.view(), 0, stream);
  for (int i = 0; i < layout_.parameters(); ++i)
    copy(outer(ParamId{i}), parameters_[static_cast<std::size_t>(i)], stream);
  stream.synchronize();
}

void LocalSteps::State::check(const LocalStepsOptions& options) const {
  const ErrorContext here{comm_.rank(), object, 0};
  if (options.every < 1)
    throw Error(ErrorKind::usage, text("an outer step every ", options.every, " inner steps"),
                "set LocalStepsOptions::every to 1 or more", here);
  detail::check(options.outer);
  if (layout_.dtype() != DataType::f32 && layout_.dtype() != DataType::f64)
    throw Error(ErrorKind::usage, text("parameters of type ", layout_.dtype()),
                "differences need f32 or f64: give the masters of 16-bit parameters", here);
  if (std::ssize(parameters_) != layout_.parameters())
    throw Error(ErrorKind::usage, text(parameters_.size(), " views of ", layout_.parameters(), " parameters"),
                "give one for each parameter of the layout, in its order", here);
  for (int i = 0; i < layout_.parameters(); ++i) {
    const View& view = parameters_[static_cast<std::size_t>(i)];
    const ParamId id{i};
    if (view.count() != layout_.count(id) || view.dtype() != layout_.dtype() ||
        view.device() != comm_.device())
      throw Error(
          ErrorKind::usage,
          text("parameter ", layout_.name(id), " is ", view.count(), " ", view.dtype(), " on ", view.device(),
               ", expected ", layout_.count(id), " ", layout_.dtype(), " on ", comm_.device()),
          "give memory of the communicator's device, as the layout says", here);
  }
}

OuterStep LocalSteps::State::step(const Stream& compute) {
  const auto turn = users_.enter("step");
  ++account_.inner_steps;
  ++inner_;
  return inner_ < options_.every ? OuterStep::none : take_outer_step(compute);
}

OuterStep LocalSteps::State::outer_step(const Stream& compute) {
  const auto turn = users_.enter("outer_step");
  return inner_ == 0 ? OuterStep::none : take_outer_step(compute);
}

OuterStep LocalSteps::State::take_outer_step(const Stream& compute) {
  const auto begin = Clock::now();
  const std::uint64_t sent = comm_.wire_bytes();
  reducer_.begin_step();
  for (int i = layout_.parameters() - 1; i >= 0; --i) {
    const ParamId id{i};
    detail::difference(reducer_.gradient(id), outer(id), parameters_[static_cast<std::size_t>(i)], compute);
    reducer_.mark_ready(id, compute);
  }
  reducer_.finish_step(compute);
  const std::string bad = bad_values(compute);
  account_.bytes_last = comm_.wire_bytes() - sent;
  account_.bytes_sent += account_.bytes_last;
  const auto number = static_cast<std::uint64_t>(outer_steps_ + 1);
  if (!bad.empty() && options_.bad == BadDifference::refuse)
    throw Error(ErrorKind::usage, text("outer step ", number, ": ", bad),
                "nothing was changed: lower the inner rate, look at this rank's batches, or set "
                "BadDifference::skip_step",
                {comm_.rank(), "LocalSteps::step", number});
  if (!bad.empty()) {
    if (comm_.rank() == 0) log::warn(text("outer step ", number, " is skipped: ", bad));
    counters_->skipped_steps.add();
  }
  // The mean of one rank is its own difference, so that a difference need not come back through rounding.
  const bool stays = comm_.size() == 1 && !has_momentum();
  for (int i = 0; i < layout_.parameters(); ++i) {
    const ParamId id{i};
    const View now = parameters_[static_cast<std::size_t>(i)];
    if (!bad.empty()) {
      copy(now, outer(id), compute);
    } else if (stays) {
      copy(outer(id), now, compute);
    } else {
      detail::update(options_.outer, {outer(id), momentum(id), reducer_.gradient(id), now}, compute);
    }
  }
  inner_ = 0;
  ++(bad.empty() ? account_.outer_steps : account_.skipped);
  if (bad.empty()) ++outer_steps_;
  account_.outer_step_seconds += std::chrono::duration<double>(Clock::now() - begin).count();
  return bad.empty() ? OuterStep::taken : OuterStep::skipped;
}

// The reducer's hooks leave no trace of such a step. All ranks have the same mean, and so find the same in it.
std::string LocalSteps::State::bad_values(Stream compute) {
  std::array<std::int64_t, 2> found{};
  detail::fill(bad_.view(), 0, compute);
  detail::count_bad(bad_.view(), reducer_.gradients(), compute);
  copy(View(std::span(found)), bad_.view(), compute);
  compute.synchronize();  // operations have deadlines of their own, which name who is missing
  const std::vector<BadValues>& ranks = reducer_.bad_values();
  if (ranks.empty() && found[0] + found[1] == 0) return {};
  if (ranks.empty())
    return text(
        "no rank's difference is NaN or infinite, but their mean is beyond the range of what carries it: ",
        found[0], " NaN and ", found[1], " infinite values");
  std::string words;
  for (const BadValues& one : ranks)
    words += text(words.empty() ? "" : "; ", "rank ", one.rank, " has ", one.nans, " NaN and ",
                  one.infinities, " infinite values in its difference, first in ", layout_.name(one.first));
  return words;
}

LocalStepsAccount LocalSteps::State::account() const {
  LocalStepsAccount result = account_;
  result.exposed_seconds = reducer_.exposed_seconds();
  return result;
}

std::int64_t LocalSteps::State::held_bytes() const {
  return reducer_.held_bytes() + static_cast<std::int64_t>(outer_.size_bytes() + momentum_.size_bytes());
}

LocalSteps::LocalSteps(Communicator comm, const ParamLayout& layout, std::vector<View> parameters,
                       LocalStepsOptions options)
    : state_(std::make_unique<State>(std::move(comm), layout, std::move(parameters), std::move(options))) {}
LocalSteps::~LocalSteps() = default;
LocalSteps::LocalSteps(LocalSteps&&) noexcept = default;

OuterStep LocalSteps::step(const Stream& compute) {
  return state_->step(compute);
}
OuterStep LocalSteps::outer_step(const Stream& compute) {
  return state_->outer_step(compute);
}
std::int64_t LocalSteps::inner_steps() const {
  return state_->inner_steps();
}
const ParamLayout& LocalSteps::layout() const {
  return state_->layout();
}
LocalStepsAccount LocalSteps::account() const {
  return state_->account();
}
std::int64_t LocalSteps::held_bytes() const {
  return state_->held_bytes();
}
checkpoint::State LocalSteps::state(const Stream& compute) {
  return state_->state(compute);
}
void LocalSteps::load_state(const checkpoint::Values& values, const checkpoint::Reader& read,
                            const Stream& compute) {
  state_->load_state(values, read, compute);
}

}  // namespace weft
