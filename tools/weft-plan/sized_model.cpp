#include "sized_model.hpp"

#include "reference.hpp"
#include "weft/core/error.hpp"

namespace weft::plan {
namespace {

SizedModel laid_out(std::string name, ParamLayout layout, std::vector<ParamId> groups) {
  const zero::ModelSize size = zero::ModelSize::of(layout, groups);
  return {std::move(name), std::move(layout), std::move(groups), size};
}

SizedModel reference(const MemoryCommand& command) {
  const auto model = examples::make_model<float>(command.model);
  std::vector<ParamId> groups;
  for (const int first : model->groups()) groups.push_back(ParamId{first});
  return laid_out(command.model, ParamLayout::of(model->parameters(), command.dtype), std::move(groups));
}

// Radford et al. 2019; the head is the embedding.
SizedModel gpt(const MemoryCommand& command) {
  const std::int64_t width = command.width;
  std::vector<ParamSpec> specs{{"embedding.tokens", command.vocabulary * width},
                               {"embedding.positions", command.context * width}};
  std::vector<ParamId> groups{ParamId{0}};
  const auto group = [&] { groups.push_back(ParamId{static_cast<std::int32_t>(specs.size())}); };
  for (int layer = 0; layer < command.layers; ++layer) {
    group();
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
  group();
  specs.push_back({"norm.weight", width});
  specs.push_back({"norm.bias", width});
  return laid_out(text("a GPT of ", command.layers, " layers of width ", width),
                  ParamLayout(command.dtype, std::move(specs)), std::move(groups));
}

// A third of a layer is its largest matrix, as in a GPT: 4 of 12 squares of the width.
SizedModel sizes(const MemoryCommand& command) {
  const std::int64_t all = *command.parameters;
  const std::int64_t group = (all + command.layers - 1) / command.layers;
  return {.name = text("a model of ", command.layers, " equal layers"),
          .size = {.parameters = all,
                   .dtype = command.dtype,
                   .largest_parameter = (group + 2) / 3,
                   .largest_group = group,
                   .groups = command.layers}};
}

}  // namespace

SizedModel sized_model(const MemoryCommand& command) {
  if (command.parameters) return sizes(command);
  return command.width > 0 ? gpt(command) : reference(command);
}

}  // namespace weft::plan
