#pragma once
// What random trials draw, from a seed that their failures name.

#include <cstdint>
#include <random>

namespace weft::test {

/// The same for the same seed, so that all ranks draw alike.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}
  int below(int limit) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(limit)); }
  bool once_in(int times) { return below(times) == 0; }
  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<int>(choices.size()))];
  }
  /// Lengths of every size alike.
  std::int64_t length() {
    const int bits = below(17);
    return bits == 0 ? 0 : below(1 << bits);
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace weft::test
