#pragma once
// Counts NaN and infinite values in gradients before they are summed, and tells all ranks.

#include <vector>

#include "weft/collectives/communicator.hpp"
#include "weft/gradient/bad_values.hpp"
#include "weft/gradient/bucket_plan.hpp"
#include "weft/gradient/gradient_space.hpp"

namespace weft::detail {

class BadValueWatch {
 public:
  BadValueWatch(const ParamLayout& layout, Device device);

  /// @param zero stream that goes before what count() submits
  void begin_step(const Stream& zero);
  /// What there is of a bucket when `lane` gets here.
  void count(const Bucket& bucket, const GradientSpace& gradients, const Stream& lane);
  /// All of a step is counted when `counted` are done. Collective; does not block.
  void tell(Communicator& comm, std::uint64_t step, const std::vector<Event>& counted);
  const Event& told() const { return told_.event(); }
  /// Of the last step that was told; waits for it. A rank's own are logged, once.
  const std::vector<BadValues>& found();

 private:
  void summarize();

  const ParamLayout& layout_;
  Buffer counts_;  // i64: NaN and infinite values by parameter, where the gradients are
  std::vector<std::int64_t> here_;
  std::vector<std::int64_t> mine_;
  std::vector<std::int64_t> all_;
  Stream fetch_;  // where the gradients are
  Stream host_;
  Work told_;
  int rank_ = 0;
  bool is_read_ = true;
  std::uint64_t step_ = 0;
  std::vector<BadValues> found_;
};

}  // namespace weft::detail
