// all_reduce of sparse tensors (COO): the sum of what all ranks have, sparse again.
//
// Ranks have different numbers of elements. So the first step tells each how many the others have, and the
// second gathers indices and values, each rank's filled up to the largest number. The price is that every
// rank receives and adds up what all have; there is no smaller result to reduce to, as long as the positions
// differ.

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include "torch/distributed/backend.hpp"
#include "torch/distributed/device/lane.hpp"
#include "torch/distributed/errors.hpp"
#include "torch/distributed/tensor_memory.hpp"
#include "torch/distributed/tensors.hpp"

namespace weft::distributed {
namespace {

/// What the steps hand on to each other.
struct SparseSum {
  at::Tensor tensor;
  at::Tensor indices;    ///< of this rank: dimensions x elements
  at::Tensor values;     ///< elements x ...
  at::Tensor own_count;  ///< one i64
  at::Tensor counts;     ///< one for each rank
  at::Tensor padded_indices, padded_values;
  at::Tensor all_indices, all_values;

  void pad(int ranks);
  void add_up(int ranks);
};

void SparseSum::pad(int ranks) {
  const at::NoGradGuard no_gradient;
  const std::int64_t most = counts.max().item<std::int64_t>();
  const std::int64_t own = values.size(0);
  std::vector<std::int64_t> shape = values.sizes().vec();
  shape[0] = most;
  padded_indices = at::zeros({most, indices.size(0)}, indices.options());
  padded_values = at::zeros(shape, values.options());
  padded_indices.narrow(0, 0, own).copy_(indices.t());
  padded_values.narrow(0, 0, own).copy_(values);
  all_indices = at::empty({ranks * most, indices.size(0)}, indices.options());
  shape[0] = ranks * most;
  all_values = at::empty(shape, values.options());
}

void SparseSum::add_up(int ranks) {
  const at::NoGradGuard no_gradient;
  const std::int64_t most = padded_values.size(0);
  std::vector<at::Tensor> some_indices;
  std::vector<at::Tensor> some_values;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t count = counts[rank].item<std::int64_t>();
    some_indices.push_back(all_indices.narrow(0, rank * most, count));
    some_values.push_back(all_values.narrow(0, rank * most, count));
  }
  const at::Tensor sum =
      at::sparse_coo_tensor(at::cat(some_indices).t().contiguous(), at::cat(some_values), tensor.sizes());
  tensor.copy_(sum.coalesce());
}

}  // namespace

TorchBackend::Result TorchBackend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  constexpr auto operation = "all_reduce of a sparse tensor";
  const at::Tensor& tensor = the_one(operation, tensors);
  if (tensor.layout() != at::kSparse || device_of(tensor.device()) != Device::host())
    refuse(operation,
           text("a tensor with the layout ", c10::str(tensor.layout()), " on ", tensor.device().str()),
           "give a COO tensor on the host");
  if (options.reduceOp.op_ != c10d::ReduceOp::SUM)
    refuse(operation, "another reduction than a sum", "take ReduceOp.SUM");
  auto sum = std::make_shared<SparseSum>();
  {
    const at::NoGradGuard no_gradient;
    sum->tensor = tensor;
    const at::Tensor coalesced = tensor.coalesce();
    sum->indices = coalesced.indices();
    sum->values = plain(coalesced.values());
    sum->own_count = at::full({1}, sum->values.size(0), at::kLong);
    sum->counts = at::empty({getSize()}, at::kLong);
  }
  const int ranks = getSize();
  auto work = make({c10d::OpType::_ALLREDUCE_SPARSE,
                    "weft:all_reduce",
                    tensors,
                    {tensors},
                    options.timeout,
                    is_async(options)});
  work->step([sum](const Issue& issue) {
    issue.add(issue.comm.all_gather(view_of(sum->own_count), view_of(sum->counts), issue.stream));
  });
  work->step([sum, ranks](const Issue& issue) {
    sum->pad(ranks);
    issue.add(issue.comm.all_gather(view_of(sum->padded_indices), view_of(sum->all_indices), issue.stream));
    issue.add(issue.comm.all_gather(view_of(sum->padded_values), view_of(sum->all_values), issue.stream));
  });
  work->at_end([sum, ranks] { sum->add_up(ranks); });
  return start(std::move(work));
}

}  // namespace weft::distributed
