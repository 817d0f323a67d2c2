#pragma once
// Which ranges of a heap are free: no two touch or overlap, for neighbours are merged. Says nothing of what lies in them. Taking and adding
// cost a few steps in trees of the ranges, about a quarter of a microsecond. One thread at a time.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace weft::detail {

class FreeSpace {
 public:
  /// By their beginnings: how long they are.
  using Ranges = std::map<std::uint64_t, std::size_t>;

  /// @param bytes more than none, of which none are free
  void add(std::uint64_t begin, std::size_t bytes);
  /// The lowest place that has room, a multiple of `alignment`. Nothing: there is none.
  std::optional<std::uint64_t> take_first(std::size_t bytes, std::size_t alignment);
  /// A place in the smallest range that has room, so that large ones stay whole.
  std::optional<std::uint64_t> take_smallest(std::size_t bytes, std::size_t alignment);
  void clear();

  const Ranges& ranges() const { return ranges_; }
  std::size_t bytes() const { return bytes_; }

 private:
  static bool fits(std::uint64_t begin, std::size_t size, std::size_t bytes, std::size_t alignment);
  void insert(std::uint64_t begin, std::size_t bytes);
  void remove(Ranges::iterator range);
  std::uint64_t take(Ranges::iterator range, std::size_t bytes, std::size_t alignment);

  Ranges ranges_;
  std::set<std::pair<std::size_t, std::uint64_t>> by_size_;  // and beginning
  std::size_t bytes_ = 0;
};

}  // namespace weft::detail
