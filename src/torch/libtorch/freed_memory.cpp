#include "torch/libtorch/freed_memory.hpp"

#include <cstddef>
#include <cstdlib>

namespace weft::torch::detail {

void keep_freed_memory() {
  // The largest that moves the thresholds, with glibc's own words before it and rounded up to pages (DEFAULT_MMAP_THRESHOLD_MAX). None of
  // its pages is touched. Volatile: a compiler may leave out a block that is only freed.
  constexpr std::size_t largest = (std::size_t{32} << 20) - 4096;
  [[maybe_unused]] static const bool once = [] {
    void* volatile block = std::malloc(largest);
    std::free(block);
    return true;
  }();
}

}  // namespace weft::torch::detail
