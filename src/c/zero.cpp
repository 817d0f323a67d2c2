// ShardedParams and their optimizer.

#include "c/training.hpp"
#include "weft/core/copy.hpp"

using namespace weft;

namespace weft::c {

ParamId Zero::known(int id) const {
  const int all = params->layout().parameters();
  if (id < 0 || id >= all)
    throw Error(ErrorKind::usage, text("a parameter of number ", id, " in a layout of ", all),
                "parameters are numbered from 0, in the order in which they were added");
  return ParamId{id};
}

zero::ShardedOptimizer& Zero::set_optimizer() const {
  if (optimizer == nullptr)
    throw Error(ErrorKind::usage, "no optimizer was set",
                "call weft_zero_set_optimizer() once all parameters are loaded");
  return *optimizer;
}

namespace {

std::vector<ParamId> ids_of(const int* ids, int count, const char* argument) {
  std::vector<ParamId> all;
  if (count < 0 || (ids == nullptr && count > 0))
    throw Error(ErrorKind::usage,
                text("`", argument, "` of ", count, " parameters", ids == nullptr ? " at NULL" : ""));
  for (int i = 0; i < count; ++i) all.push_back(ParamId{ids[i]});
  return all;
}

zero::Optimizer rule_of(const weft_optimizer_options_t& given) {
  const double rate = given.learning_rate;
  switch (given.rule) {
    case WEFT_ADAMW:
      return zero::AdamW{rate, given.beta1, given.beta2, given.epsilon, given.weight_decay};
    case WEFT_ADAM:
      return zero::Adam{rate, given.beta1, given.beta2, given.epsilon, given.weight_decay};
    case WEFT_SGD:
      return zero::Sgd{rate, given.momentum, given.weight_decay};
    case WEFT_LAMB:
      return zero::Lamb{rate, given.beta1, given.beta2, given.epsilon, given.weight_decay};
    case WEFT_LARS:
      return zero::Lars{rate, given.momentum, given.weight_decay, given.trust_coefficient};
    case WEFT_MUON: {
      zero::Muon muon;
      muon.learning_rate = rate;
      muon.momentum = given.momentum;
      muon.weight_decay = given.weight_decay;
      muon.others.beta1 = given.beta1;
      muon.others.beta2 = given.beta2;
      muon.others.epsilon = given.epsilon;
      return muon;
    }
    default:
      refuse_word("rule", given.rule, WEFT_MUON, "weft_rule_t");
  }
}

weft_optimizer_options_t defaults_of(weft_rule_t rule) {
  weft_optimizer_options_t all{};
  all.size = sizeof all;
  all.rule = rule;
  const auto take = [&](const auto& one) {
    all.learning_rate = one.learning_rate;
    all.weight_decay = one.weight_decay;
    if constexpr (requires { one.beta1; }) {
      all.beta1 = one.beta1;
      all.beta2 = one.beta2;
      all.epsilon = one.epsilon;
    }
    if constexpr (requires { one.momentum; }) all.momentum = one.momentum;
    if constexpr (requires { one.trust_coefficient; }) all.trust_coefficient = one.trust_coefficient;
    if constexpr (requires { one.others; }) {
      all.beta1 = one.others.beta1;
      all.beta2 = one.others.beta2;
      all.epsilon = one.others.epsilon;
    }
  };
  switch (rule) {
    case WEFT_ADAMW:
      take(zero::AdamW{});
      break;
    case WEFT_ADAM:
      take(zero::Adam{});
      break;
    case WEFT_SGD:
      take(zero::Sgd{});
      break;
    case WEFT_LAMB:
      take(zero::Lamb{});
      break;
    case WEFT_LARS:
      take(zero::Lars{});
      break;
    case WEFT_MUON:
      take(zero::Muon{});
      break;
    default:
      refuse_word("rule", rule, WEFT_MUON, "weft_rule_t");
  }
  return all;
}

}  // namespace
}  // namespace weft::c

weft_status_t weft_optimizer_defaults(weft_rule_t rule, weft_optimizer_options_t* options) {
  return c::call("weft_optimizer_defaults", [&] {
    c::options_of(c::given(options, "options"), "weft_optimizer_options_t");
    *options = c::defaults_of(rule);
  });
}
weft_status_t weft_zero_create(weft_comm_t comm, weft_layout_t layout, const weft_zero_options_t* options,
                               weft_zero_t* out) {
  return c::call("weft_zero_create", [&] {
    const Communicator& over = c::comm_of(comm);
    const c::Layout& parameters = c::layouts().at(layout, "layout");
    c::given(out, "out");
    const auto given = c::options_of(options, "weft_zero_options_t");
    zero::ShardedOptions known;
    known.stage = given.stage;
    known.hook = c::hook_of(given.hook, given.hook_start_step);
    if (given.bucket_bytes != 0) known.bucket_bytes = given.bucket_bytes;
    if (given.bucket_ring_bytes != 0) known.bucket_ring_bytes = given.bucket_ring_bytes;
    known.unused = c::unused_of(given.unused);
    known.count_bad_values = given.count_bad_values != 0;
    known.micro_batches = given.micro_batches;
    known.shard_ranks = given.shard_ranks;
    known.units = c::ids_of(given.units, given.units_count, "units");
    known.frozen = c::ids_of(given.frozen, given.frozen_count, "frozen");
    if (given.prefetch_bytes != 0) known.prefetch_bytes = given.prefetch_bytes;
    if (given.held_units != 0) known.held_units = given.held_units;
    known.whole_below = given.whole_below;
    known.offload_parameters = given.offload_parameters != 0;
    known.offload_gradients = given.offload_gradients != 0;
    known.initial_values = c::initial_values_of(given.initial_values);
    c::give(out, c::zeros(),
            c::Zero{std::make_unique<zero::ShardedParams>(over, parameters.layout(), known)});
  });
}
weft_status_t weft_zero_load(weft_zero_t zero, int id, const void* values, int device) {
  return c::call("weft_zero_load", [&] {
    const c::Zero& mine = c::zeros().at(zero, "zero");
    const ParamId known = mine.known(id);
    const ParamLayout& layout = mine.params->layout();
    mine.params->load(known, ConstView(c::given(values, "values"), layout.count(known), layout.dtype(),
                                       c::device_of(device)));
  });
}
weft_status_t weft_zero_set_optimizer(weft_zero_t zero, const weft_optimizer_options_t* options) {
  return c::call("weft_zero_set_optimizer", [&] {
    c::Zero& mine = c::zeros().at(zero, "zero");
    const weft_optimizer_options_t given =
        options == nullptr ? c::defaults_of(WEFT_ADAMW) : c::options_of(options, "weft_optimizer_options_t");
    if (mine.optimizer != nullptr)
      throw Error(ErrorKind::usage, "an optimizer was set before",
                  "set one; free the handle and make another");
    zero::ShardedOptimizerOptions known;
    if (given.clip_norm != 0) known.clip_norm = given.clip_norm;
    if (given.loss_scale != 0) known.loss_scale.emplace();
    if (given.skip_non_finite != 0) known.non_finite = zero::NonFinite::skip_step;
    if (given.split_masters != 0) known.master = zero::Master::split;
    known.offload.share = given.offload_share;
    if (given.decay_matrices != 0) known.groups = zero::decay_matrices(mine.params->layout());
    mine.optimizer =
        std::make_unique<zero::ShardedOptimizer>(*mine.params, c::rule_of(given), std::move(known));
  });
}
weft_status_t weft_zero_whole(weft_zero_t zero, int id, void* values) {
  return c::call("weft_zero_whole", [&] {
    const c::Zero& mine = c::zeros().at(zero, "zero");
    const ParamId known = mine.known(id);
    c::given(values, "values");
    const Buffer whole = mine.params->whole(known);
    std::memcpy(values, whole.view().data(), whole.size_bytes());
  });
}
int weft_zero_units(weft_zero_t zero) {
  return c::ask("weft_zero_units", -1, [&] { return c::zeros().at(zero, "zero").params->units(); });
}
int weft_zero_unit_of(weft_zero_t zero, int id) {
  return c::ask("weft_zero_unit_of", -1, [&] {
    const c::Zero& mine = c::zeros().at(zero, "zero");
    return mine.params->unit_of(mine.known(id));
  });
}
weft_status_t weft_zero_gather(weft_zero_t zero, int unit, weft_stream_t stream) {
  return c::call("weft_zero_gather", [&] {
    c::Zero& mine = c::zeros().at(zero, "zero");
    const Stream& on = c::stream_of(stream);
    if (unit < 0 || unit >= mine.params->units())
      throw Error(ErrorKind::usage, text("unit ", unit, " of ", mine.params->units()),
                  "units are numbered from 0");
    mine.held.emplace(unit, mine.params->gather(unit, on));
  });
}
weft_status_t weft_zero_release(weft_zero_t zero, int unit) {
  return c::call("weft_zero_release", [&] {
    if (c::zeros().at(zero, "zero").held.erase(unit) == 0)
      throw Error(ErrorKind::usage, text("unit ", unit, " is not held"),
                  "gather it first, and release it once");
  });
}
void* weft_zero_parameter(weft_zero_t zero, int id) {
  void* const none = nullptr;
  return c::ask("weft_zero_parameter", none, [&] {
    const c::Zero& mine = c::zeros().at(zero, "zero");
    const ParamId known = mine.known(id);
    const int unit = mine.params->unit_of(known);
    const auto held = mine.held.find(unit);
    if (held == mine.held.end())
      throw Error(ErrorKind::usage,
                  text("unit ", unit, ", which parameter ", id, " (", mine.params->layout().name(known),
                       ") is in, is not held"),
                  "gather it first");
    return held->second[known].data();
  });
}
weft_status_t weft_zero_begin_step(weft_zero_t zero, weft_exchange_t exchange) {
  return c::call("weft_zero_begin_step",
                 [&] { c::zeros().at(zero, "zero").params->begin_step(c::exchange_of(exchange)); });
}
int weft_zero_accumulating(weft_zero_t zero) {
  return c::ask("weft_zero_accumulating", -1,
                [&] { return c::zeros().at(zero, "zero").params->accumulating(); });
}
void* weft_zero_gradient(weft_zero_t zero, int id, weft_stream_t stream) {
  void* const none = nullptr;
  return c::ask("weft_zero_gradient", none, [&] {
    const c::Zero& mine = c::zeros().at(zero, "zero");
    return mine.params->gradient(mine.known(id), c::stream_of(stream)).data();
  });
}
weft_status_t weft_zero_ready(weft_zero_t zero, int id, weft_stream_t stream) {
  return c::call("weft_zero_ready", [&] {
    const c::Zero& mine = c::zeros().at(zero, "zero");
    mine.params->mark_ready(mine.known(id), c::stream_of(stream));
  });
}
weft_status_t weft_zero_poll(weft_zero_t zero) {
  return c::call("weft_zero_poll", [&] { c::zeros().at(zero, "zero").params->poll(); });
}
weft_status_t weft_zero_finish_step(weft_zero_t zero, weft_stream_t stream) {
  return c::call("weft_zero_finish_step",
                 [&] { c::zeros().at(zero, "zero").params->finish_step(c::stream_of(stream)); });
}
weft_status_t weft_zero_step(weft_zero_t zero, weft_stream_t stream, double learning_rate,
                             weft_step_result_t* result) {
  return c::call("weft_zero_step", [&] {
    const c::Zero& mine = c::zeros().at(zero, "zero");
    const Stream& on = c::stream_of(stream);
    if (result != nullptr) c::options_of(result, "weft_step_result_t");
    const zero::StepResult said = mine.set_optimizer().step(
        on, learning_rate == WEFT_OWN_RATE ? std::nullopt : std::optional(learning_rate));
    if (result != nullptr)
      *result = {sizeof *result, said.skipped ? 1 : 0, said.norm ? 1 : 0, said.norm.value_or(0)};
  });
}
double weft_zero_loss_scale(weft_zero_t zero) {
  return c::ask("weft_zero_loss_scale", -1.0,
                [&] { return c::zeros().at(zero, "zero").set_optimizer().loss_scale(); });
}
int64_t weft_zero_steps(weft_zero_t zero) {
  return c::ask("weft_zero_steps", int64_t{-1},
                [&] { return c::zeros().at(zero, "zero").set_optimizer().steps(); });
}
double weft_zero_exposed_seconds(weft_zero_t zero) {
  return c::ask("weft_zero_exposed_seconds", -1.0,
                [&] { return c::zeros().at(zero, "zero").params->exposed_seconds(); });
}
int64_t weft_zero_held_bytes(weft_zero_t zero) {
  return c::ask("weft_zero_held_bytes", int64_t{-1},
                [&] { return c::zeros().at(zero, "zero").params->held_bytes(); });
}
weft_status_t weft_zero_free(weft_zero_t zero) {
  return c::free_handle("weft_zero_free", c::zeros(), zero, "zero");
}
