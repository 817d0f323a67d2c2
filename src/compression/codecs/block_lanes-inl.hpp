// What the loops of block codecs have in common; compiled as often as block_numbers-inl.hpp.

namespace weft::detail::WEFT_LANES {
namespace {

/// Calls `step(d, i)` for whole vectors of elements, then for the remaining ones one by one.
template <class Step>
WEFT_LANES_ATTR void for_lanes(std::size_t count, const Step& step) {
  const FullTag full;
  const std::size_t lanes = hn::Lanes(full);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) step(full, i);
  for (; i < count; ++i) step(OneTag(), i);
}

WEFT_LANES_ATTR std::uint32_t largest(const float* values, std::int64_t count) {
  const hn::RebindToSigned<FullTag> i32;
  const std::size_t lanes = hn::Lanes(i32);
  const auto size = static_cast<std::size_t>(count);
  auto most = hn::Zero(i32);
  std::size_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    const auto word = hn::BitCast(i32, hn::LoadU(FullTag(), values + i));
    most = hn::Max(most, hn::And(word, hn::Set(i32, 0x7fffffff)));
  }
  auto result = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(i32, most)));
  for (; i < size; ++i) {
    const std::uint32_t word = std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffffU;
    result = result < word ? word : result;
  }
  return result;
}

}  // namespace
}  // namespace weft::detail::WEFT_LANES
