#pragma once
// Sizes of pages.

#include <cstddef>

namespace weft::detail {

/// What the second level of a page table covers on x86-64 and on arm64 with pages of 4 KiB.
constexpr std::size_t huge_page = std::size_t{2} << 20;

}  // namespace weft::detail
