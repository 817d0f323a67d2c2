#include "torch/distributed/tensor_memory.hpp"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace weft::distributed {
namespace {

/// Bytes of plain memory, of a place or of a source.
struct Range {
  const char* begin;
  const char* end;
  at::Tensor* place;  ///< null: it is only read

  std::ptrdiff_t bytes() const { return end - begin; }
};

Range range_of(const at::Tensor& tensor, at::Tensor* place) {
  const auto* const begin = static_cast<const char*>(tensor.const_data_ptr());
  return {begin, begin + tensor.nbytes(), place};
}

/// Whether one is exactly this part of the other, which has parts of its size. @param part < 0: no
bool is_in_place(const Range& place, const Range& source, int part) {
  if (part < 0) return false;
  const auto is_part = [part](const Range& one, const Range& whole) {
    return one.begin == whole.begin + part * one.bytes();
  };
  return place.bytes() < source.bytes() ? is_part(place, source) : is_part(source, place);
}

at::Tensor copy_of(const at::Tensor& tensor) {
  const at::NoGradGuard no_gradient;
  const at::AutoDispatchBelowADInplaceOrView below;
  return tensor.clone();
}

}  // namespace

at::Tensor plain(const at::Tensor& tensor) {
  if (tensor.is_contiguous() && !tensor.is_neg() && !tensor.is_conj()) return tensor;
  const at::NoGradGuard no_gradient;
  const at::AutoDispatchBelowADInplaceOrView below;
  return tensor.resolve_conj().resolve_neg().contiguous();
}

std::vector<at::Tensor> plain(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& tensor : tensors) all.push_back(plain(tensor));
  return all;
}

// In the order of their beginnings, a range shares memory with one before it if it begins before the furthest end so far. Of two earlier
// places that it shares memory with, both hold its beginning, so they have found each other.
void separate(std::vector<at::Tensor>& places, const std::vector<at::Tensor>& sources, int part) {
  std::vector<Range> ranges;
  for (at::Tensor& place : places) ranges.push_back(range_of(place, &place));
  for (std::size_t i = 0; i < sources.size(); ++i) {
    Range source = range_of(sources[i], nullptr);
    if (part >= 0 && is_in_place(ranges[i], source, part)) {
      ranges.push_back({source.begin, std::min(ranges[i].begin, source.end), nullptr});
      source.begin = std::max(source.begin, ranges[i].end);
    }
    ranges.push_back(source);
  }
  std::erase_if(ranges, [](const Range& one) { return one.begin >= one.end; });
  std::ranges::sort(ranges, {}, &Range::begin);
  std::set<at::Tensor*> shared;
  const char* furthest = nullptr;
  const Range* furthest_place = nullptr;
  for (const Range& one : ranges) {
    if (one.place != nullptr && one.begin < furthest) shared.insert(one.place);
    if (furthest_place != nullptr && one.begin < furthest_place->end) shared.insert(furthest_place->place);
    furthest = std::max(furthest, one.end);
    if (one.place != nullptr && (furthest_place == nullptr || furthest_place->end < one.end))
      furthest_place = &one;
  }
  for (at::Tensor* place : shared) *place = copy_of(*place);
}

at::Tensor separated(const at::Tensor& place, const at::Tensor& source, int part) {
  const Range written = range_of(place, nullptr);
  const Range read = range_of(source, nullptr);
  const bool are_apart = written.end <= read.begin || read.end <= written.begin;
  return are_apart || is_in_place(written, read, part) ? place : copy_of(place);
}

at::Tensor scratch_like(const at::Tensor& tensor, std::int64_t count) {
  return at::empty({count}, at::TensorOptions().dtype(tensor.scalar_type()).device(tensor.device()));
}

at::Tensor adjacent(const std::vector<at::Tensor>& tensors) {
  std::int64_t count = 0;
  for (const at::Tensor& tensor : tensors) {
    const bool follows = tensor.is_contiguous() && !tensor.is_neg() && !tensor.is_conj() &&
                         tensor.storage().is_alias_of(tensors.front().storage()) &&
                         tensor.storage_offset() == tensors.front().storage_offset() + count;
    if (!follows) return {};
    count += tensor.numel();
  }
  const at::Tensor& first = tensors.front();
  const at::NoGradGuard no_gradient;
  const at::AutoDispatchBelowADInplaceOrView below;
  return at::as_strided(first, {count}, {1}, first.storage_offset());
}

void copy_elements(const at::Tensor& to, const at::Tensor& from) {
  const bool are_bytes = to.is_contiguous() && from.is_contiguous() &&
                         to.scalar_type() == from.scalar_type() && to.is_neg() == from.is_neg() &&
                         to.is_conj() == from.is_conj();
  if (are_bytes) {
    if (to.nbytes() == 0 || to.const_data_ptr() == from.const_data_ptr()) return;
    if (to.is_cpu() && from.is_cpu()) {
      std::memmove(to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes());
      return;
    }
  }
  const at::NoGradGuard no_gradient;
  const at::AutoDispatchBelowADInplaceOrView below;
  to.copy_(from.reshape(to.sizes()));
}

}  // namespace weft::distributed
