#include "torch/distributed/tensors.hpp"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include "torch/distributed/device/lane.hpp"
#include "torch/distributed/errors.hpp"
#include "torch/distributed/tensor_memory.hpp"
#include "weft/core/text.hpp"

namespace weft::distributed {
namespace {

struct Elements {
  DataType dtype;
  std::int64_t each;  ///< elements of `dtype` in one of torch's
};

/// How torch's elements are moved.
Elements elements_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return {DataType::f32, 1};
    case at::kDouble:
      return {DataType::f64, 1};
    case at::kHalf:
      return {DataType::f16, 1};
    case at::kBFloat16:
      return {DataType::bf16, 1};
    case at::kInt:
      return {DataType::i32, 1};
    case at::kLong:
      return {DataType::i64, 1};
    case at::kChar:
      return {DataType::i8, 1};
    case at::kShort:
    case at::kUInt16:
      return {DataType::i16, 1};
    case at::kUInt32:
      return {DataType::u32, 1};
    case at::kUInt64:
      return {DataType::u64, 1};
    case at::kComplexHalf:
      return {DataType::f16, 2};
    case at::kComplexFloat:
      return {DataType::f32, 2};
    case at::kComplexDouble:
      return {DataType::f64, 2};
    default:
      return {DataType::u8, static_cast<std::int64_t>(c10::elementSize(type))};
  }
}

bool can_reduce(at::ScalarType type) {
  const Elements elements = elements_of(type);
  return type == at::kByte || type == at::kBool || (elements.dtype != DataType::u8 && type != at::kUInt16);
}

ReduceOp numeric(const char* operation, c10d::ReduceOp::RedOpType op) {
  switch (op) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::PREMUL_SUM:
      return ReduceOp::sum;
    case c10d::ReduceOp::AVG:
      return ReduceOp::avg;
    case c10d::ReduceOp::PRODUCT:
      return ReduceOp::prod;
    case c10d::ReduceOp::MIN:
      return ReduceOp::min;
    case c10d::ReduceOp::MAX:
      return ReduceOp::max;
    case c10d::ReduceOp::BAND:
      return ReduceOp::band;
    case c10d::ReduceOp::BOR:
      return ReduceOp::bor;
    case c10d::ReduceOp::BXOR:
      return ReduceOp::bxor;
    default:
      refuse(operation, text("reduction ", static_cast<int>(op), " is unknown"), "update weft");
  }
}

ReduceOp logical(const char* operation, ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::max:
    case ReduceOp::bor:
      return ReduceOp::max;
    case ReduceOp::prod:
    case ReduceOp::min:
    case ReduceOp::band:
      return ReduceOp::min;
    case ReduceOp::bxor:
      return ReduceOp::bxor;
    case ReduceOp::avg:
      break;
  }
  refuse(operation, "the mean of truth values", "convert the tensor to a floating-point type");
}

/// Wrappers such as torch.func's have no memory, and a storage may have been resized to nothing.
void expect_memory(const char* operation, const at::Tensor& tensor) {
  if (tensor.numel() == 0) return;
  const bool has_storage = tensor.unsafeGetTensorImpl()->has_storage();
  const std::size_t there = has_storage && tensor.storage().data() != nullptr ? tensor.storage().nbytes() : 0;
  std::int64_t last = tensor.storage_offset();
  for (std::int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  const std::size_t needed = (static_cast<std::size_t>(last) + 1) * tensor.element_size();
  if (there < needed)
    refuse(operation, text("a tensor that needs ", needed, " bytes of a storage of ", there),
           "give one with memory of its own");
}

}  // namespace

Reduction reduction_of(const char* operation, const c10d::ReduceOp& op, at::ScalarType type) {
  if (!can_reduce(type))
    refuse(operation, text("elements of type ", c10::toString(type), " cannot be reduced"),
           "convert the tensor to a type of 8 to 64 bits with a sign, or to a floating-point type of 16 bits "
           "or more");
  Reduction reduction{numeric(operation, op.op_)};
  if (op.op_ == c10d::ReduceOp::PREMUL_SUM) {
    const auto* factor = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
    if (factor == nullptr)
      refuse(operation, "a premultiplied sum without a factor", "make it with torch's own function");
    reduction.factor = factor->tensor_factor.defined()
                           ? factor->tensor_factor
                           : at::scalar_tensor(factor->double_factor, at::kDouble);
    if (type == at::kBool)
      refuse(operation, "the premultiplied sum of truth values", "convert the tensor to numbers");
  }
  if (type == at::kBool) reduction.op = logical(operation, reduction.op);
  if (is_bitwise(reduction.op) && (c10::isFloatingType(type) || c10::isComplexType(type)))
    refuse(operation, text(reduction.op, " of ", c10::toString(type), " elements"), "give integers");
  const bool is_linear = reduction.op == ReduceOp::sum || reduction.op == ReduceOp::avg;
  if (c10::isComplexType(type) && !is_linear)
    refuse(operation, text(reduction.op, " of complex elements"), "only sums and means of them are taken");
  return reduction;
}

View view_of(const at::Tensor& tensor) {
  const Elements elements = elements_of(tensor.scalar_type());
  const std::int64_t count = tensor.numel() * elements.each;
  return {count == 0 ? nullptr : tensor.mutable_data_ptr(), count, elements.dtype,
          device_of(tensor.device()).value()};
}

void expect_dense(const char* operation, const at::Tensor& tensor) {
  if (!tensor.defined()) refuse(operation, "an undefined tensor", "give one with memory");
  if (!device_of(tensor.device()))
    refuse(
        operation,
        text("a tensor on ", tensor.device().str(),
             ": weft exchanges memory of the host and of CUDA devices, and tensors of the latter are ",
             lanes_of_this_build()),
        "build weft with CUDA, or use init_process_group(\"cpu:weft,cuda:nccl\"), which leaves those tensors "
        "to torch");
  if (tensor.layout() != at::kStrided)
    refuse(operation, text("a tensor with the layout ", c10::str(tensor.layout())),
           "give a dense one: of sparse tensors there is all_reduce alone");
  if (tensor.is_nested()) refuse(operation, "a nested tensor", "give the tensors that it is made of");
  if (tensor.is_quantized())
    refuse(operation, "a quantized tensor, whose scale would stay behind",
           "give its int_repr(), or a dequantized one");
  if (tensor._is_zerotensor()) refuse(operation, "a tensor of zeros that has no memory", "give its clone()");
  expect_memory(operation, tensor);
}

void expect_writable(const char* operation, const at::Tensor& tensor) {
  if (at::has_internal_overlap(tensor) != at::MemOverlap::Yes) return;
  refuse(operation, "an output whose elements share memory, as those of an expanded tensor do",
         "give its clone()");
}

void expect_writable(const char* operation, const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) expect_writable(operation, tensor);
}

void expect_alike(const char* operation, const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    expect_dense(operation, tensor);
    if (tensor.device() != tensors.front().device())
      refuse(operation,
             text("tensors on ", tensors.front().device().str(), " and on ", tensor.device().str()),
             "all are on one device");
    if (tensor.scalar_type() != tensors.front().scalar_type())
      refuse(operation,
             text("tensors of ", c10::toString(tensors.front().scalar_type()), " and ",
                  c10::toString(tensor.scalar_type())),
             "all have one data type");
  }
}

const at::Tensor& the_one(const char* operation, const std::vector<at::Tensor>& tensors) {
  if (tensors.size() != 1) refuse(operation, text(tensors.size(), " tensors"), "give one");
  return tensors.front();
}

at::Tensor prepared(const at::Tensor& tensor, const Reduction& reduction) {
  if (!reduction.factor.defined()) return plain(tensor);
  const at::NoGradGuard no_gradient;
  const at::AutoDispatchBelowADInplaceOrView below;
  return plain(at::mul(tensor, reduction.factor).to(tensor.scalar_type()));
}

bool are_even(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() != tensors.front().numel()) return false;
  }
  return true;
}

}  // namespace weft::distributed
