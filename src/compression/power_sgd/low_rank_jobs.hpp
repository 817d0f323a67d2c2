#pragma once
// The work of PowerSGD on all matrices of a bucket, in the order of a stream, on the host or on the stream's
// CUDA device, where a list is one launch of a kernel.
//
// A job is one matrix's part in one multiplication: a basis, by which the matrix is multiplied into `mine`;
// the sum of that over ranks, `mean`; and what the next step starts from. Lists of jobs are made once for a
// plan, and stay as they are until everything submitted with them has run. All memory of a job is the
// stream's device's.
//
// The functions of on_host are the kernels' twins: the same bits, but for products of which the sums run over
// rows (compression/cuda/low_rank_kernels.hpp).

#include <memory>
#include <span>

#include "compression/hooks/non_finite_guard.hpp"
#include "compression/power_sgd/low_rank.hpp"
#include "weft/collectives/communicator.hpp"
#include "weft/core/recycled.hpp"
#include "weft/core/stream.hpp"
#include "weft/core/view.hpp"

namespace weft::detail {

/// Which factor a multiplication makes; the other one is its basis.
enum class Side { left, right };

struct LowRankJob {
  Side product = Side::left;
  int rank = 0;
  Matrix matrix;
  const float* basis = nullptr;
  float* mine = nullptr;
  float* mean = nullptr;
  float* next_basis = nullptr;  ///< null: nothing starts from it
  float* sums = nullptr;        ///< on a device: room for scratch_elements() of a right factor
  std::uint64_t seed = 0;       ///< of vectors that replace those which became zero; another one every step
};
using LowRankJobs = std::shared_ptr<const RecycledVector<LowRankJob>>;

/// Elements [begin, end) of one job's matrix.
struct LowRankPart {
  LowRankJob job;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

constexpr std::int64_t length(const LowRankJob& job) {
  return job.product == Side::left ? job.matrix.rows : job.matrix.columns;
}
/// With the factor that was made, or its mean.
constexpr Factors factors(const LowRankJob& job, const float* made) {
  return job.product == Side::left ? Factors{made, job.basis, job.rank} : Factors{job.basis, made, job.rank};
}

/// Rows of which a device keeps the sum of products before it adds these up.
constexpr std::int64_t rows_a_sum = 128;
constexpr std::int64_t scratch_elements(std::int64_t rows, std::int64_t columns, int rank) {
  const std::int64_t sums = (rows + rows_a_sum - 1) / rows_a_sum;
  return sums == 1 ? 0 : sums * rank * columns;
}

/// mine = the product of the matrix and its residual with the basis
void multiply(const LowRankJobs& jobs, Stream stream);
/// Makes `mean` NaN everywhere where it is NaN, infinite or beyond 2^100 anywhere, and says so: the same on
/// all ranks.
void check_finite(const LowRankJobs& jobs, const std::shared_ptr<NonFiniteGuard>& guard, Stream stream);
/// The same of what is not compressed, as it is.
void check_finite(ConstView sums, const std::shared_ptr<NonFiniteGuard>& guard, Stream stream);
/// Of counts of NaN and infinite values.
void check_counts(ConstView counts, const std::shared_ptr<NonFiniteGuard>& guard, Stream stream);
/// Of means, for sums of what is finite may not be; that are in parts, so that ranks would judge by different
/// values: they tell each other.
/// @param counts two i64 of this bucket's, which others reach
void agree_on_non_finite(View counts, ConstView means, Communicator& comm,
                         const std::shared_ptr<NonFiniteGuard>& guard, Stream stream);
/// The vectors of `mean` made orthonormal, those that depend on others zero.
void orthonormalize(const LowRankJobs& jobs, Stream stream);
/// next_basis = `mean` made orthonormal, with new vectors for those that became zero.
void start_next(const LowRankJobs& jobs, Stream stream);
/// next_basis = new vectors made orthonormal.
void start_anew(const LowRankJobs& jobs, Stream stream);
/// The gradient is the mean's product with the basis; what `mine` lacks is kept.
void rebuild(const LowRankJobs& jobs, Stream stream);
/// The second half of that.
void keep_residuals(const LowRankJobs& jobs, Stream stream);
/// The first half, of some parts.
void expand(RecycledVector<LowRankPart> parts, Stream stream);

namespace on_host {
void multiply(std::span<const LowRankJob> jobs);
/// @returns whether anything is bad
bool check_finite(std::span<const LowRankJob> jobs);
bool check_finite(std::span<const float> sums);
bool check_counts(std::span<const std::int64_t> counts);
void orthonormalize(std::span<const LowRankJob> jobs);
void start_next(std::span<const LowRankJob> jobs);
void start_anew(std::span<const LowRankJob> jobs);
void rebuild(std::span<const LowRankJob> jobs);
void keep_residuals(std::span<const LowRankJob> jobs);
void expand(std::span<const LowRankPart> parts);
}  // namespace on_host

}  // namespace weft::detail
