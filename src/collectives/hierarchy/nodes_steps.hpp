#pragma once
// What a collective over nodes consists of: within each node, between nodes, within each node.
//
// A rail is one rank of each node. Each rail carries its slice between the nodes, at the same time as the
// others, so the network carries no more than if every node were one rank (docs/algorithms.md counts the
// bytes). Every sum is taken node by node, in rank order: every rank holds the
// same bits in every operation, and 16-bit types are rounded once more a node.

#include <functional>
#include <memory>
#include <vector>

#include "collectives/backend/backend.hpp"
#include "collectives/hierarchy/rails.hpp"
#include "collectives/kernels/slices.hpp"

namespace weft::detail {

/// Tasks one after the other, each made when the one before is complete.
class Sequence final : public Task {
 public:
  using Step = std::function<std::unique_ptr<Task>()>;

  /// @param memory that the steps use
  Sequence(std::vector<Step> steps, std::shared_ptr<Buffer> memory)
      : steps_(std::move(steps)), memory_(std::move(memory)) {}

  bool advance() override {
    for (; next_ < steps_.size() || current_; current_.reset()) {
      if (!current_) current_ = steps_[next_++]();
      if (current_ && !current_->advance()) return false;
    }
    return true;
  }
  void rest(std::chrono::microseconds at_most) override {
    if (current_) current_->rest(at_most);
  }

 private:
  std::vector<Step> steps_;
  std::shared_ptr<Buffer> memory_;
  std::size_t next_ = 0;
  std::unique_ptr<Task> current_;
};

/// Plans the steps of one rank's operations. Its backends outlive the steps that it makes.
class NodesSteps {
 public:
  using Steps = std::vector<Sequence::Step>;

  /// @param local of this node's ranks @param rail of this rail's @param flat of all ranks, over the wire alone
  NodesSteps(int rank, Topology topology, std::shared_ptr<Backend> local, std::shared_ptr<Backend> rail,
             std::shared_ptr<Backend> flat)
      : rank_(rank),
        topology_(std::move(topology)),
        place_(topology_, rank),
        local_(std::move(local)),
        rail_(std::move(rail)),
        flat_(std::move(flat)) {}

  /// Whether the three steps give what the operation promises.
  bool takes_steps(const Operation& operation) const;
  /// The operation as one task.
  std::unique_ptr<Task> start(const Operation& operation) {
    Steps steps = steps_of(operation);
    return std::make_unique<Sequence>(std::move(steps), room_);
  }

 private:
  Steps steps_of(const Operation& operation);
  Steps all_reduce(const Operation& operation);
  Steps reduce(const Operation& operation);
  Steps reduce_scatter(const Operation& operation);
  Steps all_gather(const Operation& operation);
  Steps broadcast(const Operation& operation);
  Steps barrier();

  void within(Steps& steps, Operation operation);
  void between(Steps& steps, Operation operation);
  /// The slice of `data` that this rank's rail carries, in place.
  void between_slices(Steps& steps, Collective kind, View data, ReduceOp op, int root = 0);
  /// What a mean is divided by within each node, and what is left to divide by between them.
  double headroom(DataType dtype) const;
  double left_to_divide(DataType dtype) const;
  static ReduceOp within_node(const Operation& operation);
  /// The sums of this node, by slices, in `data`.
  void reduce_slices(Steps& steps, const Operation& operation, ConstView in, View data);
  void gather_slices(Steps& steps, View data);
  static void copy(Steps& steps, ConstView from, View to);
  /// `wanted`, or room of the same size, where the node's ranks reach.
  View reachable(View wanted);
  View room(DataType dtype, std::int64_t count);
  Slice my_slice(const View& data) const {
    return slice_of(data.count(), place_.local, place_.rails, data.dtype());
  }

  int rank_;
  Topology topology_;
  Rails place_;
  std::shared_ptr<Backend> local_;
  std::shared_ptr<Backend> rail_;
  std::shared_ptr<Backend> flat_;
  std::chrono::nanoseconds timeout_{};  // of the operation that is planned
  std::uint64_t within_ = 0;            // operations of local_ so far
  std::uint64_t between_ = 0;           // of rail_
  // Operations follow each other, so one room serves all of them. An older, smaller one lives on with the
  // steps that were planned for it.
  std::shared_ptr<Buffer> room_;
};

}  // namespace weft::detail
