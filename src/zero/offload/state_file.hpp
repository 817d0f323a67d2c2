#pragma once
// The part of an optimizer's state that lies in a file. Masters and moments pass frame by frame through a
// ring of four buffers in pinned memory, where a host thread updates them.
//
//   state.announce(at);                                        // as soon as it is known which are next
//   state.visit(at, count, true, [&](const StateViews& there) { ... });      // in the same order
//
// Any thread may announce; one thread at a time visits. Each frame is one read and one write.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/files/file_ring.hpp"
#include "zero/offload/state_layout.hpp"

namespace weft::detail {

/// How masters and moments lie in the file: a plain value.
///
/// Elements are cut into frames, which are read and written at once. A frame holds first all its masters,
/// then all first moments, then all second moments. Frames end where buckets do, so that the update of a
/// bucket reads no other bucket's elements. Where buckets change later, frames at their borders are read
/// twice.
class StateFrames {
 public:
  struct Frame {
    std::int64_t begin = 0;  ///< first element
    std::int64_t count = 0;
    std::uint64_t offset = 0;                ///< in the file
    std::size_t bytes = 0;                   ///< in the file, whole blocks
    std::array<std::size_t, 3> arrays_at{};  ///< offsets of the arrays in the frame, on cache lines
    friend bool operator==(const Frame&, const Frame&) = default;
  };
  /// Frames in memory at a time: one is updated while others are read and written.
  static constexpr std::size_t places = 4;

  StateFrames() = default;
  /// @param bounds no frame crosses one of these; ascending from 0
  /// @param most the most elements in a frame
  /// @param element_bytes bytes of an element in each array
  StateFrames(const std::vector<std::int64_t>& bounds, std::int64_t most,
              const std::array<std::size_t, 3>& element_bytes);

  const std::vector<Frame>& frames() const { return frames_; }
  /// The frame that holds the element.
  const Frame& of(std::int64_t element) const;
  std::int64_t elements() const { return frames_.empty() ? 0 : frames_.back().begin + frames_.back().count; }
  std::size_t file_bytes() const { return file_bytes_; }
  /// Bytes of memory for all places, including alignment.
  std::size_t ring_bytes() const;

 private:
  std::vector<Frame> frames_;
  std::size_t file_bytes_ = 0;
  std::size_t largest_ = 0;
};

class StateFile {
 public:
  using Visitor = std::function<void(const StateViews& there)>;

  /// The state begins as zeros.
  /// @throws Error (system) if space, memory, the folder or io_uring is missing; (usage) in a build
  /// without io_uring
  StateFile(Device device, const StateKind& kind, StateFrames frames, const std::string& directory, int rank);

  /// How many elements from `at` on lie in one frame; at most `most`.
  std::int64_t reach(std::int64_t at, std::int64_t most) const;
  /// Says that the frame of element `at` will be visited next after those announced before.
  void announce(std::int64_t at);
  /// Starts to read announced frames, as many as there is memory for. @throws Error as visit()
  void read_ahead(std::uint64_t step);
  /// Calls `visitor` with elements of one frame: blocks until the frame is in memory, and afterwards writes
  /// it back if the visitor `changes` it.
  /// @param step the step's number for messages; 0: none
  /// @throws Error (system, timeout) if this frame could not be read, or an earlier one not written
  void visit(std::int64_t at, std::int64_t count, bool changes, std::uint64_t step, const Visitor& visitor);
  /// Blocks until every frame is written. @throws Error as visit()
  void settle(std::uint64_t step);

  /// Measures how many elements are read and written per second, with the first frames. Blocks.
  double elements_per_second();
  std::int64_t file_bytes() const { return static_cast<std::int64_t>(frames_.file_bytes()); }
  /// Bytes of pinned memory.
  std::int64_t ring_bytes() const { return static_cast<std::int64_t>(frames_.ring_bytes()); }

 private:
  StateViews views(const StateFrames::Frame& frame, std::span<std::byte> memory) const;
  template <class Call>
  auto with_context(std::uint64_t step, Call call);

  StateKind kind_;
  StateFrames frames_;
  int rank_;
  FileRing ring_;
};

}  // namespace weft::detail
