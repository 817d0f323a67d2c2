#pragma once
// Every codec by its name: one row each, and the only list of them. What reads names (codec_named, hook_named, weft.torch.compress) and what
// says which there are takes them from here.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "weft/compression/codec.hpp"

namespace weft::detail {

/// What follows a codec's name behind a colon.
enum class CodecParameter : std::uint8_t { none, rounding, fraction };

/// What a row makes its codec of; it takes what it has a parameter or a seed for.
struct CodecChoices {
  Rounding rounding = Rounding::nearest;
  double fraction = 0;
  std::uint64_t seed = 0;
};

struct CodecRow {
  const char* name;
  CodecParameter parameter;
  bool has_seed;  ///< some of its choices are random
  bool is_cast;   ///< it keeps so much that hooks need no error feedback and no exact steps before it
  std::shared_ptr<const Codec> (*make)(const CodecChoices&);
};

std::span<const CodecRow> codec_table();
/// Null if none is called so. @param name without parameter
const CodecRow* codec_row(const std::string& name);
/// For messages: "fp16, bf16, int8[:stochastic], top-k:F".
std::string codec_list();

}  // namespace weft::detail
