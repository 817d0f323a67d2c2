#pragma once
// The part of an optimizer's state that lies in a file: masters and moments pass frame by frame through a few
// places in pinned memory, where a thread of the host updates them.
//
//   state.announce(at);                                        // when it is known that they are next
//   state.visit(at, count, true, [&](const StateViews& there) { ... });      // in that order
//
// Any thread announces; one thread at a time visits.

#include <functional>
#include <string>

#include "core/file_ring.hpp"
#include "zero/state_arrays.hpp"
#include "zero/state_frames.hpp"

namespace weft::detail {

class StateFile {
 public:
  using Work = std::function<void(const StateViews& there)>;

  /// All zeros. @throws Error (system) where there is too little space or memory, no such folder, or no
  /// io_uring; (usage) in a build without it
  StateFile(Device device, const StateKind& kind, StateFrames frames, const std::string& directory, int rank);

  /// Elements from `at` on that lie in one frame; at most `most`.
  std::int64_t reach(std::int64_t at, std::int64_t most) const;
  /// Elements from `at` on will be visited.
  void announce(std::int64_t at);
  /// What is announced is read as far as there is memory, from now on. @throws Error as visit()
  void read_ahead(std::uint64_t step);
  /// Elements of one frame: blocks until they are in memory; afterwards, if `changes`, they go back. @param
  /// step for messages; 0: none
  /// @throws Error (system, timeout) where they, or what was written before, could not be read or written
  void visit(std::int64_t at, std::int64_t count, bool changes, std::uint64_t step, const Work& work);
  /// Everything is written; blocks. @throws Error as visit()
  void settle(std::uint64_t step);

  /// Elements that pass in a second, read and written; over some frames, as they are. Blocks.
  double elements_per_second();
  std::int64_t file_bytes() const { return static_cast<std::int64_t>(frames_.file_bytes()); }
  /// Of memory.
  std::int64_t ring_bytes() const { return static_cast<std::int64_t>(frames_.ring_bytes()); }

 private:
  StateViews views(const StateFrames::Frame& frame, std::span<std::byte> memory) const;
  template <class Call>
  auto told_of(std::uint64_t step, Call call);

  StateKind kind_;
  StateFrames frames_;
  int rank_;
  FileRing ring_;
};

}  // namespace weft::detail
