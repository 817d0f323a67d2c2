#pragma once
// The work of PowerSGD on all matrices of a bucket, in the order of a stream. A host stream runs the
// functions of on_host; a CUDA stream runs kernels, one launch for up to 30 matrices.
//
// A job is one matrix in one multiplication: its basis, the product with it (`mine`), the mean of the
// products over ranks (`mean`), and where the next step's basis goes. A list of jobs must not change until
// everything submitted with it has run. All memory of a job is the stream's device's.
//
// The kernels give the bits of on_host, except for products that sum over rows
// (compression/power_sgd/cuda/low_rank_kernels.hpp).

#include <memory>
#include <span>

#include "compression/hooks/non_finite_guard.hpp"
#include "compression/power_sgd/low_rank.hpp"
#include "weft/collectives/communicator.hpp"
#include "weft/core/recycled.hpp"
#include "weft/core/stream.hpp"
#include "weft/core/view.hpp"

namespace weft::detail {

/// The factor that a multiplication makes; the other one is its basis.
enum class Side { left, right };

struct LowRankJob {
  Side product = Side::left;
  int rank = 0;
  Matrix matrix;
  const float* basis = nullptr;
  float* mine = nullptr;
  float* mean = nullptr;
  float* next_basis = nullptr;  ///< null: the next step does not start from it
  float* sums = nullptr;        ///< on a device: room for scratch_elements() of a right factor
  std::uint64_t seed = 0;       ///< of the vectors that replace zero ones; different in every step
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
/// The two factors of a job. @param made `mine` or `mean`
constexpr Factors factors(const LowRankJob& job, const float* made) {
  return job.product == Side::left ? Factors{made, job.basis, job.rank} : Factors{job.basis, made, job.rank};
}

/// A device sums products over blocks of this many rows, and then adds the blocks' sums.
constexpr std::int64_t rows_a_sum = 128;
constexpr std::int64_t scratch_elements(std::int64_t rows, std::int64_t columns, int rank) {
  const std::int64_t sums = (rows + rows_a_sum - 1) / rows_a_sum;
  return sums == 1 ? 0 : sums * rank * columns;
}

/// mine = the product of the matrix and its residual with the basis
void multiply(const LowRankJobs& jobs, Stream stream);
/// If any element of `mean` is NaN, infinite or above 2^100, makes all of it NaN and tells the guard. All
/// ranks see the same means, so all decide alike.
void check_finite(const LowRankJobs& jobs, const std::shared_ptr<NonFiniteGuard>& guard, Stream stream);
/// Tells the guard if any of `sums` is not finite; leaves them as they are.
void check_finite(ConstView sums, const std::shared_ptr<NonFiniteGuard>& guard, Stream stream);
/// Tells the guard if any of the counts of NaN and infinite values is not zero.
void check_counts(ConstView counts, const std::shared_ptr<NonFiniteGuard>& guard, Stream stream);
/// Tells the guard of every rank if the means of any rank are not finite. For sharded means: each rank has
/// another part, so ranks sum up how many bad values each has. Means are checked, not gradients, because sums
/// of finite values can overflow.
/// @param counts two i64 of this bucket, in memory of `comm`
void agree_on_non_finite(View counts, ConstView means, Communicator& comm,
                         const std::shared_ptr<NonFiniteGuard>& guard, Stream stream);
/// Makes the vectors of `mean` orthonormal; those that depend on earlier ones become zero.
void orthonormalize(const LowRankJobs& jobs, Stream stream);
/// next_basis = `mean` made orthonormal, with random vectors in place of those that became zero.
void start_next(const LowRankJobs& jobs, Stream stream);
/// next_basis = random vectors made orthonormal.
void start_anew(const LowRankJobs& jobs, Stream stream);
/// gradient = product of `mean` with the basis; residual = what the product of `mine` lacks.
void rebuild(const LowRankJobs& jobs, Stream stream);
/// The residual only.
void keep_residuals(const LowRankJobs& jobs, Stream stream);
/// The gradient only, of some parts.
void expand(RecycledVector<LowRankPart> parts, Stream stream);

namespace on_host {
void multiply(std::span<const LowRankJob> jobs);
/// @returns true if anything is not finite
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
