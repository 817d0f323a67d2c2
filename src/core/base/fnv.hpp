#pragma once
// FNV-1a over bytes: a hash that is the same on every machine and with every compiler, for plans that ranks
// compare.

#include <cstdint>
#include <string_view>

namespace weft::detail {

class Fnv {
 public:
  Fnv& add(std::string_view bytes) {
    for (const char byte : bytes) add_byte(static_cast<unsigned char>(byte));
    return add(static_cast<std::int64_t>(bytes.size()));
  }
  Fnv& add(std::int64_t value) {
    for (int shift = 0; shift < 64; shift += 8) {
      add_byte(static_cast<unsigned char>(static_cast<std::uint64_t>(value) >> shift));
    }
    return *this;
  }
  std::uint64_t value() const { return hash_; }

 private:
  void add_byte(unsigned char byte) { hash_ = (hash_ ^ byte) * 0x100000001b3ULL; }

  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

}  // namespace weft::detail
