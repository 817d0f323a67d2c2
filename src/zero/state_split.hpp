#pragma once
// Which elements of an optimizer's state lie on the device, in host memory and in a file: a plain value.
//
// The state is cut into cells (buckets, as planned first), and each cell in three: the first part stays on
// the device, the last lies in the file. What is in one place lies there without gaps. Buckets may change
// later, the cut does not.

#include <cstdint>
#include <vector>

#include "weft/core/recycled.hpp"

namespace weft::detail {

class StateSplit {
 public:
  struct Piece {
    std::int64_t begin = 0;  ///< in the state of all
    std::int64_t count = 0;
    bool offloaded = false;
    std::int64_t at = 0;  ///< in what is on the device; or in what is not, the file after the memory
    friend bool operator==(const Piece&, const Piece&) = default;
  };

  StateSplit() = default;
  /// @param bounds of the cells, ascending from 0
  /// @param share of each that is not on the device, 0 to 1
  /// @param file_share of that, in the file, 0 to 1
  /// @param unit that parts are multiples of, but for the last of a cell
  StateSplit(const std::vector<std::int64_t>& bounds, double share, double file_share, std::int64_t unit);

  /// What [begin, end) is made of, in order.
  RecycledVector<Piece> pieces(std::int64_t begin, std::int64_t end) const;
  std::int64_t on_device() const { return on_device_; }
  std::int64_t in_memory() const { return in_memory_; }
  std::int64_t in_file() const { return file_bounds_.back(); }
  std::int64_t offloaded() const { return in_memory() + in_file(); }
  /// Where cells begin in the file, and where the last ends.
  const std::vector<std::int64_t>& file_bounds() const { return file_bounds_; }

 private:
  std::vector<Piece> pieces_;
  std::int64_t on_device_ = 0;
  std::int64_t in_memory_ = 0;
  std::vector<std::int64_t> file_bounds_{0};
};

}  // namespace weft::detail
