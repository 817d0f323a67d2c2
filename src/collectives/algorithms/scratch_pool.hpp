#pragma once
// Memory for what arrives, kept from one exchange to the next: fresh memory is zeroed and faulted in page by
// page, which takes longer than a fast network does.

#include <algorithm>
#include <mutex>
#include <vector>

#include "weft/core/buffer.hpp"

namespace weft::detail {

/// Exchanges of one communicator follow each other, so what is kept is what the largest of them needed. Any
/// thread may call.
class ScratchPool {
 public:
  /// At least so many bytes, not zeroed: the smallest kept buffer that is large enough, or a new one.
  Buffer take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto fits = std::ranges::lower_bound(kept_, bytes, {}, &Buffer::size_bytes);
    if (fits == kept_.end()) return Buffer::on_host(DataType::u8, static_cast<std::int64_t>(bytes));
    Buffer buffer = std::move(*fits);
    kept_.erase(fits);
    return buffer;
  }
  void give_back(std::vector<Buffer> buffers) {
    const std::lock_guard lock(mutex_);
    for (Buffer& buffer : buffers) {
      const auto place = std::ranges::lower_bound(kept_, buffer.size_bytes(), {}, &Buffer::size_bytes);
      kept_.insert(place, std::move(buffer));
    }
  }

 private:
  std::mutex mutex_;
  std::vector<Buffer> kept_;  // by growing size
};

}  // namespace weft::detail
