#pragma once
// How the data of one operation gets from rank to rank within a node, in one of three ways. Ranks take the
// same one, for it depends on the operation and on all ranks' slots.
//
// Small: every rank puts its input beside its slot, and works its result out of all of them. Direct, when
// every rank's buffers are reachable: for reductions each rank reduces its slice from all inputs and stores
// it to all outputs: 2 bytes of memory traffic per message byte and rank, the minimum. A long broadcast
// spreads in the same way, so that all cores copy. The others pull. Staged, when any rank's are not: the same
// over staging space, chunk by chunk; what comes from another rank or goes to one is copied once on the way.

#include <span>

#include "collectives/shm/shm_layout.hpp"
#include "collectives/shm/shm_segment.hpp"

namespace weft::detail {

class ShmExchange {
 public:
  ShmExchange(ShmSegment& segment, const Operation& operation);

  const Operation& operation() const { return operation_; }
  bool is_small() const { return way_ == Way::small; }
  /// Before the first barrier phase: puts a small operation's data, or any other's addresses, into `own`.
  void post(OpSlot& own) const;
  /// After the first barrier phase, when all slots can be read.
  void choose_way();
  bool is_direct() const { return way_ == Way::direct; }

  /// The first chunk, and then the next. False: there is none.
  bool next_chunk();
  void copy_in();
  void exchange();
  void copy_out();

 private:
  enum class Way : std::uint8_t { small, direct, staged };

  OpSlot& op_slot(int rank) const { return segment_.op_slot(rank, operation_.number); }
  bool outputs_are_shared() const {
    return operation_.kind == Collective::all_reduce || operation_.kind == Collective::reduce;
  }
  bool takes_part_of_every_input() const {
    return operation_.kind == Collective::reduce_scatter || operation_.kind == Collective::all_to_all ||
           operation_.kind == Collective::reduce_parts;
  }
  bool writes(int rank) const { return operation_.kind == Collective::all_reduce || rank == operation_.root; }
  bool has_input(int rank) const {
    return operation_.kind != Collective::broadcast || rank == operation_.root;
  }
  std::size_t bytes(std::int64_t count) const {
    return static_cast<std::size_t>(count) * size_of(operation_.dtype);
  }
  /// How many parts every input has.
  std::int64_t parts() const {
    if (operation_.parts != nullptr) return operation_.slices;
    return takes_part_of_every_input() ? segment_.size() : 1;
  }
  /// Those that this rank takes.
  std::span<const int> own_parts() const {
    if (operation_.kind == Collective::reduce_parts) return operation_.parts->of;
    return {&part_, 1};
  }
  /// The elements of a part of `rank`'s input that are worked on in this round.
  const std::byte* input(int rank, std::int64_t part) const;
  const std::byte* input(int rank) const { return input(rank, part_); }
  std::byte* output(int rank) const;
  std::byte* own_output() const { return operation_.out.bytes() + bytes(begin_); }

  void reduce_my_share();
  void reduce_my_parts();
  void spread_my_slice();
  void pull();
  void pull_part(const std::byte* source, std::byte* destination) const;
  void pull_slices();
  void pull_parts();

  ShmSegment& segment_;
  Operation operation_;
  int part_;  // of every input that this rank takes, if it is one
  Way way_;
  bool spreads_ = false;
  std::int64_t begin_ = 0;  // of the chunk at hand, in the operation's unit
  std::int64_t length_ = 0;
  std::int64_t chunk_ = 0;
};

}  // namespace weft::detail
