#include "zero/update/exact_sum.hpp"

#include <bit>
#include <cmath>
#include <limits>

namespace weft::detail {
namespace {

constexpr std::int64_t base = std::int64_t{1} << 32U;
constexpr int additions_without_carry = 1 << 29;

}  // namespace

void ExactSum::add(double value) {
  const Cut cut = ExactSum::cut(value);
  if (cut.first == Cut::bad) ++bad_;
  if (cut.first < 0) return;
  for (std::size_t i = 0; i < 3; ++i) places_[static_cast<std::size_t>(cut.first) + i] += cut.pieces[i];
  if (++added_ == additions_without_carry) carry();
}

void ExactSum::add(const ExactSum& other) {
  ExactSum carried = other;
  carried.carry();
  carry();
  for (std::size_t i = 0; i < places_.size(); ++i) places_[i] += carried.places_[i];
  bad_ += other.bad_;
  carry();
}

void ExactSum::carry() {
  for (std::size_t i = 0; i + 1 < places_.size(); ++i) {
    places_[i + 1] += places_[i] / base;
    places_[i] %= base;
  }
  added_ = 0;
}

// Takes 64 bits from the three highest places that are in use. Lower bits matter only where rounding to 53
// bits would be a tie: they are combined into the last bit (sticky).
double ExactSum::value() const {
  if (bad()) return std::numeric_limits<double>::quiet_NaN();
  ExactSum whole = *this;
  whole.carry();
  std::size_t top = places_.size();
  while (top > 0 && whole.places_[top - 1] == 0) --top;
  if (top == 0) return 0;
  bool sticky = false;
  for (std::size_t i = 0; i + 3 < top; ++i) sticky = sticky || whole.places_[i] != 0;
  const auto at = [&](std::size_t below) {
    return top > below ? static_cast<std::uint64_t>(whole.places_[top - 1 - below]) : 0;
  };
  // Three places are 96 bits: 64 and 32. The highest place is not 0, so fewer than 32 zeros lead.
  const int zeros = std::countl_zero(at(0) << 32U | at(1));
  std::uint64_t upper = (at(0) << 32U | at(1)) << static_cast<unsigned>(zeros);
  const std::uint64_t rest = at(2) << static_cast<unsigned>(zeros);  // zeros < 32
  upper |= rest >> 32U;
  if ((rest & 0xffffffffU) != 0 || sticky) upper |= 1;  // the last bit says that more follows
  const auto rounded = static_cast<double>(upper);      // to nearest, ties to even
  const int exponent = lowest + 32 * (static_cast<int>(top) - 2) - zeros;
  return std::ldexp(rounded, exponent);
}

void ExactSum::put(std::span<std::int64_t, places_count + 1> to) const {
  ExactSum carried = *this;
  carried.carry();
  for (std::size_t i = 0; i < places_.size(); ++i) to[i] = carried.places_[i];
  to[places_.size()] = bad_;
}

ExactSum ExactSum::from(std::span<const std::int64_t, places_count + 1> places) {
  ExactSum sum;
  for (std::size_t i = 0; i < sum.places_.size(); ++i) sum.places_[i] = places[i];
  sum.bad_ = places[places_count];
  sum.carry();
  return sum;
}

}  // namespace weft::detail
