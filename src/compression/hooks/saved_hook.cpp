#include "compression/hooks/saved_hook.hpp"

#include <algorithm>
#include <cstring>

#include "weft/core/error.hpp"

namespace weft::detail {

using checkpoint::Computed;
using checkpoint::Wanted;

checkpoint::Piece kept_piece(std::string name, std::vector<std::int64_t> shape,
                             std::shared_ptr<const std::vector<float>> all, std::int64_t at,
                             std::int64_t count) {
  const auto fill = [all = std::move(all), at](std::int64_t from, View to) {
    std::memcpy(to.data(), all->data() + at + from, to.size_bytes());
  };
  return {std::move(name), std::move(shape), 0, Computed{DataType::f32, count, fill}};
}

std::string residual_name(int rank, const std::string& parameter) {
  return text("gradient hook/residual of rank ", rank, '/', parameter);
}

std::int64_t saved_number(const checkpoint::Values& values, const std::string& name) {
  const auto found = values.find(name);
  const auto* const number = found == values.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
  if (number != nullptr && *number >= 0) return *number;
  throw Error(ErrorKind::usage, text("what is loaded has no number \"", name, "\""),
              "load a checkpoint that has the state of a GradientReducer");
}

void SavedResiduals::read(const checkpoint::Reader& read, const std::string& parameter,
                          const std::vector<std::int64_t>& shape, std::span<float> to) const {
  const auto read_one = [&](int of, std::span<float> into) {
    const Wanted wanted{residual_name(of, parameter), shape, 0, View(into)};
    read({&wanted, 1});
  };
  if (ranks_before == ranks) return read_one(rank, to);
  std::vector<float> one(to.size());
  std::ranges::fill(to, 0.0F);
  for (int of = 0; of < ranks_before; ++of) {
    read_one(of, one);
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += one[i];
  }
  for (float& value : to) value /= static_cast<float>(ranks_before);
}

}  // namespace weft::detail
