#include "zero/tensors/matrix_owners.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "core/base/round_up.hpp"
#include "weft/core/buffer.hpp"
#include "zero/tensors/newton_schulz.hpp"

namespace weft::detail {
namespace {

bool is_hidden(std::string_view name) {
  constexpr std::array embeddings{"embed", "wte", "wpe"};
  const auto has = [&](const char* word) { return name.find(word) != std::string_view::npos; };
  if (std::ranges::any_of(embeddings, has)) return false;
  while (true) {
    const std::size_t dot = name.find('.');
    const std::string_view word = name.substr(0, dot);
    if (word == "head" || word == "lm_head") return false;
    if (dot == std::string_view::npos) return true;
    name.remove_prefix(dot + 1);
  }
}

}  // namespace

bool is_hidden_matrix(const ParamLayout& layout, ParamId id) {
  return layout.shape(id).size() >= 2 && is_hidden(layout.name(id));
}

std::vector<ParamId> hidden_matrices(const ParamLayout& layout) {
  std::vector<ParamId> found;
  for (int i = 0; i < layout.parameters(); ++i) {
    if (is_hidden_matrix(layout, ParamId{i})) found.push_back(ParamId{i});
  }
  return found;
}

double product_cost(std::int64_t rows, std::int64_t columns) {
  const auto m = static_cast<double>(std::min(rows, columns));
  const auto n = static_cast<double>(std::max(rows, columns));
  return 3 * m * m * n + m * m * m;
}

MatrixOwners::MatrixOwners(const ParamLayout& layout, const std::vector<ParamId>& ids, int ranks)
    : costs_(static_cast<std::size_t>(ranks)) {
  for (const ParamId id : ids) {
    const std::int64_t rows = layout.shape(id).front();
    const std::int64_t columns = layout.count(id) / rows;
    const std::int64_t copied = layout.dtype() == DataType::f32 ? 0 : layout.count(id);
    matrices_.push_back({.id = id, .rows = rows, .columns = columns});
    workspace_elements_ = std::max(workspace_elements_, newton_schulz_workspace(rows, columns) + copied);
  }
  std::vector<std::size_t> order(matrices_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto cost = [this](std::size_t i) { return product_cost(matrices_[i].rows, matrices_[i].columns); };
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return cost(a) > cost(b); });
  std::vector<std::int64_t> owned(costs_.size());
  const auto line = static_cast<std::int64_t>(Buffer::alignment / size_of(layout.dtype()));
  for (const std::size_t i : order) {
    const auto least = static_cast<std::size_t>(std::ranges::min_element(costs_) - costs_.begin());
    matrices_[i].owner = static_cast<int>(least);
    matrices_[i].at = owned[least];
    owned[least] += round_up(matrices_[i].count(), line);
    costs_[least] += cost(i);
  }
  owned_elements_ = std::ranges::max(owned);
}

}  // namespace weft::detail
