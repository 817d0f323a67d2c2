#include <algorithm>

#include "compression/codecs/codec_table.hpp"
#include "compression/power_sgd/power_sgd_tensors.hpp"
#include "torch/distributed/ddp/compressed_bucket.hpp"
#include "weft/core/error.hpp"

namespace weft::distributed {

bool CompressionOptions::shrinks(const std::string& name, const std::vector<std::int64_t>& shape) const {
  std::int64_t count = 1;
  for (const std::int64_t dimension : shape) count *= dimension;
  if (count == 0 || std::ranges::find(power_sgd.whole, name) != power_sgd.whole.end()) return false;
  const ParamLayout layout(DataType::f32, {{name, count, nullptr, shape}});
  return detail::is_compressible(detail::matrix_shape(layout, ParamId{0}), power_sgd);
}

// A hook refuses names that its own parameters lack.
std::shared_ptr<PowerSgd> CompressionOptions::make_power_sgd(const std::vector<ParamSpec>& parameters) const {
  PowerSgdOptions own = power_sgd;
  std::erase_if(own.whole, [&](const std::string& name) {
    return std::ranges::find(parameters, name, &ParamSpec::name) == parameters.end();
  });
  return weft::power_sgd(own);
}

std::shared_ptr<CommHook> CompressionOptions::make_codec_hook(std::uint64_t steps_before) const {
  CodecHookOptions own = hook;
  own.start_step -= std::min(own.start_step, steps_before);
  const detail::CodecRow* const row = detail::codec_row(codec);
  return codec_hook(row == nullptr ? codec_named(codec) : row->make({rounding, fraction, seed}), own);
}

KeptAs kept_as_named(const std::string& name) {
  if (name == "nothing") return KeptAs::nothing;
  if (name == "sixteen_bits") return KeptAs::sixteen_bits;
  if (name == "f32") return KeptAs::f32;
  throw Error(ErrorKind::usage, text("a residual kept as '", name, "'"),
              "allowed are nothing, sixteen_bits and f32");
}

}  // namespace weft::distributed
