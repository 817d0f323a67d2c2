#pragma once
// Which elements of an optimizer's state lie on the device and which on the host: a plain value.
//
// The state is cut into cells (buckets, as planned first), and each cell in two: the first part stays on the
// device. What is on one side lies there without gaps. Buckets may change later, the cut does not.

#include <cstdint>
#include <vector>

#include "weft/core/recycled.hpp"

namespace weft::detail {

class StateSplit {
 public:
  struct Piece {
    std::int64_t begin = 0;  ///< in the state of all
    std::int64_t count = 0;
    bool on_host = false;
    std::int64_t at = 0;  ///< in what lies on its side
    friend bool operator==(const Piece&, const Piece&) = default;
  };

  StateSplit() = default;
  /// @param bounds of the cells, ascending from 0
  /// @param share of each that lies on the host, 0 to 1
  /// @param unit what lies on the device is a multiple of, but for whole cells
  StateSplit(const std::vector<std::int64_t>& bounds, double share, std::int64_t unit);

  /// What [begin, end) is made of, in order.
  RecycledVector<Piece> pieces(std::int64_t begin, std::int64_t end) const;
  std::int64_t on_device() const { return on_device_; }
  std::int64_t on_host() const { return on_host_; }

 private:
  std::vector<Piece> pieces_;
  std::int64_t on_device_ = 0;
  std::int64_t on_host_ = 0;
};

}  // namespace weft::detail
