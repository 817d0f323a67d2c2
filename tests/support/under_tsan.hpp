#pragma once
// What a test goes through under the thread sanitizer, which looks at who touches memory when, and not at what
// stands there: values, types and sizes that take the same way through the code are left to the other presets.

#include <algorithm>
#include <cstddef>
#include <vector>

namespace weft::test {

/// `all`; under the thread sanitizer the first `few`.
template <class T>
std::vector<T> few_under_tsan(std::vector<T> all, [[maybe_unused]] std::size_t few) {
#if defined(__SANITIZE_THREAD__)
  all.resize(std::min(all.size(), few));
#endif
  return all;
}

}  // namespace weft::test
