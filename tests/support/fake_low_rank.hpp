#pragma once
// Fake kernels of PowerSGD for the fake CUDA: they run the host's functions in the order of the fake's
// streams.

#include <atomic>

#include "compression/power_sgd/cuda/low_rank_kernels.hpp"
#include "support/fake_cuda.hpp"
#include "support/in_force.hpp"

namespace weft::test {

class FakeLowRank final : public detail::cuda::LowRankKernels {
 public:
  using Place = detail::cuda::Place;

  std::atomic<int> launches{0};

  void multiply(Jobs jobs, Place place) override { enqueue(jobs, place, detail::on_host::multiply); }
  void check_finite(Jobs jobs, std::int32_t* bad, Place place) override {
    enqueue(jobs, place, [bad](Jobs all) { found(bad, detail::on_host::check_finite(all)); });
  }
  void check_finite(ConstView sums, std::int32_t* bad, Place place) override {
    ++launches;
    FakeCuda::enqueue(place.stream,
                      [=] { found(bad, detail::on_host::check_finite(elements<float>(sums))); });
  }
  void check_counts(ConstView counts, std::int32_t* bad, Place place) override {
    ++launches;
    FakeCuda::enqueue(place.stream,
                      [=] { found(bad, detail::on_host::check_counts(elements<std::int64_t>(counts))); });
  }
  void orthonormalize(Jobs jobs, Place place) override {
    enqueue(jobs, place, detail::on_host::orthonormalize);
  }
  void start_next(Jobs jobs, Place place) override { enqueue(jobs, place, detail::on_host::start_next); }
  void start_anew(Jobs jobs, Place place) override { enqueue(jobs, place, detail::on_host::start_anew); }
  void rebuild(Jobs jobs, Place place) override { enqueue(jobs, place, detail::on_host::rebuild); }
  void keep_residuals(Jobs jobs, Place place) override {
    enqueue(jobs, place, detail::on_host::keep_residuals);
  }
  void expand(std::span<const detail::LowRankPart> parts, Place place) override {
    enqueue(parts, place, detail::on_host::expand);
  }

 private:
  template <class T>
  static std::span<const T> elements(ConstView view) {
    return {static_cast<const T*>(view.data()), static_cast<std::size_t>(view.count())};
  }
  static void found(std::int32_t* word, bool bad) {
    if (bad) std::atomic_ref(*word).store(1, std::memory_order_relaxed);
  }
  // Copies the list, as a launch copies its arguments.
  template <class Item, class Function>
  void enqueue(std::span<const Item> list, Place place, Function function) {
    ++launches;
    FakeCuda::enqueue(place.stream,
                      [all = std::vector<Item>(list.begin(), list.end()), function] { function(all); });
  }
};

using WithFakeLowRank = InForce<FakeLowRank, detail::cuda::replace_low_rank_kernels>;

}  // namespace weft::test
