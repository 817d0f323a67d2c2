#include "weft/zero/stage.hpp"

#include <array>

#include "weft/core/error.hpp"

namespace weft::zero {

Stage stage(int number) {
  constexpr Placement whole = Placement::replicated;
  constexpr Placement shard = Placement::sharded;
  constexpr std::array<Stage, 4> table{
      {{whole, whole, whole}, {shard, whole, whole}, {shard, shard, whole}, {shard, shard, shard}}};
  if (number < 0 || number >= static_cast<int>(table.size()))
    throw Error(ErrorKind::usage, text("there is no stage ", number, " of ZeRO"),
                "allowed are 0, 1, 2 and 3");
  return table[static_cast<std::size_t>(number)];
}

}  // namespace weft::zero
