// Trainings with PowerSGD into which NaN, infinities and values too large to be summed come, by a seed: into
// a rank's gradient of a step, or into a state that is loaded. Everything after must be bitwise the training
// that had none of these steps.
//
//   soak_nan SEED COUNT    trains until COUNT values came in; ends with 0 when no training shows any
//
// A step with too large values can end with finite means, where they cancel or a sum has room: it is then a
// step like any other, and the training it is compared with has it, too. The steps after it must be finite.

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

/// One turn of a training: a step, of which something may be bad, or the loading of a bad state.
struct Turn {
  int number = 0;  ///< gradients are drawn by it
  bool is_bad = false;
  bool is_load = false;
  Kind kind = Kind::nan;
  int rank = 0;
  int micro_step = 0;
  int tensor = 0;
  int element = 0;
  bool all_ranks = false;     ///< bring it, where it is too large
  bool all_elements = false;  ///< are it, with signs of their own
  bool in_basis = false;
};

struct Plan {
  std::uint64_t seed = 0;
  int ranks = 0;
  int micro_steps = 1;
  bool queued = false;
  PowerSgdOptions hook{};
  ReducerOptions options{};
  std::vector<Turn> turns{};
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
  if (!draw.once_in(5)) plan.options.bucket_bytes = draw.one_of<std::size_t>({1, 3000, 6000, 12000, 1 << 20});
  const int turns = 8 + draw.below(10);
  for (int i = 0; i < turns; ++i) {
    Turn turn{.number = i, .is_bad = draw.once_in(3)};
    turn.is_load = turn.is_bad && draw.once_in(4);
    turn.kind = static_cast<Kind>(draw.below(turn.is_load ? 3 : 4));
    turn.rank = draw.below(plan.ranks);
    turn.micro_step = draw.below(plan.micro_steps);
    turn.tensor = draw.below(layout.parameters());
    turn.element = draw.below(static_cast<int>(layout.count(ParamId{turn.tensor})));
    turn.all_ranks = draw.once_in(2);
    turn.all_elements = draw.once_in(2);
    turn.in_basis = plan.hook.residual == KeptAs::nothing || draw.once_in(2);
    plan.turns.push_back(turn);
  }
  plan.turns.push_back({.number = turns});
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

Floats gradient(const Plan& plan, const Turn& turn, int rank, int micro_step, int parameter) {
  Floats values =
      test::normal(layout.count(ParamId{parameter}), rank, turn.number * 8 + micro_step, parameter);
  if (!turn.is_bad || parameter != turn.tensor || micro_step != turn.micro_step) return values;
  const bool too_large = turn.kind == Kind::too_large;
  if (rank != turn.rank && !(too_large && turn.all_ranks)) return values;
  // With one sign on all ranks, if they all bring it, so that sums leave the range of f32.
  Draw draw(plan.seed * 64 + static_cast<std::uint64_t>(turn.number));
  if (too_large && turn.all_elements) {
    for (float& value : values) value = bad_value(turn.kind, draw);
  } else {
    values[static_cast<std::size_t>(turn.element)] = bad_value(turn.kind, draw);
  }
  return values;
}

/// What ranks had after each turn, and the end's state by rank. Sharded, one arena has all ranks' parts.
struct Outcome {
  std::vector<std::vector<Floats>> means;
  std::vector<PowerSgdState> states;
  std::string problem;

  bool is_finite(std::size_t turn) const { return finite_ranks(turn) == std::ssize(means[turn]); }
  std::ptrdiff_t finite_ranks(std::size_t turn) const {
    return std::ranges::count_if(means[turn], [](const Floats& of_rank) {
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
    for (std::size_t i = 0; i < plan_.turns.size(); ++i) {
      const Turn& turn = plan_.turns[i];
      if (turn.is_load) {
        load_bad(turn);
      } else {
        step(turn);
        take_means(outcome_.means[i]);
      }
    }
    outcome_.states[static_cast<std::size_t>(comm_.rank())] = hook_->state();
  }

 private:
  void step(const Turn& turn) {
    for (int micro_step = 0; micro_step < plan_.micro_steps; ++micro_step) {
      reducer_->begin_step(micro_step + 1 < plan_.micro_steps ? Exchange::later : Exchange::now);
      for (int parameter = layout.parameters() - 1; parameter >= 0; --parameter) {
        const Floats values = gradient(plan_, turn, comm_.rank(), micro_step, parameter);
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

  void load_bad(const Turn& turn) {
    PowerSgdState state = hook_->state();
    Draw draw(0);
    if (comm_.rank() == turn.rank || turn.all_ranks) {
      auto& tensor = state.tensors[static_cast<std::size_t>(turn.tensor) % state.tensors.size()];
      Floats& values = turn.in_basis ? tensor.basis : tensor.residual;
      values[static_cast<std::size_t>(turn.element) % values.size()] = bad_value(turn.kind, draw);
    }
    try {
      hook_->load_state(state);
    } catch (const Error&) {
      return;
    }
    const std::lock_guard lock(mutex_);
    outcome_.problem = text("rank ", comm_.rank(), " took over a bad state at turn ", turn.number);
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
  Outcome outcome{std::vector(plan.turns.size(), std::vector<Floats>(ranks)), {}, {}};
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

std::string describe(const Turn& turn) {
  return text(turn.is_load ? "load of " : "step with ", names[static_cast<int>(turn.kind)], " of rank ",
              turn.rank, turn.all_ranks ? " and all" : "", ", ", layout.name(ParamId{turn.tensor}), "[",
              turn.all_elements && turn.kind == Kind::too_large ? "all" : text(turn.element), "]");
}

/// What of it was found, or nothing; adds to `counts` what came in.
std::string trial(const Plan& plan, std::map<std::string, int>& counts) {
  const Outcome outcome = train(plan);
  if (!outcome.problem.empty()) return outcome.problem;
  Plan clean = plan;
  clean.turns.clear();
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < plan.turns.size(); ++i) {
    const Turn& turn = plan.turns[i];
    const bool finite = outcome.is_finite(i);
    if (!finite && plan.options.means == Means::everywhere && outcome.finite_ranks(i) > 0)
      return text("turn ", i, " is finite on some ranks only");
    if (!turn.is_bad && !finite) return text("turn ", i, ", a step without bad values, is not finite");
    if (turn.is_bad && finite && !turn.is_load && turn.kind != Kind::too_large)
      return text("turn ", i, ", ", describe(turn), ", has finite means");
    if (turn.is_bad) {
      ++counts[turn.is_load ? text("states with ", names[static_cast<int>(turn.kind)], ", refused")
                            : text("steps with ", names[static_cast<int>(turn.kind)],
                                   finite ? ", finite all the same" : "")];
    }
    if (!finite || turn.is_load) continue;
    clean.turns.push_back(turn);
    kept.push_back(i);
  }
  const Outcome expected = train(clean);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const std::string found = test::difference(outcome.means[kept[i]], expected.means[i]);
    if (!found.empty()) return text("turn ", kept[i], ", by rank in place of ", found);
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
      for (std::size_t i = 0; i < plan.turns.size(); ++i) {
        if (plan.turns[i].is_bad) std::printf("    | turn %zu: %s\n", i, describe(plan.turns[i]).c_str());
      }
    }
    injected += static_cast<int>(std::ranges::count_if(plan.turns, &Turn::is_bad));
    ++trainings;
    ++seed;
  }
  for (const auto& [what, times] : counts) std::printf("%5d %s\n", times, what.c_str());
  std::printf("%d injected into %d trainings, %d trainings failed\n", injected, trainings, failed);
  return failed > 0 ? 1 : 0;
}
