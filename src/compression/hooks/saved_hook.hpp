#pragma once
// How hooks name their state in checkpoints: values, tensors that all ranks have alike, and each rank's residuals.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/checkpoint/piece.hpp"

namespace weft::detail {

/// A tensor's elements, which the piece keeps alive.
checkpoint::Piece kept_piece(std::string name, std::vector<std::int64_t> shape,
                             std::shared_ptr<const std::vector<float>> all, std::int64_t at,
                             std::int64_t count);
std::string residual_name(int rank, const std::string& parameter);

/// The value with this name. @throws Error (usage) if it is not an integer
std::int64_t saved_number(const checkpoint::Values& values, const std::string& name);
inline constexpr const char* hook_steps = "gradient hook/steps";
inline constexpr const char* hook_ranks = "gradient hook/ranks";

/// The residuals of a checkpoint, for a rank that loads them.
struct SavedResiduals {
  int ranks_before;
  int ranks;
  int rank;

  /// Reads a residual: the one that this rank had or, if the number of ranks has changed, the mean over the earlier ranks. Later means of gradients
  /// contain the sum of residuals over ranks divided by the number of ranks, and that value stays the same.
  void read(const checkpoint::Reader& read, const std::string& parameter,
            const std::vector<std::int64_t>& shape, std::span<float> to) const;
};

}  // namespace weft::detail
