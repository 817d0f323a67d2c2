#include "zero/optimizer/whole_model.hpp"

#include <algorithm>

#include "gradient/agreement.hpp"

namespace weft::detail {
namespace {

std::string described(const zero::ShardedOptimizerOptions& options) {
  std::string clipping = "does not clip";
  if (options.clip_norm) clipping = text("clips to ", *options.clip_norm);
  if (!options.loss_scale) return clipping + " and does not scale";
  const zero::LossScalerOptions& scale = *options.loss_scale;
  return text(clipping, " and scales from ", scale.initial, ", at least ", scale.minimum,
              ", twice that after ", scale.growth_interval, " steps, half of it after ", scale.hysteresis,
              " overflows");
}

}  // namespace

void agree_on_whole_model(Communicator whole_model, const Communicator& part,
                          const zero::ShardedOptimizerOptions& options) {
  constexpr const char* operation = "ShardedOptimizer";
  agree_on(whole_model, text("is rank ", part.rank(), " of ", part.size(), " of its part"),
           {"whole_model is not one rank of each part",
            "make it of the ranks that have the other parts, each "
            "with the same rank among those that share its part",
            operation});
  agree_on(whole_model, described(options),
           {"parts of a model have different options", "clip and scale alike in all parts", operation});
}

// A hole ends where the next parameter begins: the gap between them is zeros.
CountedRanges::CountedRanges(const ParamLayout& layout, const std::vector<ParamId>& counted_elsewhere) {
  for (const ParamId id : counted_elsewhere) {
    const int number = static_cast<int>(id);
    if (number < 0 || number >= layout.parameters())
      throw Error(ErrorKind::usage, text("counted_elsewhere has parameter ", number),
                  text("parameters are 0 to ", layout.parameters() - 1));
    const bool is_last = number + 1 == layout.parameters();
    holes_.push_back({layout.offset(id), is_last ? layout.size() : layout.offset(ParamId{number + 1})});
  }
  std::ranges::sort(holes_, {}, &Range::begin);
}

}  // namespace weft::detail
