// The loops of block codecs without vectors: the -inl files are compiled on vectors of one lane.
//
// `hn` below has the functions of Highway that the -inl files use, each on one number. Builds without Highway
// run these loops; tests compare the vector loops with them, bit by bit.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "compression/codecs/block_kernel.hpp"

namespace weft::detail::plain_lanes::hn {

template <class T>
struct Tag {
  using type = T;
};
template <class D>
using Vec = typename D::type;
template <class T, class D>
using Rebind = Tag<T>;
template <class D>
using RebindToUnsigned = Tag<std::uint32_t>;
template <class D>
using RebindToSigned = Tag<std::int32_t>;
template <class T, std::size_t lanes>
using CappedTag = Tag<T>;

template <class D>
std::size_t Lanes(D) {
  return 1;
}
template <class D>
Vec<D> LoadU(D, const Vec<D>* from) {
  Vec<D> value;  // codes begin anywhere
  std::memcpy(&value, from, sizeof(value));
  return value;
}
template <class D>
void StoreU(Vec<D> value, D, Vec<D>* to) {
  std::memcpy(to, &value, sizeof(value));
}
template <class D, class T>
Vec<D> Set(D, T value) {
  return static_cast<Vec<D>>(value);
}
template <class D>
Vec<D> Zero(D) {
  return {};
}
template <class D, class V>
Vec<D> BitCast(D, V value) {
  return std::bit_cast<Vec<D>>(value);
}
template <class D, class V>
Vec<D> PromoteTo(D, V value) {
  return static_cast<Vec<D>>(value);
}
template <class D, class V>
Vec<D> DemoteTo(D, V value) {
  return static_cast<Vec<D>>(value);
}
template <class D, class V>
Vec<D> ConvertTo(D, V value) {
  return static_cast<Vec<D>>(value);
}
template <class V>
V Add(V a, V b) {
  return a + b;
}
template <class V>
V Sub(V a, V b) {
  return a - b;
}
template <class V>
V Mul(V a, V b) {
  return a * b;
}
template <class V>
V And(V a, V b) {
  return a & b;
}
template <class V>
V Or(V a, V b) {
  return a | b;
}
template <class V>
V Xor(V a, V b) {
  return a ^ b;
}
template <int bits, class V>
V ShiftLeft(V a) {
  return static_cast<V>(static_cast<std::uint32_t>(a) << bits);
}
template <int bits, class V>
V ShiftRight(V a) {
  return a >> bits;
}
template <class V>
V Max(V a, V b) {
  return a < b ? b : a;
}
template <class D, class V>
V MaxOfLanes(D, V a) {
  return a;
}
template <class V>
V GetLane(V a) {
  return a;
}
template <class V>
bool Gt(V a, V b) {
  return a > b;
}
template <class D>
bool RebindMask(D, bool mask) {
  return mask;
}
template <class V>
V IfThenElse(bool mask, V yes, V no) {
  return mask ? yes : no;
}
template <class V>
V IfThenZeroElse(bool mask, V no) {
  return mask ? V{} : no;
}

}  // namespace weft::detail::plain_lanes::hn

#define WEFT_LANES plain_lanes
#define WEFT_LANES_ATTR
#define WEFT_LANES_F16 0
// clang-format off
#include "compression/codecs/block_numbers-inl.hpp"
#include "compression/codecs/block_loops-inl.hpp"
// clang-format on

namespace weft::detail {

const BlockKernel& plain_block_kernel() {
  static constexpr BlockKernel kernel{plain_lanes::encode, plain_lanes::decode, plain_lanes::largest};
  return kernel;
}

#if !WEFT_HAS_HIGHWAY
const BlockKernel& block_kernel() {
  return plain_block_kernel();
}
#endif

}  // namespace weft::detail
