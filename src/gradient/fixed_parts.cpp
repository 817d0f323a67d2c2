#include "gradient/fixed_parts.hpp"

#include <bit>

#include "core/elementwise.hpp"
#include "weft/core/copy.hpp"

namespace weft::detail {

FixedParts::FixedParts(int parts, Communicator& comm, const ParamLayout& layout)
    : here_(parts / comm.size()), layout_(layout) {
  const auto is_power = [](int n) { return n > 0 && std::has_single_bit(static_cast<unsigned>(n)); };
  if (!is_power(parts) || !is_power(comm.size()) || here_ == 0) {
    throw Error(ErrorKind::usage, text("fixed_parts ", parts, " for ", comm.size(), " ranks"),
                "both are powers of two, with at least a part for every rank",
                {comm.rank(), "GradientReducer", 0});
  }
  for (int level = 1; level < here_; level *= 2)
    levels_.push_back(Buffer::on(comm.device(), layout.dtype(), layout.size()));
}

void FixedParts::fold(ParamId id, View gradient, int part, const Stream& stream) {
  const int carries = std::countr_one(static_cast<unsigned>(part));
  for (int level = 0; level < carries; ++level)
    add(gradient, layout_.view(levels_[static_cast<std::size_t>(level)].view(), id), stream);
  if (part + 1 < here_)
    copy(layout_.view(levels_[static_cast<std::size_t>(carries)].view(), id), gradient, stream);
}

}  // namespace weft::detail
