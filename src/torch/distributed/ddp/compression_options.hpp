#pragma once
// Which code gradients travel in, as Python's compress() has checked the names of.
//
// The same on every rank. Ranges are checked by what takes the values: weft's codecs and PowerSGD.

#include <memory>
#include <string>

#include "weft/compression/codec.hpp"
#include "weft/compression/codec_hook.hpp"
#include "weft/compression/power_sgd.hpp"

namespace weft::distributed {

struct CompressionOptions {
  std::string codec{};  ///< "powersgd", or a codec's name without parameters, as "top-k"
  double fraction = 0;  ///< of top-k and random-k
  Rounding rounding = Rounding::nearest;
  std::uint64_t seed = 0;
  CodecHookOptions hook{};
  PowerSgdOptions power_sgd{};

  bool is_power_sgd() const { return codec == "powersgd"; }
  /// Whether PowerSGD compresses this parameter.
  bool shrinks(const std::string& name, const std::vector<std::int64_t>& shape) const;
  /// PowerSGD for a bucket with these parameters. @throws Error (usage) for values that it does not take
  std::shared_ptr<PowerSgd> make_power_sgd(const std::vector<ParamSpec>& parameters) const;
  /// A codec's hook for a bucket. @param steps_before what counts for the start step beside the hook's own steps
  /// @throws Error (usage) for values that the codec does not take
  std::shared_ptr<CommHook> make_codec_hook(std::uint64_t steps_before) const;
};

/// @throws Error (usage) unless it is "nothing", "sixteen_bits" or "f32"
KeptAs kept_as_named(const std::string& name);

}  // namespace weft::distributed
