#include "collectives/cores.hpp"

#include <algorithm>
#include <string_view>

#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

constexpr std::string_view digits = "0123456789abcdef";

}  // namespace

Cores Cores::of_this_thread() {
  Cores result;
  if (sched_getaffinity(0, sizeof(result.set_), &result.set_) != 0) CPU_ZERO(&result.set_);
  return result;
}

std::string Cores::note() const {
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

Cores Cores::from(const std::string& note) {
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
