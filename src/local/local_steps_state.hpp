#pragma once
// What LocalSteps is made of: see local_steps.cpp (steps) and local_saving.cpp (checkpoints).

#include <memory>
#include <string>
#include <vector>

#include "collectives/diagnosis/counters.hpp"
#include "collectives/diagnosis/used_by_one.hpp"
#include "weft/core/buffer.hpp"
#include "weft/gradient/gradient_reducer.hpp"
#include "weft/local/local_steps.hpp"

namespace weft {

class LocalSteps::State {
 public:
  State(Communicator comm, const ParamLayout& layout, std::vector<View> parameters,
        LocalStepsOptions options);

  OuterStep step(const Stream& compute);
  OuterStep outer_step(const Stream& compute);
  checkpoint::State state(const Stream& compute);
  void load_state(const checkpoint::Values& values, const checkpoint::Reader& read, const Stream& compute);

  const ParamLayout& layout() const { return layout_; }
  std::int64_t inner_steps() const { return inner_; }
  LocalStepsAccount account() const;
  std::int64_t held_bytes() const;

 private:
  void check(const LocalStepsOptions& options) const;
  OuterStep take_outer_step(const Stream& compute);
  /// Why the outer step cannot be taken; empty: it can. Blocks.
  std::string bad_values(Stream compute);
  View outer(ParamId id) { return layout_.view(outer_.view(), id); }
  View momentum(ParamId id) { return has_momentum() ? layout_.view(momentum_.view(), id) : View(); }
  bool has_momentum() const { return std::holds_alternative<OuterNesterov>(options_.outer); }
  /// Names of a checkpoint are shared by all that save into it: those of one object have the first parameter's name in them.
  std::string named(const std::string& what) const;

  Communicator comm_;
  detail::UsedByOne users_{"LocalSteps", comm_};
  ParamLayout layout_;
  std::vector<View> parameters_;
  LocalStepsOptions options_;
  GradientReducer reducer_;
  Buffer outer_{}, momentum_{};   ///< in the layout
  Buffer bad_{};                  ///< i64: NaN and infinite values of the mean
  std::int64_t inner_ = 0;        ///< steps since the last outer one
  std::int64_t outer_steps_ = 0;  ///< of all runs
  LocalStepsAccount account_{};
  std::shared_ptr<detail::Counters> counters_;
};

}  // namespace weft
