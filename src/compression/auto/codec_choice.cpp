// Chooses a codec: predicts a step for each candidate, from exact to lossy, and keeps the milder one
// unless the next saves the share of the step that is asked for. Cost: one pass over the
// buckets for each tensor.

#include "weft/compression/codec_choice.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <set>
#include <span>
#include <sstream>

#include "compression/auto/step_forecast.hpp"
#include "core/base/fnv.hpp"

namespace weft {

namespace detail {

void check(const AutoOptions& options) {
  if (options.rank < 1)
    throw Error(ErrorKind::usage, text("auto with PowerSGD of rank ", options.rank), "a rank is 1 or more");
  if (!(options.least_gain >= 0 && options.least_gain < 1))
    throw Error(ErrorKind::usage, text("auto with a least gain of ", options.least_gain),
                "give a share of a step from 0 to below 1, such as 0.05");
  if (options.start_step < 0)
    throw Error(ErrorKind::usage, text("auto with PowerSGD from step ", options.start_step),
                "steps count from 0");
}

}  // namespace detail

namespace {

using detail::StepForecast;

void check(const BucketPlan& plan, const StepProfile& profile) {
  const auto refuse_unless = [](bool holds, const auto&... problem) {
    if (!holds) throw Error(ErrorKind::usage, text("codecs chosen by ", problem...), "measure again");
  };
  const auto is_time = [](double seconds) { return seconds >= 0 && std::isfinite(seconds); };
  refuse_unless(profile.ready_seconds.size() == plan.buckets().size(), profile.ready_seconds.size(),
                " ready times for ", plan.buckets().size(), " buckets");
  for (const double ready : profile.ready_seconds)
    refuse_unless(is_time(ready), "a bucket that is ready after ", ready, " s");
  refuse_unless(is_time(profile.step_seconds), "a step of ", profile.step_seconds, " s");
  refuse_unless(profile.slowdown >= 1 && std::isfinite(profile.slowdown), "a slowdown of ", profile.slowdown);
  const auto& [latency, rate] = profile.link;
  refuse_unless(is_time(latency) && rate > 0 && std::isfinite(rate), "a link of ", latency, " s and ", rate,
                " bytes/s");
  const auto& [bf16, matrix, factor, copying] = profile.coding;
  for (const double seconds : {bf16, matrix, factor, copying})
    refuse_unless(is_time(seconds), "coding that takes ", seconds, " s an element");
}

std::string milliseconds(double seconds) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(2) << seconds * 1e3 << " ms";
  return std::move(out).str();
}

double percent(double share) {
  return std::round(share * 1000) / 10;
}

/// A lossier candidate must have a shorter step than the best milder one, by the margin. @returns the reasons
std::string decide(CodecChoice& choice, double least_gain) {
  const auto* best = &choice.candidates.front();
  std::string why;
  for (const auto& next : std::span(choice.candidates).subspan(1)) {
    const double gain = best->step_seconds > 0 ? 1 - next.step_seconds / best->step_seconds : 0;
    const bool pays = gain > 0 && gain >= least_gain;
    why +=
        text(why.empty() ? "" : "; ", next.name, pays ? " pays: " : " does not pay: ", "its step would be ",
             percent(std::abs(gain)), gain < 0 ? " % longer" : " % shorter", " than with ", best->name,
             pays ? "" : text(", and ", percent(least_gain), " % shorter is asked for"));
    if (pays) best = &next;
  }
  choice.chosen = best->name;
  return why;
}

std::string measured(const StepProfile& profile) {
  std::ostringstream out;
  out << "a collective takes " << std::setprecision(3) << profile.link.latency_seconds * 1e6 << " us and "
      << 1e9 / profile.link.bytes_per_second << " ms/MB; coding takes " << profile.coding.bf16 * 1e9
      << " (bf16) or " << profile.coding.matrix * 1e9 << " (PowerSGD) ms for a million elements, "
      << (profile.beside ? "beside the backward pass" : "in the way of the backward pass");
  if (profile.slowdown > 1)
    out << ", where everything takes " << profile.slowdown << " times as long as alone";
  return std::move(out).str();
}

}  // namespace

CodecChoice choose_codecs(const BucketPlan& plan, const StepProfile& profile, const AutoOptions& options) {
  detail::check(options);
  check(plan, profile);
  const StepForecast forecast(plan, profile, options.rank);
  const double exact = forecast.exposed_uncompressed();
  // The part of the observed step that is not exposed; it is at least the backward pass.
  double computing = profile.step_seconds - exact;
  for (const double ready : profile.ready_seconds) computing = std::max(computing, ready);

  CodecChoice choice;
  const auto add = [&](std::string name, double exposed) {
    choice.candidates.push_back({std::move(name), exposed, computing + exposed});
  };
  add("none", exact);
  add("bf16", forecast.exposed_in_bf16());
  const std::set<ParamId> compressed = forecast.worth_compressing();
  const std::string low_rank = text("powersgd:", options.rank);
  if (!compressed.empty()) add(low_rank, forecast.exposed_compressing(compressed));
  choice.why = decide(choice, options.least_gain);
  if (compressed.empty()) choice.why += text("; ", low_rank, " makes no step shorter for any tensor");
  choice.why += "; " + measured(profile);
  for (int i = 0; i < plan.layout().parameters(); ++i) {
    const bool is_exact = choice.chosen == low_rank && !compressed.contains(ParamId{i});
    choice.tensors.push_back({plan.layout().name(ParamId{i}), is_exact ? "none" : choice.chosen});
  }
  return choice;
}

std::uint64_t CodecChoice::hash() const {
  detail::Fnv hash;
  hash.add(chosen);
  for (const auto& [name, codec] : tensors) hash.add(name).add(codec);
  return hash.value();
}

std::vector<std::string> CodecChoice::whole() const {
  std::vector<std::string> names;
  for (const auto& [name, codec] : tensors) {
    if (codec == "none") names.push_back(name);
  }
  return names;
}

std::string CodecChoice::in_words() const {
  const std::size_t exact = whole().size();
  const std::size_t coded = chosen == "none" ? exact : tensors.size() - exact;
  return text(chosen, " for ", coded, " of ", tensors.size(), " tensors: ", why);
}

std::ostream& operator<<(std::ostream& out, const CodecChoice& choice) {
  for (const auto& [name, exposed, step] : choice.candidates) {
    out << (name == choice.chosen ? "* " : "  ") << name << ": exposed " << milliseconds(exposed)
        << ", a step of " << milliseconds(step) << '\n';
  }
  return out << choice.in_words() << '\n';
}

}  // namespace weft
