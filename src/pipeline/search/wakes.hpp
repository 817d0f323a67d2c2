#pragma once
// When each device decides next, and which is first: a heap with one entry for each, whose places are known.

#include <vector>

#include "weft/pipeline/problem.hpp"

namespace weft::pipeline::detail {

class Wakes {
 public:
  /// @param by_number of those that wake together, the lowest number is first; otherwise the one that lies above
  Wakes(int devices, bool by_number) : by_number_(by_number), heap_(at(devices)), place_(at(devices)) {
    reset();
  }

  /// All of them at 0.
  void reset() {
    for (int device = 0; device < static_cast<int>(heap_.size()); ++device) put({0, device}, device);
  }

  int device() const { return heap_.front().device; }
  Nanoseconds first() const { return heap_.front().when; }
  Nanoseconds of(int device) const { return heap_[at(place_[at(device)])].when; }

  void set(int device, Nanoseconds when) { when < of(device) ? rise({when, device}) : sink({when, device}); }

 private:
  struct Wake {
    Nanoseconds when = 0;
    int device = 0;
  };

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  bool before(const Wake& a, const Wake& b) const {
    return (a.when < b.when) | (by_number_ & (a.when == b.when) & (a.device < b.device));  // no branches
  }

  void put(const Wake& wake, int place) {
    heap_[at(place)] = wake;
    place_[at(wake.device)] = place;
  }

  void rise(const Wake& wake) {
    int place = place_[at(wake.device)];
    for (; place > 0 && before(wake, heap_[at((place - 1) / 2)]); place = (place - 1) / 2)
      put(heap_[at((place - 1) / 2)], place);
    put(wake, place);
  }

  void sink(const Wake& wake) {
    const int last = static_cast<int>(heap_.size()) - 1;
    int place = place_[at(wake.device)];
    for (int next = 2 * place + 1; next <= last; next = 2 * place + 1) {
      if (next < last) next += before(heap_[at(next + 1)], heap_[at(next)]);
      if (!before(heap_[at(next)], wake)) break;
      put(heap_[at(next)], place);
      place = next;
    }
    put(wake, place);
  }

  bool by_number_;
  std::vector<Wake> heap_;  // the first on top
  std::vector<int> place_;  // of each device
};

}  // namespace weft::pipeline::detail
