#pragma once
// What of a plan's buckets travels, and where: whole parameters and factors, one after the other.
//
// A parameter that reaches into a second bucket is dealt with in the first that leaves with it; the other
// only gets its part of the result.

#include <optional>
#include <vector>

#include "compression/power_sgd/low_rank_jobs.hpp"
#include "compression/power_sgd/power_sgd_tensors.hpp"
#include "weft/collectives/communicator.hpp"

namespace weft::detail {

/// One multiplication of all matrices of a bucket: which factor it makes, from where and to where.
struct LowRankRound {
  Side product = Side::left;
  View basis;     ///< the other factors of the bucket; empty: those that are kept
  View mine;      ///< this rank's products
  View mean;      ///< and their mean
  View sums;      ///< what a device's sums over rows take
  int place = 0;  ///< of what is kept and read
  std::int64_t step = 0;
};

class PowerSgdWork {
 public:
  struct Factor {
    const PowerSgdTensors::Tensor* tensor = nullptr;
    std::int64_t at[2] = {0, 0};  ///< by side, among the bucket's factors of that side
    std::int64_t sums_at = 0;     ///< in the bucket's sums
  };
  /// The part of a bucket that is one parameter's.
  struct Piece {
    std::size_t bucket = 0;        ///< that deals with the parameter
    std::optional<Factor> factor;  ///< none: it travels whole
    View travels{};                ///< as this part of what travels, then
    std::int64_t parameter = 0;    ///< where it begins in the flat space
    std::int64_t begin = 0;        ///< of the part, in the flat space
    std::int64_t end = 0;
  };
  struct BucketWork {
    std::vector<Factor> factors;
    RecycledVector<ConstView> whole;         ///< gradients that travel as they are
    std::vector<std::int64_t> whole_begins;  ///< of each, in the flat space
    std::vector<Piece> pieces;               ///< of the bucket
    std::int64_t whole_elements = 0;
    std::int64_t factor_elements[2] = {0, 0};
    std::int64_t sums_elements = 0;
    View first;   ///< the first collective: whole gradients, then factors of either side
    View second;  ///< the second: right factors
    View mine;    ///< this rank's products
    View sums;    ///< on a device: what its sums over rows take

    std::int64_t elements(Side side) const { return factor_elements[static_cast<int>(side)]; }
    View first_with(Side side) const { return first.slice(0, whole_elements + elements(side)); }
    View whole_of_first() const { return first.slice(0, whole_elements); }
    View factors_of_first(Side side) const { return first.slice(whole_elements, elements(side)); }
  };

  /// @param gradients where the plan's flat space lies. Collective on a device, where memory of `comm` is
  PowerSgdWork(const BucketPlan& plan, GradientSpace gradients, PowerSgdTensors& tensors, Communicator& comm);

  /// Of the bucket that begins there.
  std::size_t number(const Bucket& bucket) const;
  std::size_t size() const { return buckets_.size(); }
  const BucketWork& operator[](std::size_t number) const { return buckets_[number]; }

  LowRankJobs jobs(const BucketWork& work, const LowRankRound& round) const;
  LowRankJob job(const Factor& factor, const LowRankRound& round) const;

 private:
  void share_out(const BucketPlan& plan);
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
