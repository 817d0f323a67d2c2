#pragma once
// A fake kernel of optimizer steps beside the fake CUDA: its host twin, in the order of the fake's streams.

#include <atomic>

#include "support/fake_cuda.hpp"
#include "support/in_force.hpp"
#include "zero/optimizer/gradient_norm.hpp"
#include "zero/update/update_cuda.hpp"

namespace weft::test {

class FakeUpdate final : public detail::cuda::UpdateKernels {
 public:
  std::atomic<int> launches{0};

  void update(const detail::StepArrays& arrays, const detail::StepFactors& factors, detail::cuda::Place place,
              std::optional<detail::cuda::Arithmetic>) override {
    ++launches;
    FakeCuda::enqueue(place.stream, [arrays, factors] { detail::update(arrays, factors); });
  }
  void add_squares(View sum, std::span<const ConstView> gradients, detail::cuda::Place place) override {
    ++launches;
    FakeCuda::enqueue(place.stream, [sum, pieces = std::vector(gradients.begin(), gradients.end())] {
      const std::span<std::int64_t, detail::ExactSum::places_count + 1> places(
          static_cast<std::int64_t*>(sum.data()), detail::ExactSum::places_count + 1);
      auto all = detail::ExactSum::from(places);
      for (const ConstView& piece : pieces)
        detail::add_squares(ConstView(piece.data(), piece.count(), piece.dtype()), all);
      all.put(places);
    });
  }
};

using WithFakeUpdate = InForce<FakeUpdate, detail::cuda::replace_update_kernels>;

}  // namespace weft::test
