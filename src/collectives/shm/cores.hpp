#pragma once
// The processors that a rank may run on, as ranks of a node tell each other: whether there is one for each.

#include <sched.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "weft/core/error.hpp"

namespace weft::detail {

class Cores {
 public:
  /// Those of the calling thread; none where the system does not say.
  static Cores of_this_thread();
  /// "3f": the processors as a hexadecimal number, the first one last.
  std::string note() const;
  /// @throws Error (internal) when it is none
  static Cores from(const std::string& note);

  void add(const Cores& others) { CPU_OR(&set_, &set_, &others.set_); }
  int count() const { return CPU_COUNT(&set_); }

 private:
  static constexpr std::string_view digits = "0123456789abcdef";

  Cores() { CPU_ZERO(&set_); }
  cpu_set_t set_;
};

inline Cores Cores::of_this_thread() {
  Cores result;
  if (sched_getaffinity(0, sizeof(result.set_), &result.set_) != 0) CPU_ZERO(&result.set_);
  return result;
}

inline std::string Cores::note() const {
  std::string note;
  for (int first = 0; first < CPU_SETSIZE; first += 4) {
    std::size_t digit = 0;
    for (int i = 0; i < 4; ++i) {
      if (CPU_ISSET(first + i, &set_)) digit |= std::size_t{1} << i;
    }
    note.insert(note.begin(), digits[digit]);
  }
  return note.erase(0, std::min(note.find_first_not_of('0'), note.size() - 1));
}

inline Cores Cores::from(const std::string& note) {
  Cores result;
  int first = 0;
  for (auto place = note.rbegin(); place != note.rend(); ++place, first += 4) {
    const auto digit = digits.find(*place);
    if (digit == std::string_view::npos || first >= CPU_SETSIZE)
      throw Error(ErrorKind::internal, text("a peer's processors are '", note, "'"));
    for (int i = 0; i < 4; ++i) {
      if ((digit >> i & 1) != 0) CPU_SET(first + i, &result.set_);
    }
  }
  return result;
}

}  // namespace weft::detail
