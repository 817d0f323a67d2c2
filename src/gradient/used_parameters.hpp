#pragma once
// Which parameters had a gradient, on this rank and on any.

#include <vector>

#include "gradient/ready_tracker.hpp"
#include "weft/collectives/communicator.hpp"
#include "weft/gradient/reducer_options.hpp"

namespace weft::detail {

class UsedParameters {
 public:
  UsedParameters(Unused unused, int parameters)
      : unused_(unused), here_(static_cast<std::size_t>(parameters), 1), anywhere_(here_) {}

  /// @param fresh whether nothing is accumulated yet
  void begin_micro_step(bool fresh) {
    unused_now_.clear();
    if (fresh && unused_ != Unused::refuse) here_.assign(here_.size(), 0);
  }
  void is_used(ParamId id) { here_[index(id)] = 1; }
  void is_unused(ParamId id) { unused_now_.push_back(id); }
  /// Everything is marked. Collective; does not block.
  void tell(Communicator& comm);
  const Event& told() const { return told_.event(); }
  /// Waits for what was told.
  bool anywhere(ParamId id) {
    told_.wait();
    return anywhere_[index(id)] != 0;
  }
  /// The parameters that are taken to be unused on this rank in every micro-step.
  const std::vector<ParamId>& expected() const { return expected_; }
  /// Whether expected() is what the first step showed.
  bool is_known() const { return is_known_; }

 private:
  Unused unused_;
  std::vector<std::uint8_t> here_;   // in any micro-step
  std::vector<ParamId> unused_now_;  // in this one
  std::vector<std::uint8_t> anywhere_;
  std::vector<ParamId> expected_;
  bool is_known_ = false;
  Stream stream_;
  Work told_;
};

}  // namespace weft::detail
