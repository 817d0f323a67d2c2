#pragma once
// What PowerSGD sends for each bucket of a plan, and the memory for it.
//
// A bucket's first collective carries its uncompressed ("whole") parameters and behind them one factor of
// each of its matrices. In the two-sided form, a second one carries the other factors. A parameter that lies
// in two buckets is handled by the first of them that leaves; the other only takes its part of the result.

#include <optional>
#include <vector>

#include "compression/power_sgd/low_rank_jobs.hpp"
#include "compression/power_sgd/power_sgd_tensors.hpp"
#include "weft/collectives/communicator.hpp"

namespace weft::detail {

/// One multiplication of all matrices of a bucket: the factor that it makes, its inputs and its outputs.
struct LowRankRound {
  Side product = Side::left;
  View basis;     ///< the bucket's other factors; empty: the bases in PowerSgdTensors
  View mine;      ///< this rank's products
  View mean;      ///< and their mean
  View sums;      ///< on a device: room for partial sums over rows
  int place = 0;  ///< the copy of the state that is read
  std::int64_t step = 0;
};

class PowerSgdWork {
 public:
  struct Factor {
    const PowerSgdTensors::Tensor* tensor = nullptr;
    std::int64_t at[2] = {0, 0};  ///< by side, among the bucket's factors of that side
    std::int64_t sums_at = 0;     ///< in the bucket's room for partial sums
  };
  /// The part of one parameter that lies in a bucket.
  struct Piece {
    std::size_t bucket = 0;        ///< the bucket that handles the parameter
    std::optional<Factor> factor;  ///< none: it travels whole
    View travels{};                ///< if it travels whole: where this part lies among what is sent
    std::int64_t parameter = 0;    ///< begin of the parameter in the flat space
    std::int64_t begin = 0;        ///< begin of the part in the flat space
    std::int64_t end = 0;
  };
  struct BucketWork {
    std::vector<Factor> factors;
    RecycledVector<ConstView> whole;         ///< gradients that travel uncompressed
    std::vector<std::int64_t> whole_begins;  ///< begin of each in the flat space
    std::vector<Piece> pieces;               ///< all parameters that lie in the bucket
    std::int64_t whole_elements = 0;
    std::int64_t factor_elements[2] = {0, 0};
    std::int64_t sums_elements = 0;
    View first;   ///< sent by the first collective: whole gradients, then factors of one side
    View second;  ///< sent by the second: right factors
    View mine;    ///< this rank's products
    View sums;    ///< on a device: room for partial sums over rows

    std::int64_t elements(Side side) const { return factor_elements[static_cast<int>(side)]; }
    View first_with(Side side) const { return first.slice(0, whole_elements + elements(side)); }
    View whole_of_first() const { return first.slice(0, whole_elements); }
    View factors_of_first(Side side) const { return first.slice(whole_elements, elements(side)); }
  };

  /// Allocates memory of `comm`, which is collective on a device.
  /// @param gradients the memory of the plan's flat space
  PowerSgdWork(const BucketPlan& plan, GradientSpace gradients, PowerSgdTensors& tensors, Communicator& comm);

  /// The number of a bucket of the plan.
  std::size_t number(const Bucket& bucket) const;
  std::size_t size() const { return buckets_.size(); }
  const BucketWork& operator[](std::size_t number) const { return buckets_[number]; }

  LowRankJobs jobs(const BucketWork& work, const LowRankRound& round) const;
  LowRankJob job(const Factor& factor, const LowRankRound& round) const;

 private:
  void assign_parameters(const BucketPlan& plan);
  void find_places(Communicator& comm);

  GradientSpace gradients_;
  PowerSgdTensors& tensors_;
  std::vector<std::int64_t> begins_;
  std::vector<BucketWork> buckets_;
  Buffer sent_;
  Buffer mine_;
  Buffer sums_;
};

}  // namespace weft::detail
