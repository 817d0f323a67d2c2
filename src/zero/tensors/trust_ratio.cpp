// LAMB and LARS: the rate of a tensor is the learning rate times a ratio of two of its norms.
//
// LAMB. First pass: moments of adapted tensors, and the whole step (AdamW's) of the others; then the norms of
// parameters and of the direction that the new moments give. Second pass: the parameters of adapted tensors.
// LARS. First pass: the whole step of tensors that are not adapted; the norms of parameters and gradients. Second
// pass: the whole step of adapted ones.
// Between the passes the norms of all adapted tensors are summed over ranks in one all-reduce of integers, 368 bytes
// a tensor, and the host waits for it. A tensor lies in one part of a model in parts, so there is no sum over parts;
// copies of tied weights have the same values and get the same ratio.

#include <cmath>
#include <numeric>

#include "zero/tensors/tensor_norms.hpp"
#include "zero/tensors/whole_tensors.hpp"

namespace weft::detail {
namespace {

constexpr std::size_t places = ExactSum::places_count + 1;

class TrustRatios final : public WholeTensors {
 public:
  explicit TrustRatios(const Place& place)
      : groups_(place.groups), trained_(place.trained), comm_(place.comm), everywhere_(place.everywhere) {
    std::vector<int> numbers(static_cast<std::size_t>(trained_.parameters()));
    std::iota(numbers.begin(), numbers.end(), 0);
    runs_ = GroupRuns(trained_, numbers);
    factors_.runs = &runs_;
    factors_.by_group.resize(numbers.size());
    directions_.resize(numbers.size());
    squares_.resize(numbers.size());
    for (const int number : numbers) {
      if (groups_.tensor(number).is_whole) adapted_.push_back(number);
    }
    sums_.resize(adapted_.size() * 2 * places);
  }

  const GroupedFactors& first(const Step& step) override {
    step_ = step;
    for (int i = 0; i < trained_.parameters(); ++i) {
      const auto [rule, rate_factor, is_whole] = groups_.tensor(i);
      StepFactors& mine = factors_.by_group[static_cast<std::size_t>(i)];
      mine = factors(rule, step.number, step.learning_rate * rate_factor, step.gradient_scale);
      if (!is_whole) continue;
      const auto* lamb = std::get_if<zero::Lamb>(&rule);
      if (lamb == nullptr) {
        mine = {.rule = UpdateRule::none};
        continue;
      }
      const StepFactors unit = factors(rule, step.number, 1, 1);
      directions_[static_cast<std::size_t>(i)] = {unit.rate, unit.epsilon, lamb->weight_decay};
      mine = moments_alone(mine);
    }
    return factors_;
  }

  void add(const Part& part, const Stream& compute) override {
    if (adapted_.empty()) return;
    Stream(compute).run([this, slice = part.slice, begin = part.begin] { add_now(slice, begin); });
  }

  const GroupedFactors& second(std::span<const Part>, const Stream& compute) override {
    sum_over_ranks(compute);
    for (StepFactors& mine : factors_.by_group) mine = {.rule = UpdateRule::none};
    for (std::size_t k = 0; k < adapted_.size(); ++k) {
      const auto at = std::span(sums_).subspan(2 * k * places);
      const double p = std::sqrt(ExactSum::from(at.first<places>()).value());
      const double u = std::sqrt(ExactSum::from(at.subspan(places).first<places>()).value());
      set_factors(adapted_[k], p, u);
    }
    return factors_;
  }

 private:
  void add_now(const StepSlice& slice, std::int64_t begin) {
    const std::int64_t end = begin + slice.parameters.count();
    runs_.visit(begin, end, [&](std::int64_t from, std::int64_t to, std::size_t tensor) {
      const auto [rule, rate_factor, is_whole] = groups_.tensor(static_cast<int>(tensor));
      if (!is_whole) return;
      const StepSlice mine = part(slice, from - begin, to - from);
      if (std::holds_alternative<zero::Lamb>(rule)) {
        add_direction_squares(mine, directions_[tensor], squares_[tensor]);
      } else {
        add_gradient_squares(mine, squares_[tensor]);
      }
    });
  }

  void sum_over_ranks(Stream compute) {
    compute.synchronize();
    for (std::size_t k = 0; k < adapted_.size(); ++k) {
      TensorSquares& mine = squares_[static_cast<std::size_t>(adapted_[k])];
      const auto at = std::span(sums_).subspan(2 * k * places);
      mine.parameters.put(at.first<places>());
      mine.updates.put(at.subspan(places).first<places>());
      mine = {};
    }
    if (everywhere_ || adapted_.empty()) return;
    comm_.all_reduce(View(std::span(sums_)), ReduceOp::sum, Stream()).wait();
  }

  /// @param p, u norms of the tensor; NaN if it has values that are not finite, and then its parameters become NaN
  void set_factors(int number, double p, double u) {
    const auto [rule, rate_factor, is_whole] = groups_.tensor(number);
    const bool is_lamb = std::holds_alternative<zero::Lamb>(rule);
    double ratio = p / u;
    if (const auto* lars = std::get_if<zero::Lars>(&rule))
      ratio = lars->trust_coefficient * p / (u * step_.gradient_scale + lars->weight_decay * p);
    if (p == 0 || u == 0) ratio = 1;
    const double rate = step_.learning_rate * rate_factor * ratio;
    StepFactors& mine = factors_.by_group[static_cast<std::size_t>(number)];
    mine = factors(rule, step_.number, std::isfinite(rate) ? rate : 0, step_.gradient_scale);
    if (!std::isfinite(rate)) mine.rate = rate;
    if (is_lamb) mine = but_moments(mine);
  }

  const OptimizerGroups& groups_;
  const ParamLayout& trained_;
  Communicator comm_;
  bool everywhere_;
  GroupRuns runs_;  // a run for each tensor
  GroupedFactors factors_;
  Step step_;
  std::vector<int> adapted_;
  std::vector<Direction> directions_;   // by tensor
  std::vector<TensorSquares> squares_;  // by tensor
  std::vector<std::int64_t> sums_;      // two for each of the adapted
};

}  // namespace

std::unique_ptr<WholeTensors> trust_ratios(const WholeTensors::Place& place) {
  return std::make_unique<TrustRatios>(place);
}

}  // namespace weft::detail
