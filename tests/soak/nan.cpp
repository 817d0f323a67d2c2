// Injects NaN, infinities and values too large to be summed into trainings with PowerSGD, at random by a
// seed: into a rank's gradient of a step, or into a state that is loaded. Afterwards a training must be
// bitwise the one without these steps.
//
//   soak_nan SEED COUNT    trains until COUNT values were injected; ends with 0 when no training shows any
//
// A step with too large values can end with finite means, if they cancel or their sum does not overflow. It
// is then a step like any other, and the training that it is compared with has it, too. The steps after it
// must be finite.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>

#include "support/draw.hpp"
#include "unit/compression/training.hpp"
#include "weft/compression/power_sgd.hpp"

namespace {

using namespace weft;
using test::Draw;
using test::Floats;

const ParamLayout layout(DataType::f32, {{"tall", 48 * 20, nullptr, {48, 20}},
                                         {"bias", 20},
                                         {"odd", 13 * 151, nullptr, {13, 151}},
                                         {"conv", 12 * 4 * 9, nullptr, {12, 4, 9}},
                                         {"small", 3 * 4, nullptr, {3, 4}},
                                         {"wide", 7 * 300, nullptr, {7, 300}}});

enum class Kind { nan, infinity, minus_infinity, too_large };
constexpr const char* names[] = {"NaN", "+Inf", "-Inf", "too large"};

/// One step of a trial: a training step, which may have a bad value, or the loading of a bad state.
struct TrialStep {
  int number = 0;  ///< gradients are drawn by it
  bool is_bad = false;
  bool is_load = false;
  Kind kind = Kind::nan;
  int rank = 0;
  int micro_step = 0;
  int tensor = 0;
  int element = 0;
  bool all_ranks = false;     ///< too large values: all ranks have them
  bool all_elements = false;  ///< too large values: in all elements, each with its own sign
  bool in_basis = false;
};

struct Plan {
  std::uint64_t seed = 0;
  int ranks = 0;
  int micro_steps = 1;
  bool queued = false;
  PowerSgdOptions hook{};
  ReducerOptions options{};
  std::vector<TrialStep> trial_steps{};
};

Plan draw_plan(std::uint64_t seed) {
  Draw draw(seed);
  Plan plan{.seed = seed, .ranks = 2 + draw.below(3), .micro_steps = 1 + draw.below(3)};
  plan.queued = draw.once_in(3);
  plan.hook = {.rank = 1 + draw.below(2),
               .start_step = draw.below(5),
               .warm_start = !draw.once_in(6),
               .residual = draw.one_of({KeptAs::sixteen_bits, KeptAs::f32, KeptAs::nothing}),
               .form = draw.one_of({LowRankForm::two_sided, LowRankForm::alternating}),
               .seed = seed};
  plan.options.means = draw.one_of({Means::everywhere, Means::sharded});
  if (!draw.once_in(5))
    plan.options.buckets = BucketBytes{draw.one_of<std::size_t>({1, 3000, 6000, 12000, 1 << 20})};
  const int trial_steps = 8 + draw.below(10);
  for (int i = 0; i < trial_steps; ++i) {
    TrialStep trial_step{.number = i, .is_bad = draw.once_in(3)};
    trial_step.is_load = trial_step.is_bad && draw.once_in(4);
    trial_step.kind = static_cast<Kind>(draw.below(trial_step.is_load ? 3 : 4));
    trial_step.rank = draw.below(plan.ranks);
    trial_step.micro_step = draw.below(plan.micro_steps);
    trial_step.tensor = draw.below(layout.parameters());
    trial_step.element = draw.below(static_cast<int>(layout.count(ParamId{trial_step.tensor})));
    trial_step.all_ranks = draw.once_in(2);
    trial_step.all_elements = draw.once_in(2);
    trial_step.in_basis = plan.hook.residual == KeptAs::nothing || draw.once_in(2);
    plan.trial_steps.push_back(trial_step);
  }
  plan.trial_steps.push_back({.number = trial_steps});
  return plan;
}

float bad_value(Kind kind, Draw& draw) {
  switch (kind) {
    case Kind::nan:
      return std::numeric_limits<float>::quiet_NaN();
    case Kind::infinity:
      return std::numeric_limits<float>::infinity();
    case Kind::minus_infinity:
      return -std::numeric_limits<float>::infinity();
    case Kind::too_large:
      break;
  }
  const float share = static_cast<float>(1 + draw.below(16)) / 16;
  return (draw.once_in(2) ? 1.0F : -1.0F) * share * std::numeric_limits<float>::max();
}

Floats gradient(const Plan& plan, const TrialStep& trial_step, int rank, int micro_step, int parameter) {
  Floats values =
      test::normal(layout.count(ParamId{parameter}), rank, trial_step.number * 8 + micro_step, parameter);
  if (!trial_step.is_bad || parameter != trial_step.tensor || micro_step != trial_step.micro_step)
    return values;
  const bool too_large = trial_step.kind == Kind::too_large;
  if (rank != trial_step.rank && !(too_large && trial_step.all_ranks)) return values;
  // If all ranks have it, the sign is the same on all, so that sums overflow.
  Draw draw(plan.seed * 64 + static_cast<std::uint64_t>(trial_step.number));
  if (too_large && trial_step.all_elements) {
    for (float& value : values) value = bad_value(trial_step.kind, draw);
  } else {
    values[static_cast<std::size_t>(trial_step.element)] = bad_value(trial_step.kind, draw);
  }
  return values;
}

/// The means of each rank after each trial step, and the state of each rank at the end. With sharded means,
/// one arena has all ranks' parts.
struct Outcome {
  std::vector<std::vector<Floats>> means;
  std::vector<PowerSgdState> states;
  std::string problem;

  bool is_finite(std::size_t trial_step) const {
    return finite_ranks(trial_step) == std::ssize(means[trial_step]);
  }
  std::ptrdiff_t finite_ranks(std::size_t trial_step) const {
    return std::ranges::count_if(means[trial_step], [](const Floats& of_rank) {
      return std::ranges::all_of(of_rank, [](float value) { return std::isfinite(value); });
    });
  }
};

class Rank {
 public:
  Rank(const Plan& plan, Communicator comm, Outcome& outcome, std::mutex& mutex)
      : plan_(plan), comm_(comm), hook_(power_sgd(plan.hook)), outcome_(outcome), mutex_(mutex) {
    ReducerOptions options = plan.options;
    options.hook = hook_;
    if (plan.queued) options.wire = Stream::queued();
    reducer_.emplace(comm, layout, options);
  }

  void run() {
    for (std::size_t i = 0; i < plan_.trial_steps.size(); ++i) {
      const TrialStep& trial_step = plan_.trial_steps[i];
      if (trial_step.is_load) {
        load_bad(trial_step);
      } else {
        step(trial_step);
        take_means(outcome_.means[i]);
      }
    }
    outcome_.states[static_cast<std::size_t>(comm_.rank())] = hook_->state();
  }

 private:
  void step(const TrialStep& trial_step) {
    for (int micro_step = 0; micro_step < plan_.micro_steps; ++micro_step) {
      reducer_->begin_step(micro_step + 1 < plan_.micro_steps ? Exchange::no_sync : Exchange::now);
      for (int parameter = layout.parameters() - 1; parameter >= 0; --parameter) {
        const Floats values = gradient(plan_, trial_step, comm_.rank(), micro_step, parameter);
        reducer_->mark_ready(ParamId{parameter}, ConstView(std::span<const float>(values)), compute_);
      }
      reducer_->finish_step(compute_);
      compute_.synchronize();
    }
  }

  void take_means(std::vector<Floats>& by_rank) {
    const bool sharded = plan_.options.means == Means::sharded;
    const std::lock_guard lock(mutex_);
    Floats& all = by_rank[sharded ? 0 : static_cast<std::size_t>(comm_.rank())];
    all.resize(static_cast<std::size_t>(layout.size()));
    for (const Bucket& bucket : reducer_->plan().buckets()) {
      const auto means = reducer_->means(bucket).as<const float>();
      const auto at = static_cast<std::size_t>(means.data() - reducer_->gradients().as<float>().data());
      for (std::size_t i = 0; i < means.size() && at + i < all.size(); ++i) all[at + i] = means[i];
    }
  }

  void load_bad(const TrialStep& trial_step) {
    PowerSgdState state = hook_->state();
    Draw draw(0);
    if (comm_.rank() == trial_step.rank || trial_step.all_ranks) {
      auto& tensor = state.tensors[static_cast<std::size_t>(trial_step.tensor) % state.tensors.size()];
      Floats& values = trial_step.in_basis ? tensor.basis : tensor.residual;
      values[static_cast<std::size_t>(trial_step.element) % values.size()] = bad_value(trial_step.kind, draw);
    }
    try {
      hook_->load_state(state);
    } catch (const Error&) {
      return;
    }
    const std::lock_guard lock(mutex_);
    outcome_.problem = text("rank ", comm_.rank(), " took over a bad state at step ", trial_step.number);
  }

  const Plan& plan_;
  Communicator comm_;
  std::shared_ptr<PowerSgd> hook_;
  std::optional<GradientReducer> reducer_;
  Stream compute_;
  Outcome& outcome_;
  std::mutex& mutex_;
};

Outcome train(const Plan& plan) {
  const auto ranks = static_cast<std::size_t>(plan.ranks);
  Outcome outcome{std::vector(plan.trial_steps.size(), std::vector<Floats>(ranks)), {}, {}};
  outcome.states.resize(ranks);
  std::mutex mutex;
  run_as_threads(plan.ranks, [&](Communicator comm) { Rank(plan, comm, outcome, mutex).run(); });
  return outcome;
}

bool same_bits(const Floats& a, const Floats& b) {
  return std::ranges::equal(
      a, b, {}, [](float value) { return std::bit_cast<std::uint32_t>(value); },
      [](float value) { return std::bit_cast<std::uint32_t>(value); });
}

std::string difference(const PowerSgdState& a, const PowerSgdState& b) {
  if (a.steps != b.steps) return text(a.steps, " steps counted, not ", b.steps);
  if (a.left_bases != b.left_bases) return "bases of the other side";
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    if (!same_bits(a.tensors[i].basis, b.tensors[i].basis)) return text("the basis of ", a.tensors[i].name);
    if (!same_bits(a.tensors[i].residual, b.tensors[i].residual))
      return text("the residual of ", a.tensors[i].name);
  }
  return "";
}

std::string describe(const TrialStep& trial_step) {
  return text(
      trial_step.is_load ? "load of " : "step with ", names[static_cast<int>(trial_step.kind)], " of rank ",
      trial_step.rank, trial_step.all_ranks ? " and all" : "", ", ", layout.name(ParamId{trial_step.tensor}),
      "[", trial_step.all_elements && trial_step.kind == Kind::too_large ? "all" : text(trial_step.element),
      "]");
}

/// Runs a plan. @returns the first difference that was found, or nothing; adds what was injected to `counts`
std::string trial(const Plan& plan, std::map<std::string, int>& counts) {
  const Outcome outcome = train(plan);
  if (!outcome.problem.empty()) return outcome.problem;
  Plan clean = plan;
  clean.trial_steps.clear();
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < plan.trial_steps.size(); ++i) {
    const TrialStep& trial_step = plan.trial_steps[i];
    const bool finite = outcome.is_finite(i);
    if (!finite && plan.options.means == Means::everywhere && outcome.finite_ranks(i) > 0)
      return text("step ", i, " is finite on some ranks only");
    if (!trial_step.is_bad && !finite) return text("step ", i, ", without bad values, is not finite");
    if (trial_step.is_bad && finite && !trial_step.is_load && trial_step.kind != Kind::too_large)
      return text("step ", i, ", ", describe(trial_step), ", has finite means");
    if (trial_step.is_bad) {
      ++counts[trial_step.is_load
                   ? text("states with ", names[static_cast<int>(trial_step.kind)], ", refused")
                   : text("steps with ", names[static_cast<int>(trial_step.kind)],
                          finite ? ", finite all the same" : "")];
    }
    if (!finite || trial_step.is_load) continue;
    clean.trial_steps.push_back(trial_step);
    kept.push_back(i);
  }
  const Outcome expected = train(clean);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const std::string found = test::difference(outcome.means[kept[i]], expected.means[i]);
    if (!found.empty()) return text("step ", kept[i], ", by rank in place of ", found);
  }
  for (std::size_t rank = 0; rank < outcome.states.size(); ++rank) {
    const std::string found = difference(outcome.states[rank], expected.states[rank]);
    if (!found.empty()) return text("at the end, rank ", rank, ": ", found);
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: soak_nan SEED COUNT\n");
    return 42;
  }
  std::uint64_t seed = std::strtoull(argv[1], nullptr, 10);
  const int count = std::atoi(argv[2]);
  std::map<std::string, int> counts;
  int trainings = 0;
  int failed = 0;
  int injected = 0;
  while (injected < count) {
    const Plan plan = draw_plan(seed);
    std::string found;
    try {
      found = trial(plan, counts);
    } catch (const std::exception& error) {
      found = error.what();
    }
    if (!found.empty()) {
      ++failed;
      std::printf("FAILED: %s; again with SEED=%llu tests/soak.sh nan 1\n", found.c_str(),
                  static_cast<unsigned long long>(seed));
      for (std::size_t i = 0; i < plan.trial_steps.size(); ++i) {
        if (plan.trial_steps[i].is_bad)
          std::printf("    | step %zu: %s\n", i, describe(plan.trial_steps[i]).c_str());
      }
    }
    injected += static_cast<int>(std::ranges::count_if(plan.trial_steps, &TrialStep::is_bad));
    ++trainings;
    ++seed;
  }
  for (const auto& [what, times] : counts) std::printf("%5d %s\n", times, what.c_str());
  std::printf("%d injected into %d trainings, %d trainings failed\n", injected, trainings, failed);
  return failed > 0 ? 1 : 0;
}
