#pragma once
// How masters and moments of some elements lie in a file: a plain value.
//
// Elements are cut into frames, which are read and written at once: of a frame first all masters, then all
// first moments, then all second ones. Frames end where buckets do, so that an update of a bucket reads no
// frame for a part of it; where buckets change later, it does.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::detail {

class StateFrames {
 public:
  struct Frame {
    std::int64_t begin = 0;  ///< element
    std::int64_t count = 0;
    std::uint64_t offset = 0;                ///< in the file
    std::size_t bytes = 0;                   ///< there, whole blocks
    std::array<std::size_t, 3> arrays_at{};  ///< in the frame, on cache lines
    friend bool operator==(const Frame&, const Frame&) = default;
  };
  /// Frames in memory at a time: one is updated, and others come and go.
  static constexpr std::size_t places = 4;

  StateFrames() = default;
  /// @param bounds where frames end at the latest; ascending from 0
  /// @param most elements of a frame
  /// @param element_bytes of each array
  StateFrames(const std::vector<std::int64_t>& bounds, std::int64_t most,
              const std::array<std::size_t, 3>& element_bytes);

  const std::vector<Frame>& frames() const { return frames_; }
  /// That the element lies in.
  const Frame& of(std::int64_t element) const;
  std::int64_t elements() const { return frames_.empty() ? 0 : frames_.back().begin + frames_.back().count; }
  std::size_t file_bytes() const { return file_bytes_; }
  /// Of all places, with what aligning them costs.
  std::size_t ring_bytes() const;

 private:
  std::vector<Frame> frames_;
  std::size_t file_bytes_ = 0;
  std::size_t largest_ = 0;
};

}  // namespace weft::detail
