// Construction: what ranks compare, fragments and their reducers; and the public class. Outer steps are in outer_steps.cpp.

#include "weft/local/local_steps.hpp"

#include <algorithm>

#include "core/memory/elementwise.hpp"
#include "gradient/plan/plan_agreement.hpp"
#include "gradient/plan/shape_text.hpp"
#include "local/fragments.hpp"
#include "local/local_steps_state.hpp"
#include "local/outer_update.hpp"
#include "weft/core/copy.hpp"
#include "weft/core/error.hpp"

namespace weft {
namespace {

constexpr const char* object = "LocalSteps";
/// All differences of a fragment are there at once.
constexpr std::size_t bucket_bytes = std::size_t{4} << 20;

std::string described(const LocalStepsOptions& options, const CommHook& hook) {
  return text("every ", options.every, ", ", detail::described(options.outer), ", ", options.fragments,
              " fragments, delay ", options.delay, ", mixing ", options.mixing, ", hook ", hook.name(), ", ",
              options.bad == BadDifference::refuse ? "refuses" : "skips", " bad values, ",
              options.initial == InitialValues::compare ? "compares" : "broadcasts", " initial values");
}

/// @param fragments by parameter, where the trainer chose them
std::vector<std::string> described(const ParamLayout& layout, const std::vector<int>& fragments) {
  std::vector<std::string> lines;
  for (int i = 0; i < layout.parameters(); ++i) {
    lines.push_back(text(layout.name(ParamId{i}), ", ", detail::shape_text(layout.shape(ParamId{i})), " of ",
                         layout.dtype()));
    if (!fragments.empty()) lines.back() += text(", in fragment ", fragments[static_cast<std::size_t>(i)]);
  }
  return lines;
}

/// By fragment. @throws Error (usage) where one hook would be for two
std::vector<std::shared_ptr<CommHook>> hooks_of(const LocalStepsOptions& options) {
  if (options.hook && options.make_hook)
    throw Error(ErrorKind::usage, "LocalStepsOptions with hook and with make_hook",
                "give one of them: make_hook where there are several fragments");
  if (options.hook && options.fragments > 1)
    throw Error(ErrorKind::usage,
                text("one hook (", options.hook->name(), ") for ", options.fragments, " fragments"),
                "a hook keeps the state of one exchange: give LocalStepsOptions::make_hook, which makes one "
                "for each");
  std::vector<std::shared_ptr<CommHook>> hooks;
  for (int i = 0; i < options.fragments; ++i) {
    auto hook = options.make_hook ? options.make_hook(i) : options.hook;
    if (!hook) hook = all_reduce_hook();
    const auto same = std::find(hooks.begin(), hooks.end(), hook);
    if (same != hooks.end())
      throw Error(ErrorKind::usage,
                  text("LocalStepsOptions::make_hook gave one hook (", hook->name(), ") for fragments ",
                       same - hooks.begin(), " and ", i),
                  "a hook keeps the state of one exchange: make a new one at each call");
    hooks.push_back(std::move(hook));
  }
  return hooks;
}

}  // namespace

LocalSteps::State::State(Communicator comm, const ParamLayout& layout, std::vector<View> parameters,
                         LocalStepsOptions options)
    : comm_(std::move(comm)),
      // Parameters stay free for a reducer that averages gradients within an island.
      layout_(layout.without_storages()),
      parameters_(std::move(parameters)),
      options_((check(options), std::move(options))),
      fragment_of_(detail::fragments_of(layout_, options_)),
      fragments_(made_fragments()),
      outer_(Buffer::on(comm_.device(), layout_.dtype(), layout_.size())),
      bad_(Buffer::on(comm_.device(), DataType::i64, 2)),
      counters_(detail::shared_counters(comm_)) {
  if (has_momentum()) momentum_ = Buffer::on(comm_.device(), layout_.dtype(), layout_.size());
  std::int64_t largest = 0;
  for (int i = 0; i < layout_.parameters(); ++i) largest = std::max(largest, layout_.count(ParamId{i}));
  if (options_.mixing != 0) scratch_ = Buffer::on(comm_.device(), layout_.dtype(), largest);
  Stream stream(comm_.device());
  detail::fill(outer_.view(), 0, stream);
  if (has_momentum()) detail::fill(momentum_.view(), 0, stream);
  for (int i = 0; i < layout_.parameters(); ++i) copy(outer(ParamId{i}), now(ParamId{i}), stream);
  stream.synchronize();
}

// Where all ranks agree: what differs would else be found in the middle of a training, or never.
std::vector<LocalSteps::State::Fragment> LocalSteps::State::made_fragments() {
  const auto hooks = hooks_of(options_);
  detail::agree_on(comm_, described(options_, *hooks.front()),
                   {"ranks have different LocalStepsOptions", "use the same options on every rank", object});
  detail::agree_on(
      comm_, described(layout_, options_.fragment_of),
      {"ranks have different parameters", "build the same model on every rank", object, "parameter"});
  std::vector<NamedValues> values;
  for (int i = 0; i < layout_.parameters(); ++i)
    values.push_back({layout_.name(ParamId{i}), now(ParamId{i})});
  sync_initial_values(comm_, values, options_.initial);
  std::vector<Fragment> result;
  for (int i = 0; i < options_.fragments; ++i) {
    const auto& hook = hooks[static_cast<std::size_t>(i)];
    std::vector<ParamId> ids = detail::parameters_of(fragment_of_, i);
    const ParamLayout layout = detail::layout_of(layout_, ids);
    const std::size_t bytes = hook->bucket_bytes(comm_).value_or(bucket_bytes);
    GradientReducer reducer(comm_, layout,
                            {.buckets = BucketBytes{bytes}, .hook = hook, .wire = options_.wire});
    reducer.count_bad_values();
    result.push_back({i, std::move(ids), std::move(reducer), detail::steps_behind(options_, i)});
  }
  return result;
}

void LocalSteps::State::check(const LocalStepsOptions& options) const {
  const ErrorContext here{comm_.rank(), object, 0};
  if (options.every < 1)
    throw Error(ErrorKind::usage, text("an outer step every ", options.every, " inner steps"),
                "set LocalStepsOptions::every to 1 or more", here);
  detail::check_streaming(options);
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

LocalStepsAccount LocalSteps::State::account() const {
  LocalStepsAccount result = account_;
  for (const Fragment& one : fragments_) result.exposed_seconds += one.reducer.exposed_seconds();
  return result;
}

std::int64_t LocalSteps::State::held_bytes() const {
  std::int64_t of_reducers = 0;
  for (const Fragment& one : fragments_) of_reducers += one.reducer.held_bytes();
  return of_reducers +
         static_cast<std::int64_t>(outer_.size_bytes() + momentum_.size_bytes() + scratch_.size_bytes());
}

std::int64_t LocalSteps::State::inner_steps() const {
  std::int64_t most = 0;
  for (const Fragment& one : fragments_) most = std::max(most, one.moved);
  return most;
}

int LocalSteps::State::fragment_of(ParamId id) const {
  (void)layout_.count(id);  // refuses what is no parameter
  return fragment_of_[index(id)];
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
int LocalSteps::fragment_of(ParamId id) const {
  return state_->fragment_of(id);
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
