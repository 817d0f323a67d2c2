#include "torch/libtorch/freed_memory.hpp"

#include <cstddef>
#include <cstdlib>

namespace weft::torch::detail {

void keep_freed_memory() {
  // Nearly the largest that moves the thresholds (DEFAULT_MMAP_THRESHOLD_MAX): glibc rounds it up to pages, with a head of its own and a flag
  // in its size. None of its pages is touched. Volatile: a compiler may leave out a block that is only freed.
  constexpr std::size_t page = 4096;
  constexpr std::size_t largest = (std::size_t{32} << 20) - 2 * page;
  [[maybe_unused]] static const bool once = [] {
    void* volatile block = std::malloc(largest);
    std::free(block);
    return true;
  }();
}

}  // namespace weft::torch::detail
