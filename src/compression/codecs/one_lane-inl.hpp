// The functions of Highway that the other -inl files use, as `hn`, each on one number: for loops without vectors, and for threads of a
// device. Included before them, so it has no include guard.
//
// WEFT_LANES_SUM and WEFT_LANES_PRODUCT are one rounded operation each: nvcc would fuse a product and a sum.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace weft::detail::WEFT_LANES::hn {

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
WEFT_LANES_ATTR std::size_t Lanes(D) {
  return 1;
}
template <class D>
WEFT_LANES_ATTR Vec<D> LoadU(D, const Vec<D>* from) {
  Vec<D> value;  // encoded blocks begin anywhere
  std::memcpy(&value, from, sizeof(value));
  return value;
}
template <class D>
WEFT_LANES_ATTR void StoreU(Vec<D> value, D, Vec<D>* to) {
  std::memcpy(to, &value, sizeof(value));
}
template <class D>
WEFT_LANES_ATTR void LoadInterleaved2(D d, const Vec<D>* from, Vec<D>& even, Vec<D>& odd) {
  even = LoadU(d, from);
  odd = LoadU(d, from + 1);
}
template <class D>
WEFT_LANES_ATTR void StoreInterleaved2(Vec<D> even, Vec<D> odd, D d, Vec<D>* to) {
  StoreU(even, d, to);
  StoreU(odd, d, to + 1);
}
template <class D, class T>
WEFT_LANES_ATTR Vec<D> Set(D, T value) {
  return static_cast<Vec<D>>(value);
}
template <class D>
WEFT_LANES_ATTR Vec<D> Zero(D) {
  return {};
}
template <class D, class V>
WEFT_LANES_ATTR Vec<D> BitCast(D, V value) {
  return std::bit_cast<Vec<D>>(value);
}
template <class D, class V>
WEFT_LANES_ATTR Vec<D> PromoteTo(D, V value) {
  return static_cast<Vec<D>>(value);
}
template <class D, class V>
WEFT_LANES_ATTR Vec<D> DemoteTo(D, V value) {
  return static_cast<Vec<D>>(value);
}
template <class D, class V>
WEFT_LANES_ATTR Vec<D> ConvertTo(D, V value) {
  return static_cast<Vec<D>>(value);
}
template <class V>
WEFT_LANES_ATTR V Add(V a, V b) {
  if constexpr (std::is_same_v<V, float>) return WEFT_LANES_SUM(a, b);
  return a + b;
}
template <class V>
WEFT_LANES_ATTR V Sub(V a, V b) {
  if constexpr (std::is_same_v<V, float>) return WEFT_LANES_SUM(a, -b);
  return a - b;
}
template <class V>
WEFT_LANES_ATTR V Mul(V a, V b) {
  if constexpr (std::is_same_v<V, float>) return WEFT_LANES_PRODUCT(a, b);
  return a * b;
}
template <class V>
WEFT_LANES_ATTR V And(V a, V b) {
  return a & b;
}
template <class V>
WEFT_LANES_ATTR V Or(V a, V b) {
  return a | b;
}
template <class V>
WEFT_LANES_ATTR V Xor(V a, V b) {
  return a ^ b;
}
template <int bits, class V>
WEFT_LANES_ATTR V ShiftLeft(V a) {
  return static_cast<V>(static_cast<std::uint32_t>(a) << bits);
}
template <int bits, class V>
WEFT_LANES_ATTR V ShiftRight(V a) {
  return a >> bits;
}
template <class V>
WEFT_LANES_ATTR V Max(V a, V b) {
  return a < b ? b : a;
}
template <class V>
WEFT_LANES_ATTR V Min(V a, V b) {
  return b < a ? b : a;
}
template <class D, class V>
WEFT_LANES_ATTR V MaxOfLanes(D, V a) {
  return a;
}
template <class V>
WEFT_LANES_ATTR V GetLane(V a) {
  return a;
}
template <class V>
WEFT_LANES_ATTR bool Gt(V a, V b) {
  return a > b;
}
template <class D>
WEFT_LANES_ATTR bool RebindMask(D, bool mask) {
  return mask;
}
template <class V>
WEFT_LANES_ATTR V IfThenElse(bool mask, V yes, V no) {
  return mask ? yes : no;
}
template <class V>
WEFT_LANES_ATTR V IfThenZeroElse(bool mask, V no) {
  return mask ? V{} : no;
}

}  // namespace weft::detail::WEFT_LANES::hn
