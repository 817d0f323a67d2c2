// The memory of a model on each rank under every ZeRO stage: from its layout, or by a closed form over sizes.

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cstdio>
#include <functional>
#include <iostream>
#include <set>
#include <span>

#include "commands.hpp"
#include "common/outputs.hpp"
#include "core/base/strings.hpp"
#include "memory_options.hpp"
#include "weft-scaling/gpt/trainer/reference.hpp"
#include "weft/core/error.hpp"

namespace weft::plan {
namespace {

/// The model whose memory is planned: a layout with its units, or sizes alone.
struct SizedModel {
  std::string name;
  std::optional<ParamLayout> layout{};  // without one there is only the closed form
  std::vector<ParamId> units{};
  zero::ModelSize size{};
};

SizedModel laid_out(std::string name, ParamLayout layout, std::vector<ParamId> units) {
  const zero::ModelSize size = zero::ModelSize::of(layout, units);
  return {std::move(name), std::move(layout), std::move(units), size};
}

SizedModel reference(const MemoryCommand& command) {
  const auto model = examples::make_model<float>(command.model);
  std::vector<ParamId> units;
  for (const int first : model->groups()) units.push_back(ParamId{first});
  return laid_out(command.model, ParamLayout::of(model->parameters(), command.dtype), std::move(units));
}

// Radford et al. 2019; the head is the embedding.
SizedModel gpt(const MemoryCommand& command) {
  const std::int64_t width = command.width;
  std::vector<ParamSpec> specs{{"embedding.tokens", command.vocabulary * width},
                               {"embedding.positions", command.context * width}};
  std::vector<ParamId> units{ParamId{0}};
  const auto unit = [&] { units.push_back(ParamId{static_cast<std::int32_t>(specs.size())}); };
  for (int layer = 0; layer < command.layers; ++layer) {
    unit();
    const auto add = [&](const char* name, std::int64_t inputs, std::int64_t outputs) {
      specs.push_back({text("layer", layer, '.', name, ".weight"), inputs * outputs});
      specs.push_back({text("layer", layer, '.', name, ".bias"), outputs});
    };
    add("norm1", 1, width);
    add("qkv", width, 3 * width);
    add("projection", width, width);
    add("norm2", 1, width);
    add("up", width, 4 * width);
    add("down", 4 * width, width);
  }
  unit();
  specs.push_back({"norm.weight", width});
  specs.push_back({"norm.bias", width});
  return laid_out(text("a GPT of ", command.layers, " layers of width ", width),
                  ParamLayout(command.dtype, std::move(specs)), std::move(units));
}

// A third of a layer is its largest matrix, as in a GPT: 4 of 12 squares of the width.
SizedModel sizes(const MemoryCommand& command) {
  const std::int64_t all = *command.parameters;
  const std::int64_t unit = (all + command.layers - 1) / command.layers;
  return {.name = text("a model of ", command.layers, " equal layers"),
          .size = {.parameters = all,
                   .dtype = command.dtype,
                   .largest_parameter = (unit + 2) / 3,
                   .largest_unit = unit,
                   .units = command.layers}};
}

/// @throws Error (usage) for an unknown model
SizedModel sized_model(const MemoryCommand& command) {
  if (command.parameters) return sizes(command);
  return command.width > 0 ? gpt(command) : reference(command);
}

using zero::Place;

/// One ZeRO stage on one number of ranks.
struct MemoryCase {
  zero::MemoryOptions options{};
  zero::MemoryPlan plan{};      // of the layout, if there is one; otherwise the closed form
  zero::MemoryPlan estimate{};  // the closed form
  bool fits = false;
  std::int64_t largest = 0;             // parameters, by the closed form
  std::optional<int> least_ranks = {};  // the same
};

std::string printed(const char* format, double value) {
  std::array<char, 64> words{};
  std::snprintf(words.data(), words.size(), format, value);
  return words.data();
}

std::string mebibytes(std::int64_t bytes) {
  return bytes == 0 ? "-" : printed("%.2f", static_cast<double>(bytes) * 0x1p-20);
}

/// A number of parameters: 1.23 G.
std::string rounded(std::int64_t count) {
  const auto value = static_cast<double>(count);
  if (value >= 1e12) return printed("%.2f T", value * 1e-12);
  if (value >= 1e9) return printed("%.2f G", value * 1e-9);
  if (value >= 1e6) return printed("%.2f M", value * 1e-6);
  return text(count);
}

std::int64_t bytes_of(const zero::MemoryPlan& plan, zero::Content content, Place place) {
  const auto row = std::ranges::find_if(
      plan.rows, [&](const zero::MemoryRow& one) { return one.content == content && one.place == place; });
  return row == plan.rows.end() ? 0 : row->bytes;
}

using Words = std::function<std::string(const MemoryCase&)>;

void line(std::ostream& out, const std::string& what, std::span<const MemoryCase> cases, const Words& words) {
  std::string row = what;
  row.resize(std::max<std::size_t>(what.size(), 34), ' ');
  for (const MemoryCase& one : cases) {
    const std::string cell = words(one);
    row += std::string(cell.size() < 14 ? 14 - cell.size() : 1, ' ') + cell;
  }
  out << row << '\n';
}

std::string headed(const char* what, Place place) {
  std::string head = what;
  head.resize(22, ' ');
  return head + zero::name(place);
}

void table(bool has_layout, std::span<const MemoryCase> cases, std::ostream& out) {
  const int ranks = cases.front().plan.ranks;
  out << '\n';
  line(out, text("MiB on each of ", ranks, ranks == 1 ? " rank" : " ranks"), cases,
       [](const MemoryCase& one) { return text("stage ", one.plan.stage); });
  std::set<std::pair<zero::Content, Place>> rows;
  for (const MemoryCase& one : cases) {
    for (const zero::MemoryRow& row : one.plan.rows) rows.emplace(row.content, row.place);
  }
  for (const auto& [content, place] : rows) {
    line(out, headed(name(content), place), cases, [content = content, place = place](const MemoryCase& one) {
      return mebibytes(bytes_of(one.plan, content, place));
    });
  }
  for (const Place place : {Place::device, Place::host, Place::file}) {
    if (std::ranges::all_of(cases, [&](const MemoryCase& one) { return one.plan.bytes(place) == 0; }))
      continue;
    line(out, headed("all", place), cases,
         [&](const MemoryCase& one) { return mebibytes(one.plan.bytes(place)); });
    if (has_layout)
      line(out, headed("  by the closed form", place), cases,
           [&](const MemoryCase& one) { return mebibytes(one.estimate.bytes(place)); });
  }
}

void what_fits(const MemoryCommand& command, std::span<const MemoryCase> cases, std::ostream& out) {
  line(out, text("fits in ", mebibytes(command.device_bytes), " MiB"), cases,
       [](const MemoryCase& one) { return one.fits ? "yes" : "no"; });
  line(out, "largest model, parameters", cases,
       [](const MemoryCase& one) { return one.largest == 0 ? "none" : rounded(one.largest); });
  line(out, "least ranks for this one", cases,
       [](const MemoryCase& one) { return one.least_ranks ? text(*one.least_ranks) : "none"; });
  const auto first = std::ranges::find(cases, true, &MemoryCase::fits);
  if (first == cases.end()) {
    out << "none of these stages fits\n";
  } else {
    out << "the least stage that fits is " << first->plan.stage << '\n';
  }
}

/// In a table of all stages, an option that a stage does not have is left out there.
zero::MemoryOptions options_of(const MemoryCommand& command, int number) {
  zero::MemoryOptions options = command.options;
  options.stage = number;
  if (command.names_stages) return options;
  const zero::Stage stage = zero::stage(number);
  if (stage.gradients == zero::Placement::replicated) {
    options.bucket_ring_bytes.reset();
    options.offload.gradients = false;
  }
  if (stage.parameters == zero::Placement::replicated) options.offload.parameters = false;
  return options;
}

/// Each stage for every number of ranks, in the order of the command. @throws Error (usage) if there is no
/// plan
std::vector<MemoryCase> memory_cases(const MemoryCommand& command, const SizedModel& model) {
  std::vector<MemoryCase> cases;
  for (const int ranks : command.ranks) {
    for (const int stage : command.stages) {
      MemoryCase one{.options = options_of(command, stage)};
      one.options.units = model.units;
      one.estimate = zero::estimate_memory(model.size, ranks, one.options);
      one.plan = model.layout ? zero::plan_memory(*model.layout, ranks, one.options) : one.estimate;
      one.fits = one.plan.bytes(Place::device) <= command.device_bytes;
      one.largest = zero::largest_model(model.size, ranks, one.options, command.device_bytes);
      one.least_ranks = zero::least_ranks(model.size, one.options, command.device_bytes);
      cases.push_back(std::move(one));
    }
  }
  return cases;
}

void explain_memory(const MemoryCommand& command, const SizedModel& model,
                    const std::vector<MemoryCase>& cases, std::ostream& out) {
  const zero::ModelSize& size = model.size;
  out << detail::printable(model.name) << ": " << rounded(size.parameters) << " parameters of " << size.dtype
      << " in " << size.units << " units, the largest of " << rounded(size.largest_unit)
      << (model.layout ? "\n" : "; the closed form alone\n");
  const std::size_t stages = command.stages.size();
  for (std::size_t at = 0; at < cases.size(); at += stages) {
    const auto some = std::span(cases).subspan(at, stages);
    table(model.layout.has_value(), some, out);
    what_fits(command, some, out);
  }
}

std::string memory_json(const std::vector<MemoryCase>& cases) {
  namespace json = boost::json;
  json::array plans;
  for (const MemoryCase& one : cases) {
    json::array rows;
    for (const zero::MemoryRow& row : one.plan.rows)
      rows.push_back({{"what", name(row.content)}, {"place", name(row.place)}, {"bytes", row.bytes}});
    plans.push_back({{"stage", one.plan.stage},
                     {"ranks", one.plan.ranks},
                     {"device_bytes", one.plan.bytes(Place::device)},
                     {"host_bytes", one.plan.bytes(Place::host)},
                     {"file_bytes", one.plan.bytes(Place::file)},
                     {"rows", std::move(rows)},
                     {"fits", one.fits}});
  }
  return json::serialize(json::object{{"plans", std::move(plans)}}) + "\n";
}

}  // namespace

int run_memory(const std::vector<std::string>& arguments) {
  const MemoryCommand command = parse_memory(arguments);
  if (command.help) {
    std::cout << memory_help();
    return 0;
  }
  tool::Outputs outputs("weft-plan");
  outputs.open("--json", command.json);
  const SizedModel model = sized_model(command);
  const std::vector<MemoryCase> cases = memory_cases(command, model);
  explain_memory(command, model, cases, outputs.people());
  outputs.write({{"--json", memory_json(cases)}});
  return 0;
}

}  // namespace weft::plan
