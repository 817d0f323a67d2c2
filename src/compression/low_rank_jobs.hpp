#pragma once
// The work of PowerSGD on all matrices of a bucket, in the order of a stream.
//
// A job is one matrix's part in one multiplication: a basis, by which the matrix is multiplied into `mine`;
// the sum of that over ranks, `mean`; and what the next step starts from. Lists of jobs are made once for a
// plan, and stay as they are until everything submitted with them has run.

#include <memory>
#include <vector>

#include "compression/low_rank.hpp"
#include "compression/step_verdict.hpp"
#include "weft/core/stream.hpp"
#include "weft/core/view.hpp"

namespace weft::detail {

/// Which factor a multiplication makes; the other one is its basis.
enum class Side { left, right };

struct LowRankJob {
  Side product = Side::left;
  Matrix matrix;
  int rank = 0;
  const float* basis = nullptr;
  float* mine = nullptr;
  float* mean = nullptr;
  float* next_basis = nullptr;  ///< null: nothing starts from it
  std::uint64_t seed = 0;       ///< of vectors that replace those which became zero; another one every step
};
using LowRankJobs = std::shared_ptr<const std::vector<LowRankJob>>;

/// Elements [begin, end) of one job's matrix.
struct LowRankPart {
  LowRankJob job;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// mine = the product of the matrix and its residual with the basis
void multiply(const LowRankJobs& jobs, Stream stream);
/// Makes `mean` NaN everywhere where it is NaN, infinite or beyond 2^100 anywhere, and says so: the same on
/// all ranks.
void judge(const LowRankJobs& jobs, const std::shared_ptr<StepVerdict>& verdict, Stream stream);
/// The same of what is not compressed, as it is.
void judge(ConstView sums, const std::shared_ptr<StepVerdict>& verdict, Stream stream);
/// Of counts of NaN and infinite values.
void judge_counts(ConstView counts, const std::shared_ptr<StepVerdict>& verdict, Stream stream);
/// The vectors of `mean` made orthonormal, those that depend on others zero.
void orthonormalize(const LowRankJobs& jobs, Stream stream);
/// next_basis = `mean` made orthonormal, with new vectors for those that became zero.
void start_next(const LowRankJobs& jobs, Stream stream);
/// The gradient is the mean's product with the basis; what `mine` lacks is kept.
void rebuild(const LowRankJobs& jobs, Stream stream);
/// The second half of that.
void keep_residuals(const LowRankJobs& jobs, Stream stream);
/// The first half, of some parts.
void expand(std::vector<LowRankPart> parts, Stream stream);

}  // namespace weft::detail
