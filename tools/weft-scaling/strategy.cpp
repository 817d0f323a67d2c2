#include "strategy.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "codecs.hpp"
#include "pipelines.hpp"
#include "weft/compression/auto_hook.hpp"

namespace weft::scaling {
namespace {

constexpr std::string_view offload = "+offload";
constexpr std::string_view pipelined = "pipeline:";
constexpr std::string_view local = "local:";

/// Nothing, or a colon and a folder.
bool ends_offload(const std::string& strategy, std::size_t at) {
  return at == strategy.size() || (strategy[at] == ':' && at + 1 < strategy.size());
}

bool is_chosen(const Options& options) {
  return std::ranges::find(options.strategies, chosen) != options.strategies.end();
}

std::int64_t start_step(const Options& options) {
  return options.start_step.value_or(std::min<std::int64_t>(5, options.steps / 4));
}

/// All of the word is a number.
template <class Number>
bool reads(std::string_view word, Number& number) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size() && !word.empty();
}

/// Of "local:H", "local:H/P", and what follows after colons, in any order: delay=D, mixing=A, average.
LocalChoice local_choice(const std::string& first, const std::string& strategy) {
  constexpr std::string_view delay = "delay=", mixing = "mixing=";
  const auto refused = [&](const std::string& advice) {
    return Error(ErrorKind::usage, text("--strategies names '", strategy, "'"), advice);
  };
  LocalChoice result;
  std::string_view rest = std::string_view(first).substr(local.size());
  bool more = true;
  const auto next_word = [&rest, &more] {
    const std::size_t colon = rest.find(':');
    more = colon != std::string_view::npos;
    return std::exchange(rest, more ? rest.substr(colon + 1) : std::string_view()).substr(0, colon);
  };
  const std::string_view steps = next_word();
  const std::size_t slash = steps.find('/');
  const bool has_fragments = slash != std::string_view::npos;
  if (!reads(steps.substr(0, slash), result.every) || result.every < 1 ||
      (has_fragments && (!reads(steps.substr(slash + 1), result.fragments) || result.fragments < 1)))
    throw refused(
        "give local:H or local:H/P with whole numbers of steps and of fragments from 1 on, such as local:10 "
        "or "
        "local:32/4");
  while (more) {
    const std::string_view word = next_word();
    const bool is_known =
        word == "average" ||
        (word.starts_with(delay) && reads(word.substr(delay.size()), result.delay) && result.delay >= 0) ||
        (word.starts_with(mixing) && reads(word.substr(mixing.size()), result.mixing) && result.mixing >= 0 &&
         result.mixing < 1);
    if (!is_known)
      throw refused(
          text("'", word,
               "' after local:H is none of average, delay=STEPS and mixing=SHARE, with a share from 0 "
               "to below 1"));
    if (word == "average") result.outer = OuterAverage{};
  }
  if (result.every % result.fragments != 0)
    throw refused(text(result.every, " steps are no multiple of ", result.fragments, " fragments"));
  if (result.delay >= result.every)
    throw refused(text("a delay of ", result.delay, " is not below ", result.every, " steps"));
  return result;
}

}  // namespace

// local:H, perhaps with fragments and words after colons, and then perhaps + and a codec; pipeline:SCHEDULE, and then perhaps + and what follows; ddp, or zeroN, and then perhaps + and a codec, and
// after zeroN +offload or +offload:DIR.
Strategy parsed(const std::string& strategy) {
  if (strategy == chosen) return {.codec = chosen};
  if (strategy == from_deepspeed) return {.deepspeed = true};
  if (strategy.starts_with(pipelined)) {
    const std::size_t plus = strategy.find('+');
    const bool is_sharded = plus != std::string::npos && strategy.compare(plus, 5, "+zero") == 0;
    if (plus != std::string::npos && !is_sharded)
      throw Error(ErrorKind::usage, text("--strategies names '", strategy, "'"),
                  "a pipeline goes with +zero1, +zero2 and +zero3");
    Strategy result = is_sharded ? parsed(strategy.substr(plus + 1)) : Strategy();
    result.schedule = strategy.substr(pipelined.size(), plus - std::min(plus, pipelined.size()));
    return result;
  }
  const std::size_t end = strategy.find(offload);
  if (strategy.starts_with("zero") && end != std::string::npos &&
      ends_offload(strategy, end + offload.size())) {
    Strategy result = parsed(strategy.substr(0, end));
    result.offload.share = 1;
    if (end + offload.size() < strategy.size())
      result.offload.directory = strategy.substr(end + offload.size() + 1);
    return result;
  }
  const std::size_t plus = strategy.find('+');
  const std::string first = strategy.substr(0, plus);
  Strategy result;
  if (first.starts_with("zero") && first.size() == 5 && first[4] >= '0' && first[4] <= '3') {
    result.stage = first[4] - '0';
  } else if (first.starts_with(local)) {
    result.local = local_choice(first, strategy);
  } else if (first != "ddp" && first != "nocomm") {
    throw Error(ErrorKind::usage, text("--strategies names '", strategy, "'"),
                "allowed are " + allowed_strategies());
  }
  if (plus != std::string::npos) result.codec = strategy.substr(plus + 1);
  return result;
}

bool is_pipeline(const std::string& strategy) {
  return strategy.starts_with(pipelined);
}

bool is_local(const std::string& strategy) {
  return strategy.starts_with(local);
}

bool starts_late(const std::string& strategy) {
  const auto codec = parsed(strategy).codec;
  return codec && *codec != "fp16" && *codec != "bf16";
}

bool is_coded(const std::string& strategy) {
  return parsed(strategy).codec.has_value();
}

std::string allowed_strategies() {
  return "nocomm, ddp, zero1, zero2, zero3, zeroN+offload (optimizer state on the host; +offload:DIR: in "
         "files there), each but nocomm with +fp16, +bf16, +powersgd:RANK (and "
         "powersgd:RANK:alternating) or +CODEC (fp8-e4m3, fp8-e5m2, int8, int4, fp4, top-k:F, random-k:F), "
         "and auto; "
         "local:H (DiLoCo: an outer step every H steps), local:H/P (in P fragments), each with :average, "
         ":delay=STEPS "
         "and :mixing=SHARE, and with +CODEC; "
         "pipeline:NAME (1f1b, zb-h1, zb-v, ...) and pipeline:auto, each with +zero1, +zero2 or +zero3";
}

void check_strategy(const std::string& strategy) {
  if (strategy == from_deepspeed)
    throw Error(ErrorKind::usage, text("--strategies names '", strategy, "'"),
                "give --deepspeed FILE instead");
  const Strategy one = parsed(strategy);
  const auto refused = [&](const std::string& why) {
    return Error(ErrorKind::usage, text("--strategies names '", strategy, "'"), why);
  };
  if (one.codec && strategy != chosen && (strategy.starts_with("nocomm") || *one.codec == chosen))
    throw refused("allowed are " + allowed_strategies());
  try {
    if (one.schedule) check_schedule(*one.schedule);
    if (one.codec) (void)hook_of(*one.codec, 0);
  } catch (const Error& error) {
    throw refused(text(error.problem(), error.advice().empty() ? "" : "; ", error.advice()));
  }
}

zero::ShardedOptions sharding_of(const Strategy& strategy, const Options& options) {
  if (strategy.deepspeed) return options.deepspeed_options.value().sharding;
  return {.stage = strategy.stage,
          .hook = strategy.codec && !strategy.local ? hook_of(*strategy.codec, start_step(options)) : nullptr,
          .bucket_bytes = options.bucket_bytes};
}

// Its hooks count outer steps: without --start-step they begin with the first.
LocalStepsOptions local_options_of(const Strategy& strategy, const Options& options) {
  const LocalChoice& local = strategy.local.value();
  LocalStepsOptions result{.every = local.every,
                           .fragments = local.fragments,
                           .delay = local.delay,
                           .mixing = local.mixing,
                           .outer = local.outer};
  if (strategy.codec)
    result.make_hook = [codec = *strategy.codec, start = options.start_step.value_or(0)](int) {
      return hook_of(codec, start);
    };
  return result;
}

zero::Offload offload_of(const Strategy& strategy, const Options& options) {
  return strategy.deepspeed ? options.deepspeed_options.value().stepping.offload : strategy.offload;
}

void check_pipelines(const Options& options, int ranks) {
  for (const std::string& strategy : options.strategies) {
    const Strategy one = parsed(strategy);
    if (one.schedule) check_pipeline(one, options, ranks);
  }
}

std::int64_t first_counted(const Options& options) {
  const std::int64_t warm_up = std::min<std::int64_t>(3, options.steps / 4);
  const bool late = std::ranges::any_of(options.strategies, starts_late);
  const std::int64_t begun = late ? std::min(start_step(options), options.steps / 4) : 0;
  return warm_up + (is_chosen(options) ? std::max(begun, AutoHook::steps_before) : begun);
}

void check_steps(const Options& options) {
  if (!is_chosen(options) || options.steps > first_counted(options)) return;
  throw Error(ErrorKind::usage,
              text("--steps ", options.steps, " with the strategy ", chosen, ", which chooses after ",
                   AutoHook::steps_before),
              "steps before do not count for times: give --steps 10 or more");
}

}  // namespace weft::scaling
