#pragma once
// What LocalSteps is made of: see local_steps.cpp (construction), outer_steps.cpp (steps) and local_saving.cpp (checkpoints).

#include <memory>
#include <optional>
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
  std::int64_t inner_steps() const;
  int fragment_of(ParamId id) const;
  LocalStepsAccount account() const;
  std::int64_t held_bytes() const;

 private:
  /// Parameters that are exchanged together. Their means lie in the reducer.
  struct Fragment {
    int number;
    std::vector<ParamId> ids;  ///< in the reducer's order
    GradientReducer reducer;
    std::int64_t
        behind;  ///< inner steps since it was sent, or since it would have been: it is due after `every`
    std::int64_t moved = 0;             ///< inner steps since all ranks had the same parameters
    std::optional<std::int64_t> age{};  ///< inner steps since what is under way was sent
    bool is_here = false;               ///< what is under way has come
    std::string bad{};                  ///< then: why it cannot be taken; empty: it can
    std::uint64_t bytes = 0;            ///< that were sent for it
  };

  void check(const LocalStepsOptions& options) const;
  std::vector<Fragment> made_fragments();
  /// The order in which fragments are sent.
  void begin_anew();

  void send(Fragment& fragment, const Stream& compute);
  /// `compute` waits for what is under way.
  void arrive(Fragment& fragment, const Stream& compute);
  /// Waits for it, and takes it. @param mixing as in the options
  OuterStep take_in(Fragment& fragment, double mixing, const Stream& compute);
  /// Why it cannot be taken; empty: it can. Blocks.
  std::string bad_values(Fragment& fragment, Stream compute);
  View outer(ParamId id) { return layout_.view(outer_.view(), id); }
  View momentum(ParamId id) { return has_momentum() ? layout_.view(momentum_.view(), id) : View(); }
  View now(ParamId id) { return parameters_[index(id)]; }
  bool has_momentum() const { return std::holds_alternative<OuterNesterov>(options_.outer); }
  /// Names of a checkpoint are shared by all that save into it: those of one object have the first parameter's name in them.
  std::string named(const std::string& what) const;
  std::string named(const std::string& what, const Fragment& fragment) const;
  void load_hook(Fragment& fragment, const checkpoint::Values& values, const checkpoint::Reader& read);

  Communicator comm_;
  detail::UsedByOne users_{"LocalSteps", comm_};
  ParamLayout layout_;
  std::vector<View> parameters_;
  LocalStepsOptions options_;
  std::vector<int> fragment_of_;  ///< by parameter
  std::vector<Fragment> fragments_;
  Buffer outer_{}, momentum_{};   ///< in the layout
  Buffer scratch_{};              ///< of the largest parameter, with mixing
  Buffer bad_{};                  ///< i64: NaN and infinite values of the mean
  std::int64_t outer_steps_ = 0;  ///< of all runs
  LocalStepsAccount account_{};
  std::shared_ptr<detail::Counters> counters_;
};

}  // namespace weft
