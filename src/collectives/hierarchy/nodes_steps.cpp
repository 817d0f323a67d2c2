#include "collectives/hierarchy/nodes_steps.hpp"

#include <bit>
#include <cstring>

namespace weft::detail {
namespace {

/// With more parts a chunk of the staging space would hold less than a cache line of each.
constexpr int most_staged_parts = 1024;

}  // namespace

bool NodesSteps::takes_steps(const Operation& operation) const {
  switch (operation.kind) {
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::reduce_scatter:
      // The mean of integers is rounded once, so their sum must not be.
      return operation.op != ReduceOp::avg || is_floating(operation.dtype);
    case Collective::all_gather:
    case Collective::broadcast:
    case Collective::barrier:
      return true;
    default:
      return false;  // of all_to_all every byte goes to one rank only
  }
}

NodesSteps::Steps NodesSteps::steps_of(const Operation& operation) {
  timeout_ = operation.timeout;
  switch (operation.kind) {
    case Collective::all_reduce:
      return all_reduce(operation);
    case Collective::reduce:
      return reduce(operation);
    case Collective::reduce_scatter:
      return reduce_scatter(operation);
    case Collective::all_gather:
      return all_gather(operation);
    case Collective::broadcast:
      return broadcast(operation);
    default:
      return barrier();
  }
}

void NodesSteps::within(Steps& steps, Operation operation) {
  operation.number = ++within_;
  operation.timeout = timeout_;
  steps.push_back([this, operation] { return local_->start(operation, Stream()); });
}

void NodesSteps::between(Steps& steps, Operation operation) {
  if (!place_.on_rail()) return;
  operation.number = ++between_;
  operation.timeout = timeout_;
  steps.push_back([this, operation] { return rail_->start(operation, Stream()); });
}

void NodesSteps::copy(Steps& steps, ConstView from, View to) {
  if (from.data() == to.data() || to.empty()) return;
  steps.push_back([from, to]() -> std::unique_ptr<Task> {
    std::memcpy(to.data(), from.data(), to.size_bytes());
    return nullptr;
  });
}

View NodesSteps::room(DataType dtype, std::int64_t count) {
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
  if (!room_ || room_->size_bytes() < bytes)
    room_ = std::make_shared<Buffer>(
        local_->allocate(DataType::u8, static_cast<std::int64_t>(bytes), Contents::zeroed));
  return {room_->view().data(), count, dtype};
}

View NodesSteps::reachable(View wanted) {
  return local_->reaches(wanted) ? wanted : room(wanted.dtype(), wanted.count());
}

void NodesSteps::reduce_slices(Steps& steps, const Operation& operation, ConstView in, View data) {
  if (!local_->reaches(in)) {
    copy(steps, in, data);
    in = data;
  }
  within(steps, {.kind = Collective::reduce_slices,
                 .in = in,
                 .out = data,
                 .count = data.count(),
                 .dtype = data.dtype(),
                 .op = within_node(operation),
                 .slices = place_.rails,
                 .divisor = headroom(operation.dtype)});
}

void NodesSteps::gather_slices(Steps& steps, View data) {
  within(steps, {.kind = Collective::gather_slices,
                 .in = data,
                 .out = data,
                 .count = data.count(),
                 .dtype = data.dtype(),
                 .slices = place_.rails});
}

/// A mean is the sum divided once, when the last node is added. Only f16 needs more: a node's sum must fit it on its
/// way to the others. A power of two changes no bit of a sum but of subnormal ones, so it comes off there.
double NodesSteps::headroom(DataType dtype) const {
  return dtype == DataType::f16 ? std::bit_ceil(static_cast<unsigned>(topology_.size())) : 1;
}

ReduceOp NodesSteps::within_node(const Operation& operation) {
  const bool divides = operation.op == ReduceOp::avg && operation.dtype == DataType::f16;
  return operation.op == ReduceOp::avg && !divides ? ReduceOp::sum : operation.op;
}

double NodesSteps::left_to_divide(DataType dtype) const {
  return topology_.size() / headroom(dtype);
}

void NodesSteps::between_slices(Steps& steps, Collective kind, View data, ReduceOp op, int root) {
  const Slice mine = my_slice(data);
  const View slice = data.slice(mine.begin, mine.count);
  between(steps, {.kind = kind,
                  .in = slice,
                  .out = slice,
                  .count = mine.count,
                  .dtype = data.dtype(),
                  .op = op,
                  .root = root,
                  .divisor = left_to_divide(data.dtype())});
}

NodesSteps::Steps NodesSteps::all_reduce(const Operation& operation) {
  Steps steps;
  const View data = reachable(operation.out);
  reduce_slices(steps, operation, operation.in, data);
  between_slices(steps, Collective::all_reduce, data, operation.op);
  gather_slices(steps, data);
  copy(steps, data, operation.out);
  return steps;
}

NodesSteps::Steps NodesSteps::reduce(const Operation& operation) {
  Steps steps;
  const bool is_root = rank_ == operation.root;
  const View data = is_root ? reachable(operation.out) : room(operation.dtype, operation.count);
  reduce_slices(steps, operation, operation.in, data);
  const int node = topology_.node_of(operation.root);
  between_slices(steps, Collective::reduce, data, operation.op, node);
  if (node == place_.node) gather_slices(steps, data);
  if (is_root) copy(steps, data, operation.out);
  return steps;
}

NodesSteps::Steps NodesSteps::reduce_scatter(const Operation& operation) {
  Steps steps;
  const std::int64_t count = operation.count;
  const std::int64_t sums_count = count * static_cast<std::int64_t>(place_.parts.of.size());
  ConstView in = operation.in;
  const bool copies = topology_.size() > most_staged_parts && !local_->reaches(in);
  const View whole = room(operation.dtype, sums_count + (copies ? in.count() : 0));
  const View sums = whole.slice(0, sums_count);
  if (copies) {
    copy(steps, in, whole.slice(sums_count, in.count()));
    in = whole.slice(sums_count, in.count());
  }
  const Operation sum{.kind = Collective::reduce_parts,
                      .in = in,
                      .out = sums,
                      .count = count,
                      .dtype = operation.dtype,
                      .op = within_node(operation),
                      .slices = topology_.size(),
                      .parts = &place_.parts,
                      .divisor = headroom(operation.dtype)};
  within(steps, sum);
  Operation rest = sum;
  rest.in = sums;
  rest.out = operation.out;
  rest.op = operation.op;
  rest.divisor = left_to_divide(operation.dtype);
  rest.number = operation.number;
  rest.timeout = timeout_;
  if (place_.even) {
    rest.kind = Collective::reduce_scatter;
    between(steps, rest);
  } else {
    steps.push_back([this, rest] { return flat_->start(rest, Stream()); });
  }
  return steps;
}

NodesSteps::Steps NodesSteps::all_gather(const Operation& operation) {
  Steps steps;
  const std::int64_t count = operation.count;
  const View data = reachable(operation.out);
  const View own = data.slice(count * rank_, count);
  copy(steps, operation.in, own);
  std::vector<Transfer> transfers;
  for (int step = 1; step < place_.nodes && count > 0; ++step) {
    const auto node = static_cast<std::size_t>((place_.node + step) % place_.nodes);
    transfers.push_back({own, {}, place_.parts.with[node], true});
  }
  for (const int owner : place_.parts.of) {
    if (owner != rank_ && count > 0)
      transfers.push_back({{}, data.slice(count * owner, count), owner, false});
  }
  steps.push_back([this, transfers, timeout = timeout_] {
    return flat_->start(Transfers{transfers, timeout}, Stream());
  });
  within(steps, {.kind = Collective::gather_parts,
                 .in = data,
                 .out = data,
                 .count = count,
                 .dtype = operation.dtype,
                 .slices = topology_.size(),
                 .parts = &place_.parts});
  copy(steps, data, operation.out);
  return steps;
}

NodesSteps::Steps NodesSteps::broadcast(const Operation& operation) {
  Steps steps;
  const int node = topology_.node_of(operation.root);
  const View data = reachable(operation.out);
  if (node == place_.node) {
    if (rank_ == operation.root) copy(steps, operation.in, data);
    within(steps, {.kind = Collective::broadcast,
                   .in = data,
                   .out = data,
                   .count = data.count(),
                   .dtype = data.dtype(),
                   .root = topology_.local_rank(operation.root)});
  }
  between_slices(steps, Collective::broadcast, data, ReduceOp::sum, node);
  if (node != place_.node) gather_slices(steps, data);
  if (rank_ != operation.root) copy(steps, data, operation.out);
  return steps;
}

NodesSteps::Steps NodesSteps::barrier() {
  Steps steps;
  within(steps, {.kind = Collective::barrier});
  between(steps, {.kind = Collective::barrier});
  within(steps, {.kind = Collective::barrier});
  return steps;
}

}  // namespace weft::detail
