#include "weft/pipeline/synthesize.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "pipeline/search/rule_search.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/schedules.hpp"
#include "weft/pipeline/simulate.hpp"

namespace weft::pipeline {
namespace {

using detail::RuleSearch;

/// One way to place the model that is allowed.
struct PlacementSearch {
  Problem problem;
  std::vector<int> device_of;
  Certificate floor;
  std::unique_ptr<RuleSearch> rules{};
};

struct Candidate {
  Schedule schedule;
  const PlacementSearch* search = nullptr;
  Nanoseconds length = 0;
};

std::vector<PlacementSearch> placements(const Problem& given, const SynthesisOptions& options) {
  std::vector<PlacementSearch> result;
  for (int chunks = 1; chunks <= given.chunks(); ++chunks) {
    if (given.chunks() % chunks != 0 || (chunks != given.chunks() && !options.fewer_chunks)) continue;
    Problem problem = given;
    problem.costs = joined(given.costs, given.devices * chunks);
    for (const Shape shape : options.shapes) {
      auto device_of = shape == Shape::looped ? looped_placement(given.devices, chunks)
                                              : v_placement(given.devices, chunks);
      if (std::ranges::any_of(result,
                              [&](const PlacementSearch& other) { return other.device_of == device_of; }))
        continue;
      expect_valid(problem, device_of);
      const Certificate floor = lower_bound(problem, device_of, options.objective);
      result.push_back({problem, std::move(device_of), floor});
    }
  }
  if (result.empty())
    throw Error(ErrorKind::usage, "no shape of placement is allowed", "give SynthesisOptions::shapes");
  std::ranges::stable_sort(result, {}, [](const PlacementSearch& one) { return one.floor.bound; });
  return result;
}

/// Some 800 times those of the problem, 50 ms to a second on one core.
std::int64_t actions_to_place(const Problem& problem, double effort) {
  if (!(effort > 0 && effort <= 1e6))
    throw Error(ErrorKind::usage, text("an effort of ", effort, " to find a schedule"),
                "give a multiple of the usual, above 0 and at most 1000000");
  const std::int64_t actions = std::int64_t{3} * problem.microbatches * problem.stages();
  const std::int64_t usual = std::clamp<std::int64_t>(800 * actions, 1'200'000, 20'000'000);
  return static_cast<std::int64_t>(effort * static_cast<double>(usual));
}

class Synthesizer {
 public:
  Synthesizer(const Problem& given, const SynthesisOptions& options)
      : options_(options),
        effort_(actions_to_place(given, options.effort)),
        searches_(placements(given, options)) {
    floor_ = searches_.front().floor.bound;
  }

  Synthesis run() {
    try_rules();
    if (!done()) try_named();
    if (!done()) improve();
    if (!best_)
      throw Error(ErrorKind::usage, "no schedule was found that fits the memory limits",
                  "allow more memory, or give placements with fewer chunks");
    const PlacementSearch& lowest = searches_.front();
    return {.schedule = std::move(best_->schedule),
            .problem = best_->search->problem,
            .objective = options_.objective,
            .length = best_->length,
            .certificate = lowest.floor,
            .floor_problem = lowest.problem,
            .floor_placement = lowest.device_of};
  }

 private:
  bool done() const { return best_ && best_->length <= floor_; }

  void offer(Schedule schedule, const PlacementSearch& found_by) {
    const Prediction predicted = simulate(schedule, found_by.problem);
    const Nanoseconds length = predicted.length(options_.objective);
    if (!predicted.fits(found_by.problem) || (best_ && length >= best_->length)) return;
    best_ = Candidate{std::move(schedule), &found_by, length};
  }

  void offer_found(const PlacementSearch& one) {
    if (one.rules->found() && (!best_ || one.rules->length() < best_->length)) offer(one.rules->best(), one);
  }

  /// Half of the effort, on all placements alike.
  void try_rules() {
    const std::int64_t effort = effort_ / 2 / static_cast<std::int64_t>(searches_.size());
    for (PlacementSearch& one : searches_) {
      one.rules = std::make_unique<RuleSearch>(one.problem, one.device_of, options_.objective, floor_);
      if (!one.rules->try_known(effort) && !one.rules->try_in_step()) one.rules->try_warm_ups(effort / 2);
      offer_found(one);
      if (done()) return;
    }
  }

  void try_named() {
    for (const PlacementSearch& one : searches_) {
      for (const NamedSchedule& named : named_schedules()) {
        if (!named.suits(one.problem)) continue;
        Schedule schedule;
        try {
          schedule = named.make(one.problem);
        } catch (const Error& error) {
          if (error.kind() != ErrorKind::usage) throw;
          continue;  // it does not fit the memory
        }
        if (schedule.device_of == one.device_of) offer(std::move(schedule), one);
        if (done()) return;
      }
    }
  }

  /// The other half, on the placement whose rules did best.
  void improve() {
    const auto best = std::ranges::min_element(
        searches_, {}, [](const PlacementSearch& one) { return one.rules->length(); });
    best->rules->improve(effort_ / 2);
    offer_found(*best);
  }

  SynthesisOptions options_;
  std::int64_t effort_;  // actions
  std::vector<PlacementSearch> searches_;
  Nanoseconds floor_ = 0;
  std::optional<Candidate> best_;
};

}  // namespace

double Synthesis::gap() const {
  return static_cast<double>(length - certificate.bound) / static_cast<double>(certificate.bound);
}

Synthesis synthesize(const Problem& problem, const SynthesisOptions& options) {
  const bool can_be_placed = problem.devices >= 1 && problem.microbatches >= 1 &&
                             problem.stages() >= problem.devices && problem.stages() % problem.devices == 0 &&
                             std::ssize(problem.costs.hops) == problem.stages() - 1;
  if (!can_be_placed) expect_valid(problem, {});  // says what is wrong
  return Synthesizer(problem, options).run();
}

}  // namespace weft::pipeline
