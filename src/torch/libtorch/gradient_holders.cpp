#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "torch/libtorch/gradient_hooks.hpp"

namespace weft::torch::detail {
namespace {

/// A tensor over some memory, and how often views among those that are looked at keep it.
struct OverIt {
  const at::Tensor* tensor;
  bool is_given;
  std::size_t kept = 0;
};

/// Mostly one or two: not from the heap.
using AllOverIt = c10::SmallVector<OverIt, 8>;

void look_at(const at::Tensor& tensor, bool is_given, AllOverIt& all) {
  const auto known =
      std::ranges::find_if(all, [&](const OverIt& one) { return one.tensor->is_same(tensor); });
  if (known == all.end()) {
    all.push_back({&tensor, is_given, is_given ? 0U : 1U});
  } else if (!is_given) {
    ++known->kept;
  }
}

}  // namespace

/// Those of two parameters may share memory, such as those of a sum. The engine still has what it handed to the accumulation, of which the gradient is a view, and a view keeps the
/// tensor that it is of.
bool is_alone(const at::Tensor& gradient, const std::vector<at::Tensor>& incoming) {
  const auto* const storage = gradient.storage().unsafeGetStorageImpl();
  AllOverIt all;
  look_at(gradient, true, all);
  for (const at::Tensor& one : incoming) {
    if (one.defined() && one.layout() == c10::kStrided && one.storage().unsafeGetStorageImpl() == storage)
      look_at(one, true, all);
  }
  for (std::size_t i = 0, given = all.size(); i < given; ++i) {
    const auto* const views = ::torch::autograd::impl::get_view_autograd_meta(*all[i].tensor);
    if (views == nullptr) continue;
    if (views->has_bw_view()) look_at(views->get_backward_view().base_, false, all);
    if (views->has_fw_view() && !views->shared_view_info())
      look_at(views->get_forward_view().base_, false, all);
  }
  const bool all_known = static_cast<std::size_t>(gradient.storage().use_count()) == all.size();
  return all_known && std::ranges::all_of(all, [](const OverIt& one) {
           return one.is_given || static_cast<std::size_t>(one.tensor->use_count()) == one.kept;
         });
}

}  // namespace weft::torch::detail
