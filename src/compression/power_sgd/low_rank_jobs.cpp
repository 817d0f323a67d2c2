// Submits the work of PowerSGD to a stream, and does it on the host.

#include "compression/power_sgd/low_rank_jobs.hpp"

#include <algorithm>
#include <limits>

#include "compression/power_sgd/cuda/low_rank_kernels.hpp"
#include "compression/power_sgd/low_rank.hpp"
#include "core/memory/elementwise.hpp"
#include "core/streams/cuda_stream.hpp"

namespace weft::detail {
namespace {

using cuda::LowRankKernels;
using cuda::Place;

/// Runs `on_host` or `on_device` in the order of `stream`, by where the stream's device is.
template <class OnHost, class OnDevice>
void run(Stream& stream, OnHost on_host, OnDevice on_device) {
  if (stream.device().is_host()) return stream.run(std::move(on_host));
  stream.run([place = cuda::place_of(stream), on_device = std::move(on_device),
              kernels = cuda::low_rank_kernels()] { on_device(*kernels, place); });
}

void run(const LowRankJobs& jobs, Stream& stream, void (*host)(std::span<const LowRankJob>),
         void (LowRankKernels::*kernel)(LowRankKernels::Jobs, Place)) {
  run(
      stream, [jobs, host] { host(*jobs); },
      [jobs, kernel](LowRankKernels& kernels, Place place) { (kernels.*kernel)(*jobs, place); });
}

}  // namespace

void multiply(const LowRankJobs& jobs, Stream stream) {
  run(jobs, stream, on_host::multiply, &LowRankKernels::multiply);
}

void check_finite(const LowRankJobs& jobs, const std::shared_ptr<NonFiniteGuard>& guard, Stream stream) {
  run(
      stream,
      [jobs, guard] {
        if (on_host::check_finite(*jobs)) guard->found_non_finite();
      },
      [jobs, guard](LowRankKernels& kernels, Place place) {
        kernels.check_finite(*jobs, guard->flag(), place);
      });
}

void check_finite(ConstView sums, const std::shared_ptr<NonFiniteGuard>& guard, Stream stream) {
  run(
      stream,
      [sums, guard] {
        if (on_host::check_finite(sums.as<const float>())) guard->found_non_finite();
      },
      [sums, guard](LowRankKernels& kernels, Place place) {
        kernels.check_finite(sums, guard->flag(), place);
      });
}

void agree_on_non_finite(View counts, ConstView means, Communicator& comm,
                         const std::shared_ptr<NonFiniteGuard>& guard, Stream stream) {
  fill(counts, 0, stream);
  count_bad(counts, means, stream);
  comm.all_reduce(counts, ReduceOp::sum, stream);
  check_counts(counts, guard, stream);
}

void check_counts(ConstView counts, const std::shared_ptr<NonFiniteGuard>& guard, Stream stream) {
  run(
      stream,
      [counts, guard] {
        if (on_host::check_counts(counts.as<const std::int64_t>())) guard->found_non_finite();
      },
      [counts, guard](LowRankKernels& kernels, Place place) {
        kernels.check_counts(counts, guard->flag(), place);
      });
}

void orthonormalize(const LowRankJobs& jobs, Stream stream) {
  run(jobs, stream, on_host::orthonormalize, &LowRankKernels::orthonormalize);
}

void start_next(const LowRankJobs& jobs, Stream stream) {
  run(jobs, stream, on_host::start_next, &LowRankKernels::start_next);
}

void start_anew(const LowRankJobs& jobs, Stream stream) {
  run(jobs, stream, on_host::start_anew, &LowRankKernels::start_anew);
}

void rebuild(const LowRankJobs& jobs, Stream stream) {
  run(jobs, stream, on_host::rebuild, &LowRankKernels::rebuild);
}

void keep_residuals(const LowRankJobs& jobs, Stream stream) {
  run(jobs, stream, on_host::keep_residuals, &LowRankKernels::keep_residuals);
}

void expand(RecycledVector<LowRankPart> parts, Stream stream) {
  const auto all = make_recycled<const RecycledVector<LowRankPart>>(std::move(parts));
  run(
      stream, [all] { on_host::expand(*all); },
      [all](LowRankKernels& kernels, Place place) { kernels.expand(*all, place); });
}

namespace on_host {
namespace {

std::span<float> factor(float* data, const LowRankJob& job) {
  return {data, static_cast<std::size_t>(job.rank * length(job))};
}

/// Whether all values times `headroom` are finite. A finite number times zero is zero, anything else is NaN,
/// so one check of the sums is enough, and the loop has no branch.
bool all_finite(std::span<const float> values, float headroom = 1) {
  constexpr std::size_t parallel = 16;  // independent sums, for vectors
  float sums[parallel] = {};
  for (std::size_t i = 0; i < values.size(); ++i) sums[i % parallel] += values[i] * headroom * 0.0F;
  return std::ranges::all_of(sums, [](float sum) { return sum == 0; });
}

void draw_vector(std::span<float> basis, const LowRankJob& job, int k) {
  const auto size = static_cast<std::size_t>(length(job));
  draw(basis.subspan(static_cast<std::size_t>(k) * size, size), vector_seed(job.seed, k));
}

}  // namespace

void multiply(std::span<const LowRankJob> jobs) {
  for (const LowRankJob& job : jobs) {
    if (job.product == Side::left) {
      project(job.matrix, job.basis, job.rank, job.mine);
    } else {
      project_transposed(job.matrix, job.basis, job.rank, job.mine);
    }
  }
}

bool check_finite(std::span<const LowRankJob> jobs) {
  bool bad = false;
  for (const LowRankJob& job : jobs) {
    const std::span<float> mean = factor(job.mean, job);
    if (all_finite(mean, factor_headroom)) continue;
    std::ranges::fill(mean, std::numeric_limits<float>::quiet_NaN());
    bad = true;
  }
  return bad;
}

bool check_finite(std::span<const float> sums) {
  return !all_finite(sums);
}

bool check_counts(std::span<const std::int64_t> counts) {
  return std::ranges::any_of(counts, [](std::int64_t count) { return count != 0; });
}

void orthonormalize(std::span<const LowRankJob> jobs) {
  for (const LowRankJob& job : jobs) detail::orthonormalize(factor(job.mean, job), job.rank);
}

void start_next(std::span<const LowRankJob> jobs) {
  for (const LowRankJob& job : jobs) {
    const std::span<float> basis = factor(job.next_basis, job);
    std::ranges::copy(factor(job.mean, job), basis.begin());
    const RecycledVector<int> zero = detail::orthonormalize(basis, job.rank);
    if (zero.empty()) continue;
    for (const int k : zero) draw_vector(basis, job, k);
    detail::orthonormalize(basis, job.rank);
  }
}

void start_anew(std::span<const LowRankJob> jobs) {
  for (const LowRankJob& job : jobs) {
    const std::span<float> basis = factor(job.next_basis, job);
    for (int k = 0; k < job.rank; ++k) draw_vector(basis, job, k);
    detail::orthonormalize(basis, job.rank);
  }
}

void rebuild(std::span<const LowRankJob> jobs) {
  for (const LowRankJob& job : jobs)
    detail::rebuild(job.matrix, factors(job, job.mine), factors(job, job.mean));
}

void keep_residuals(std::span<const LowRankJob> jobs) {
  for (const LowRankJob& job : jobs) keep_residual(job.matrix, factors(job, job.mine));
}

void expand(std::span<const LowRankPart> parts) {
  for (const LowRankPart& part : parts)
    detail::expand(part.job.matrix, factors(part.job, part.job.mean), part.begin, part.end);
}

}  // namespace on_host
}  // namespace weft::detail
