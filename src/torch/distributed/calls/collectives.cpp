// Collectives that give every rank, or one, the same: broadcast, reductions, barrier.

#include "torch/distributed/backend.hpp"
#include "torch/distributed/device/lane.hpp"
#include "torch/distributed/tensor_memory.hpp"
#include "torch/distributed/tensors.hpp"

namespace weft::distributed {
namespace {

/// Both ends of a reduction: what goes in and what comes out, in plain memory.
struct Ends {
  at::Tensor in;
  at::Tensor out;
};

Ends ends_of(const at::Tensor& tensor, const Reduction& reduction) {
  Ends ends;
  ends.out = plain(tensor);
  ends.in = reduction.factor.defined() ? prepared(tensor, reduction) : ends.out;
  return ends;
}

}  // namespace

TorchBackend::Result TorchBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  constexpr auto operation = "broadcast";
  const at::Tensor& tensor = the_one(operation, tensors);
  expect_dense(operation, tensor);
  const int root = checked_peer(operation, options.rootRank);
  if (root != getRank()) expect_writable(operation, tensor);
  auto work = make(
      {c10d::OpType::BROADCAST, "weft:broadcast", tensors, {tensors}, options.timeout, is_async(options)});
  const at::Tensor memory = plain(tensor);
  work->step([memory, root](const Issue& issue) {
    issue.add(issue.comm.broadcast(view_of(memory), root, issue.stream));
  });
  if (!memory.is_same(tensor) && root != getRank())
    work->at_end([memory, tensor] { copy_elements(tensor, memory); });
  return start(std::move(work));
}

TorchBackend::Result TorchBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  constexpr auto operation = "all_reduce";
  const at::Tensor& tensor = the_one(operation, tensors);
  if (tensor.layout() == at::kSparse) return allreduce_sparse(tensors, options);
  expect_dense(operation, tensor);
  expect_writable(operation, tensor);
  const Reduction reduction = reduction_of(operation, options.reduceOp, tensor.scalar_type());
  auto work = make(
      {c10d::OpType::ALLREDUCE, "weft:all_reduce", tensors, {tensors}, options.timeout, is_async(options)});
  const Ends ends = ends_of(tensor, reduction);
  work->step([ends, op = reduction.op](const Issue& issue) {
    issue.add(issue.comm.all_reduce(view_of(ends.in), view_of(ends.out), op, issue.stream));
  });
  if (!ends.out.is_same(tensor)) work->at_end([ends, tensor] { copy_elements(tensor, ends.out); });
  return start(std::move(work));
}

TorchBackend::Result TorchBackend::allreduce_coalesced(Tensors& tensors,
                                                       const c10d::AllreduceCoalescedOptions& options) {
  constexpr auto operation = "all_reduce_coalesced";
  if (tensors.empty()) {
    auto none = make({c10d::OpType::ALLREDUCE_COALESCED, "weft:all_reduce_coalesced"});
    none->step([](const Issue&) {});
    return start(std::move(none));
  }
  expect_alike(operation, tensors);
  expect_writable(operation, tensors);
  const Reduction reduction = reduction_of(operation, options.reduceOp, tensors.front().scalar_type());
  auto work = make({c10d::OpType::ALLREDUCE_COALESCED,
                    "weft:all_reduce_coalesced",
                    tensors,
                    {tensors},
                    options.timeout,
                    is_async(options)});
  Tensors places = plain(tensors);
  separate(places, {});
  std::vector<Ends> all;
  for (const at::Tensor& place : places) all.push_back(ends_of(place, reduction));
  work->step([all, op = reduction.op](const Issue& issue) {
    for (const Ends& ends : all)
      issue.add(issue.comm.all_reduce(view_of(ends.in), view_of(ends.out), op, issue.stream));
  });
  work->at_end([all, tensors] {
    for (std::size_t i = 0; i < all.size(); ++i) copy_elements(tensors[i], all[i].out);
  });
  return start(std::move(work));
}

TorchBackend::Result TorchBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  constexpr auto operation = "reduce";
  const at::Tensor& tensor = the_one(operation, tensors);
  expect_dense(operation, tensor);
  const int root = checked_peer(operation, options.rootRank);
  if (root == getRank()) expect_writable(operation, tensor);
  const Reduction reduction = reduction_of(operation, options.reduceOp, tensor.scalar_type());
  auto work =
      make({c10d::OpType::REDUCE, "weft:reduce", tensors, {tensors}, options.timeout, is_async(options)});
  const Ends ends = ends_of(tensor, reduction);
  work->step([ends, op = reduction.op, root](const Issue& issue) {
    issue.add(issue.comm.reduce(view_of(ends.in), view_of(ends.out), op, root, issue.stream));
  });
  if (!ends.out.is_same(tensor) && root == getRank())
    work->at_end([ends, tensor] { copy_elements(tensor, ends.out); });
  return start(std::move(work));
}

TorchBackend::Result TorchBackend::barrier(const c10d::BarrierOptions& options) {
  const c10::Device asked = options.device.value_or(at::kCPU);
  const c10::Device device = device_of(asked) ? asked : c10::Device(at::kCPU);
  auto work =
      make({c10d::OpType::BARRIER, "weft:barrier", {}, {}, options.timeout, is_async(options)}, device);
  work->step([](const Issue& issue) { issue.add(issue.comm.barrier(issue.stream)); });
  return start(std::move(work));
}

}  // namespace weft::distributed
