#pragma once
// A training with an exchange every H steps, written twice: by LocalSteps over ranks that are threads, and by one loop over all ranks.
// The inner step is the same function in both.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/core/stream.hpp"
#include "weft/local/local_steps.hpp"

namespace weft::test {

/// A parameter of a model of three: a matrix, a bias and one number.
struct LocalParameter {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t count;
  float* data;
};
/// Over `values`, which has local_values of them.
inline constexpr std::size_t local_values = 80 * 60 + 40 + 1;
std::vector<LocalParameter> local_parameters(std::vector<float>& values);
std::vector<float> initial_local_values();
/// SGD towards what this rank sees in this step.
void inner_step(std::vector<float>& values, int rank, int step);

/// PowerSGD refuses a fragment without a matrix, which is then sent as it is.
std::shared_ptr<CommHook> hook_of_fragment(const std::string& hook, bool has_matrix);

struct LocalTraining {
  int ranks = 2;
  int every = 3;
  OuterOptimizer outer = OuterNesterov{};
  std::string hook{};  ///< a name for hook_named()
  BadDifference bad = BadDifference::refuse;
  bool queued = false;  ///< compute and wire are threads
  int fragments = 1;
  int delay = 0;
  double mixing = 0;
  std::vector<int> fragment_of{};
  int first_step = 0;
  int last_step = 11;

  struct Rank {
    Communicator comm;
    LocalSteps& local;
    std::vector<float>& values;
    const Stream& compute;
  };
  std::function<void(const Rank&)> at_start{}, at_end{};
  std::function<void(const Rank&, int step)> after_inner{};                ///< before LocalSteps::step()
  std::function<void(const Rank&, int step, OuterStep did)> after_step{};  ///< compute has passed it

  /// @returns the parameters of each rank after the last step
  std::vector<std::vector<float>> run() const;
  /// The same without compression, by one loop. @param step after so many outer ones this one is left out, as if it were skipped
  std::vector<std::vector<float>> twin(int skipped = -1) const;
  /// The same with fragments, a delay and mixing. @param fragment_of_parameter by parameter
  /// @param skipped after so many outer steps of fragments this one is left out
  std::vector<std::vector<float>> streaming_twin(const std::vector<int>& fragment_of_parameter,
                                                 int skipped = -1) const;
};

}  // namespace weft::test
