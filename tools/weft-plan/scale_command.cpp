// Prints what the room scale/ predicts.

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cstdio>
#include <iostream>

#include "commands.hpp"
#include "common/outputs.hpp"
#include "scale_options.hpp"
#include "weft-plan/scale/calibration.hpp"
#include "weft-plan/scale/fitting.hpp"
#include "weft-plan/scale/step.hpp"
#include "weft/core/error.hpp"

namespace weft::plan {
namespace {

namespace json = boost::json;
using scale::Step;

template <class... Values>
std::string formatted(const char* format, Values... values) {
  std::array<char, 200> words{};
  std::snprintf(words.data(), words.size(), format, values...);
  return words.data();
}

std::string gigabytes(double bytes) {
  return formatted("%.1f GB", bytes / 1e9);
}

bool fits(const ScaleCommand& command, const Step& step) {
  return step.memory.bytes() <= command.hardware.hardware.memory_bytes;
}

void print_plan(const ScaleCommand& command, std::ostream& out) {
  const scale::Plan& plan = command.plan;
  out << command.model.name << ", "
      << formatted("%.4g", static_cast<double>(command.model.parameters()) / 1e9) << " G parameters, on "
      << plan.gpus << " GPUs " << command.hardware.hardware.name << ": data " << plan.data() << ", tensor "
      << plan.tensor << (plan.sequence_parallel ? " with sequence" : "") << ", pipeline " << plan.pipeline;
  if (plan.virtual_stages > 1) out << " x " << plan.virtual_stages << " virtual stages";
  if (plan.context > 1) out << ", context " << plan.context;
  if (plan.zero > 0) out << ", ZeRO " << plan.zero;
  out << "; " << plan.microbatches() << " micro-batches of " << plan.micro_batch;
  if (plan.pipeline > 1) out << " by " << plan.schedule;
  out << "; recomputation " << name(plan.recompute) << ", " << name(plan.precision) << ", " << plan.software
      << '\n';
}

void print_parts(const Step& step, std::ostream& out) {
  out << formatted("%-34s %10s %7s\n", "part of the step", "seconds", "share");
  for (const scale::Part& part : step.parts) {
    if (part.seconds == 0) continue;
    out << formatted("%-34s %10.4f %6.1f%%\n", part.name.c_str(), part.seconds,
                     100 * part.seconds / step.seconds);
  }
}

void print_step(const ScaleCommand& command, const Step& step, std::ostream& out) {
  const auto tokens = static_cast<double>(command.plan.global_batch * command.model.sequence);
  out << formatted("step %.4g s (%.4g to %.4g), ", step.seconds, step.low, step.high)
      << formatted("%.1f TFLOP/s a GPU", step.operations_per_gpu(command.plan) / 1e12)
      << formatted(", %.4g tokens a second", tokens / step.seconds) << '\n'
      << "memory " << gigabytes(step.memory.bytes()) << " of "
      << gigabytes(command.hardware.hardware.memory_bytes) << " on each GPU of device " << step.memory.device
      << " of the pipeline\n";
  print_parts(step, out);
}

void print_explanation(const ScaleCommand& command, const Step& step, std::ostream& out) {
  out << formatted("\n%-34s %10s\n", "part of the memory", "GB");
  for (const scale::MemoryPart& part : step.memory.parts)
    out << formatted("%-34s %10.3f\n", part.name.c_str(), part.bytes / 1e9);
  const scale::Hardware& hardware = command.hardware.hardware;
  scale::Hardware numbers = hardware;
  out << '\n'
      << hardware.name << ": peak " << formatted("%.4g", hardware.bf16 / 1e12) << " TFLOP/s, memory "
      << formatted("%.4g", hardware.memory_rate / 1e12) << " TB/s, "
      << formatted("%.4g", hardware.node.rate / 1e9) << " GB/s within a node, "
      << formatted("%.4g", hardware.network.rate / 1e9) << " GB/s between nodes\nfitted to published runs:";
  for (const std::string& one : command.hardware.fitted)
    out << ' ' << one << ' ' << formatted("%.3f", number_of(numbers, one));
  out << "\nsoftware " << command.plan.software << ": " << software_of(hardware, command.plan).about << '\n';
}

/// Says what takes most, and what would fit.
void print_no_room(const ScaleCommand& command, const Step& step, std::ostream& out) {
  const auto largest = std::ranges::max_element(step.memory.parts, {}, &scale::MemoryPart::bytes);
  out << "this plan does not fit: " << gigabytes(step.memory.bytes()) << " of "
      << gigabytes(command.hardware.hardware.memory_bytes) << ", of which " << largest->name << " take "
      << gigabytes(largest->bytes) << "; ";
  const auto changes = what_would_fit(command.model, command.hardware.hardware, command.plan);
  if (changes.empty()) out << "none of the usual options alone makes it fit";
  for (std::size_t i = 0; i < changes.size(); ++i)
    out << (i == 0 ? "it would with " : i + 1 == changes.size() ? " or " : ", ") << changes[i];
  out << '\n';
}

json::object plan_json(const scale::Plan& plan) {
  return {{"gpus", plan.gpus},
          {"data", plan.data()},
          {"tensor", plan.tensor},
          {"pipeline", plan.pipeline},
          {"context", plan.context},
          {"virtual_stages", plan.virtual_stages},
          {"schedule", plan.schedule},
          {"micro_batch", plan.micro_batch},
          {"microbatches", plan.microbatches()},
          {"zero", plan.zero},
          {"recompute", name(plan.recompute)},
          {"sequence_parallel", plan.sequence_parallel},
          {"dtype", name(plan.precision)},
          {"software", plan.software}};
}

std::string step_json(const ScaleCommand& command, const Step& step) {
  json::object parts, memory;
  for (const scale::Part& part : step.parts) parts[part.name] = part.seconds;
  for (const scale::MemoryPart& part : step.memory.parts) memory[part.name] = part.bytes;
  const auto gpus = static_cast<double>(command.plan.gpus);
  const auto tokens = static_cast<double>(command.plan.global_batch * command.model.sequence);
  const json::object all{{"hardware", command.hardware.hardware.name},
                         {"parameters", command.model.parameters()},
                         {"plan", plan_json(command.plan)},
                         {"step_seconds", {{"value", step.seconds}, {"low", step.low}, {"high", step.high}}},
                         {"tflops_per_gpu", step.operations_per_gpu(command.plan) / 1e12},
                         {"model_tflops_per_gpu", step.model_operations / step.seconds / gpus / 1e12},
                         {"tokens_per_second", tokens / step.seconds},
                         {"memory_bytes_per_rank", step.memory.bytes()},
                         {"fits", fits(command, step)},
                         {"memory", std::move(memory)},
                         {"breakdown", std::move(parts)}};
  return json::serialize(all) + "\n";
}

/// The runs of the hardware file, and how far off a prediction is: fitted to all, and with the run left out.
int run_runs(const ScaleCommand& command) {
  tool::Outputs outputs("weft-plan");
  outputs.open("--json", command.json);
  const auto rows = rows_of(command.hardware);
  if (rows.empty())
    throw Error(ErrorKind::usage, text(command.hardware.hardware.name, " has no runs"),
                "a hardware file has them under \"runs\"");
  const auto errors = errors_of(command.hardware.hardware, rows);
  const auto left_out = left_out_errors(command.hardware, rows);
  std::ostream& out = outputs.people();
  out << formatted("%-28s %-18s %10s %10s %8s %9s\n", "run", "software", "published", "predicted", "error",
                   "left out");
  json::array all;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double predicted = rows[i].seconds * (1 + errors[i]);
    out << formatted("%-28s %-18s %9.3fs %9.3fs %+7.2f%% %+8.2f%%\n", rows[i].name.c_str(),
                     rows[i].plan.software.c_str(), rows[i].seconds, predicted, 100 * errors[i],
                     100 * left_out[i]);
    all.push_back({{"run", rows[i].name},
                   {"source", rows[i].source},
                   {"plan", plan_json(rows[i].plan)},
                   {"published_seconds", rows[i].seconds},
                   {"predicted_seconds", predicted},
                   {"error", errors[i]},
                   {"left_out_error", left_out[i]}});
  }
  const std::vector<double> aside = set_aside_errors(command.hardware, rows);
  const auto summary = [&](const char* words, const std::vector<double>& some) {
    out << formatted("%s: mean %.2f %%, worst %.2f %%\n", words, 100 * scale::mean_size(some),
                     100 * scale::largest_size(some));
    return json::object{{"mean", scale::mean_size(some)}, {"worst", scale::largest_size(some)}};
  };
  json::object summaries;
  summaries["fitted"] = summary("fitted to all", errors);
  summaries["left_out"] = summary("each left out", left_out);
  summaries["set_aside"] = summary("every third set aside", aside);
  outputs.write({{"--json", json::serialize(json::object{{"hardware", command.hardware.hardware.name},
                                                         {"errors", std::move(summaries)},
                                                         {"runs", std::move(all)}}) +
                                "\n"}});
  return 0;
}

std::string cut_of(const scale::Plan& plan) {
  return formatted("%lld x %lld x %lld", static_cast<long long>(plan.tensor),
                   static_cast<long long>(plan.pipeline), static_cast<long long>(plan.virtual_stages));
}

/// The part in which a plan loses most, and what would have to be faster for it to win.
std::string reason_of(const scale::Candidate& one) {
  if (one.loses_by.empty()) return "";
  std::string words = formatted("%.3g s more in %s", one.loses_seconds, one.loses_by.c_str());
  if (one.faster > 0) words += formatted("; wins if that were %.3g times as fast", one.faster);
  return words;
}

int run_search(const ScaleCommand& command) {
  tool::Outputs outputs("weft-plan");
  outputs.open("--json", command.json);
  const scale::Search found = search(command.model, command.hardware.hardware, *command.search, command.best);
  std::ostream& out = outputs.people();
  out << found.plans << " plans divide; " << found.too_large << " do not fit "
      << gigabytes(command.hardware.hardware.memory_bytes) << ", " << found.predicted
      << " were predicted, the others are slower by a bound\n";
  if (found.best.empty()) out << "no plan fits\n";
  if (!found.best.empty())
    out << formatted("%9s  %-22s %5s %6s %5s %-10s %-9s %9s\n", "step", "tensor x pipe x virtual", "data",
                     "micro", "ZeRO", "recomputed", "sequence", "memory");
  json::array all;
  for (const scale::Candidate& one : found.best) {
    const scale::Plan& plan = one.plan;
    out << formatted("%8.4gs  %-22s %5lld %6lld %5d %-10s %-9s %9s", one.step.seconds, cut_of(plan).c_str(),
                     static_cast<long long>(plan.data()), static_cast<long long>(plan.micro_batch), plan.zero,
                     name(plan.recompute), plan.sequence_parallel ? "parallel" : "-",
                     gigabytes(one.step.memory.bytes()).c_str());
    if (command.explains) out << "  " << reason_of(one);
    out << '\n';
    json::object entry{{"plan", plan_json(plan)},
                       {"step_seconds", one.step.seconds},
                       {"memory_bytes_per_rank", one.step.memory.bytes()}};
    if (!one.loses_by.empty())
      entry["loses"] = {
          {"part", one.loses_by}, {"seconds", one.loses_seconds}, {"wins_if_faster", one.faster}};
    all.push_back(std::move(entry));
  }
  outputs.write({{"--json", json::serialize(json::object{{"plans", found.plans},
                                                         {"predicted", found.predicted},
                                                         {"too_large", found.too_large},
                                                         {"best", std::move(all)}}) +
                                "\n"}});
  return found.best.empty() ? 1 : 0;
}

}  // namespace

int run_scale(const std::vector<std::string>& arguments) {
  const ScaleCommand command = parse_scale(arguments);
  if (command.help) {
    std::cout << scale_help();
    return 0;
  }
  if (command.runs) return run_runs(command);
  if (command.search) return run_search(command);
  tool::Outputs outputs("weft-plan");
  outputs.open("--json", command.json);
  const Step step = predict(command.model, command.hardware.hardware, command.plan);
  std::ostream& out = outputs.people();
  print_plan(command, out);
  print_step(command, step, out);
  if (command.explains) print_explanation(command, step, out);
  if (!fits(command, step)) print_no_room(command, step, out);
  outputs.write({{"--json", step_json(command, step)}});
  return fits(command, step) ? 0 : 1;
}

}  // namespace weft::plan
