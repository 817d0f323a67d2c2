#include "zero/state_frames.hpp"

#include <algorithm>

#include "core/round_up.hpp"
#include "core/scratch_file.hpp"
#include "weft/core/buffer.hpp"

namespace weft::detail {

StateFrames::StateFrames(const std::vector<std::int64_t>& bounds, std::int64_t most,
                         const std::array<std::size_t, 3>& element_bytes) {
  for (std::size_t cell = 0; cell + 1 < bounds.size(); ++cell) {
    for (std::int64_t begin = bounds[cell]; begin < bounds[cell + 1]; begin += frames_.back().count) {
      Frame frame{.begin = begin, .count = std::min(most, bounds[cell + 1] - begin), .offset = file_bytes_};
      for (std::size_t i = 0; i < element_bytes.size(); ++i) {
        frame.arrays_at[i] = frame.bytes;
        frame.bytes += round_up(static_cast<std::size_t>(frame.count) * element_bytes[i], Buffer::alignment);
      }
      frame.bytes = round_up(frame.bytes, ScratchFile::block);
      file_bytes_ += frame.bytes;
      largest_ = std::max(largest_, frame.bytes);
      frames_.push_back(frame);
    }
  }
}

const StateFrames::Frame& StateFrames::of(std::int64_t element) const {
  return *(std::ranges::upper_bound(frames_, element, {}, &Frame::begin) - 1);
}

std::size_t StateFrames::ring_bytes() const {
  return frames_.empty() ? 0 : std::min(places, frames_.size()) * largest_ + ScratchFile::block;
}

}  // namespace weft::detail
