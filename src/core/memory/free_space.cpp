#include "core/memory/free_space.hpp"

#include <iterator>

#include "core/base/round_up.hpp"

namespace weft::detail {

void FreeSpace::add(std::uint64_t begin, std::size_t bytes) {
  const auto next = ranges_.lower_bound(begin);
  if (next != ranges_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == begin) {
      begin = previous->first;
      bytes += previous->second;
      remove(previous);
    }
  }
  if (next != ranges_.end() && begin + bytes == next->first) {
    bytes += next->second;
    remove(next);
  }
  insert(begin, bytes);
}

std::optional<std::uint64_t> FreeSpace::take_first(std::size_t bytes, std::size_t alignment) {
  if (by_size_.empty() || by_size_.rbegin()->first < bytes) return std::nullopt;
  for (auto range = ranges_.begin(); range != ranges_.end(); ++range) {
    if (fits(range->first, range->second, bytes, alignment)) return take(range, bytes, alignment);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> FreeSpace::take_smallest(std::size_t bytes, std::size_t alignment) {
  // Whatever is larger by an alignment fits, so few are looked at in vain.
  for (auto one = by_size_.lower_bound({bytes, 0}); one != by_size_.end(); ++one) {
    if (fits(one->second, one->first, bytes, alignment))
      return take(ranges_.find(one->second), bytes, alignment);
  }
  return std::nullopt;
}

void FreeSpace::clear() {
  ranges_.clear();
  by_size_.clear();
  bytes_ = 0;
}

bool FreeSpace::fits(std::uint64_t begin, std::size_t size, std::size_t bytes, std::size_t alignment) {
  return round_up(begin, alignment) + bytes <= begin + size;
}

void FreeSpace::insert(std::uint64_t begin, std::size_t bytes) {
  ranges_.emplace(begin, bytes);
  by_size_.emplace(bytes, begin);
  bytes_ += bytes;
}

void FreeSpace::remove(Ranges::iterator range) {
  by_size_.erase({range->second, range->first});
  bytes_ -= range->second;
  ranges_.erase(range);
}

std::uint64_t FreeSpace::take(Ranges::iterator range, std::size_t bytes, std::size_t alignment) {
  const auto [begin, size] = *range;
  const std::uint64_t place = round_up(begin, alignment);
  remove(range);
  if (place > begin) insert(begin, place - begin);
  if (place + bytes < begin + size) insert(place + bytes, begin + size - place - bytes);
  return place;
}

}  // namespace weft::detail
