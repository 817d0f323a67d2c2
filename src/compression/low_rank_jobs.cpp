#include "compression/low_rank_jobs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "compression/orthonormal.hpp"

namespace weft::detail {
namespace {

std::int64_t length(const LowRankJob& job) {
  return job.product == Side::left ? job.matrix.rows : job.matrix.columns;
}

std::span<float> factor(float* data, const LowRankJob& job) {
  return {data, static_cast<std::size_t>(job.rank * length(job))};
}

Factors factors(const LowRankJob& job, const float* made) {
  return job.product == Side::left ? Factors{made, job.basis, job.rank} : Factors{job.basis, made, job.rank};
}

template <class Function>
void for_each(const LowRankJobs& jobs, Stream& stream, Function function) {
  stream.run([jobs, function = std::move(function)] { std::ranges::for_each(*jobs, function); });
}

/// Even times `headroom`. What is finite times zero is zero, so one look at the sums is enough.
bool all_finite(std::span<const float> values, float headroom = 1) {
  constexpr std::size_t lanes = 16;
  float sums[lanes] = {};
  for (std::size_t i = 0; i < values.size(); ++i) sums[i % lanes] += values[i] * headroom * 0.0F;
  return std::ranges::all_of(sums, [](float sum) { return sum == 0; });
}

}  // namespace

void multiply(const LowRankJobs& jobs, Stream stream) {
  for_each(jobs, stream, [](const LowRankJob& job) {
    if (job.product == Side::left) {
      project(job.matrix, job.basis, job.rank, job.mine);
    } else {
      project_transposed(job.matrix, job.basis, job.rank, job.mine);
    }
  });
}

void judge(const LowRankJobs& jobs, const std::shared_ptr<StepVerdict>& verdict, Stream stream) {
  for_each(jobs, stream, [verdict](const LowRankJob& job) {
    const std::span<float> mean = factor(job.mean, job);
    // The product with a basis has sums of as many as the rank, which are to be finite, too.
    if (all_finite(mean, 0x1p28F)) return;
    std::ranges::fill(mean, std::numeric_limits<float>::quiet_NaN());
    verdict->found_bad();
  });
}

void judge(ConstView sums, const std::shared_ptr<StepVerdict>& verdict, Stream stream) {
  stream.run([sums, verdict] {
    if (!all_finite(sums.as<const float>())) verdict->found_bad();
  });
}

void judge_counts(ConstView counts, const std::shared_ptr<StepVerdict>& verdict, Stream stream) {
  stream.run([counts, verdict] {
    const auto some = counts.as<const std::int64_t>();
    if (std::ranges::any_of(some, [](std::int64_t count) { return count != 0; })) verdict->found_bad();
  });
}

void orthonormalize(const LowRankJobs& jobs, Stream stream) {
  for_each(jobs, stream, [](const LowRankJob& job) { orthonormalize(factor(job.mean, job), job.rank); });
}

void start_next(const LowRankJobs& jobs, Stream stream) {
  for_each(jobs, stream, [](const LowRankJob& job) {
    const std::span<float> basis = factor(job.next_basis, job);
    std::ranges::copy(factor(job.mean, job), basis.begin());
    const std::vector<int> zero = orthonormalize(basis, job.rank);
    if (zero.empty()) return;
    const auto size = static_cast<std::size_t>(length(job));
    for (const int k : zero) {
      draw(basis.subspan(static_cast<std::size_t>(k) * size, size), vector_seed(job.seed, k));
    }
    orthonormalize(basis, job.rank);
  });
}

void rebuild(const LowRankJobs& jobs, Stream stream) {
  for_each(jobs, stream, [](const LowRankJob& job) {
    rebuild(job.matrix, factors(job, job.mine), factors(job, job.mean));
  });
}

void keep_residuals(const LowRankJobs& jobs, Stream stream) {
  for_each(jobs, stream, [](const LowRankJob& job) { keep_residual(job.matrix, factors(job, job.mine)); });
}

void expand(std::vector<LowRankPart> parts, Stream stream) {
  stream.run([parts = std::move(parts)] {
    for (const LowRankPart& part : parts)
      expand(part.job.matrix, factors(part.job, part.job.mean), part.begin, part.end);
  });
}

}  // namespace weft::detail
