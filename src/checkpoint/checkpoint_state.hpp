#pragma once
// What a Checkpoint knows, and how errors describe a tensor.

#include <string>
#include <vector>

#include "checkpoint/index.hpp"
#include "weft/checkpoint/checkpoint.hpp"

namespace weft::checkpoint {

struct Checkpoint::State {
  std::string path;
  detail::Index index;
};

}  // namespace weft::checkpoint

namespace weft::detail {

/// "bf16[1024, 512]"
std::string type_and_shape(DataType dtype, const std::vector<std::int64_t>& shape);

}  // namespace weft::detail
