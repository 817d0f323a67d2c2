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
struct Ground {
  Problem problem;
  std::vector<int> device_of;
  Certificate floor;
  std::unique_ptr<RuleSearch> search{};
};

struct Candidate {
  Schedule schedule;
  const Ground* ground = nullptr;
  Nanoseconds length = 0;
};

std::vector<Ground> grounds(const Problem& given, const SynthesisOptions& options) {
  std::vector<Ground> result;
  for (int chunks = 1; chunks <= given.chunks(); ++chunks) {
    if (given.chunks() % chunks != 0 || (chunks != given.chunks() && !options.fewer_chunks)) continue;
    Problem problem = given;
    problem.costs = joined(given.costs, given.devices * chunks);
    for (const Shape shape : options.shapes) {
      auto device_of = shape == Shape::looped ? looped_placement(given.devices, chunks)
                                              : v_placement(given.devices, chunks);
      if (std::ranges::any_of(result, [&](const Ground& other) { return other.device_of == device_of; }))
        continue;
      expect_valid(problem, device_of);
      const Certificate floor = lower_bound(problem, device_of, options.objective);
      result.push_back({problem, std::move(device_of), floor});
    }
  }
  if (result.empty())
    throw Error(ErrorKind::usage, "no shape of placement is allowed", "give SynthesisOptions::shapes");
  std::ranges::stable_sort(result, {}, [](const Ground& one) { return one.floor.bound; });
  return result;
}

class Synthesizer {
 public:
  Synthesizer(const Problem& given, const SynthesisOptions& options)
      : options_(options), grounds_(grounds(given, options)) {
    floor_ = grounds_.front().floor.bound;
  }

  Synthesis run() {
    try_rules();
    if (!done()) try_named();
    if (!done()) improve();
    if (!best_)
      throw Error(ErrorKind::usage, "no schedule was found that fits the memory limits",
                  "allow more memory, or give placements with fewer chunks");
    const Ground& lowest = grounds_.front();
    return {.schedule = std::move(best_->schedule),
            .problem = best_->ground->problem,
            .objective = options_.objective,
            .length = best_->length,
            .certificate = lowest.floor,
            .floor_problem = lowest.problem,
            .floor_placement = lowest.device_of};
  }

 private:
  bool done() const { return best_ && best_->length <= floor_; }

  void offer(Schedule schedule, const Ground& ground) {
    const Prediction predicted = simulate(schedule, ground.problem);
    const Nanoseconds length = predicted.length(options_.objective);
    if (!predicted.fits(ground.problem) || (best_ && length >= best_->length)) return;
    best_ = Candidate{std::move(schedule), &ground, length};
  }

  void offer_found(const Ground& ground) {
    if (ground.search->found() && (!best_ || ground.search->length() < best_->length))
      offer(ground.search->best(), ground);
  }

  /// Half of the effort, on all grounds alike.
  void try_rules() {
    for (Ground& ground : grounds_) {
      ground.search =
          std::make_unique<RuleSearch>(ground.problem, ground.device_of, options_.objective, floor_);
      if (!ground.search->try_known(options_.effort / 2 / static_cast<std::int64_t>(grounds_.size())))
        ground.search->try_in_step();
      offer_found(ground);
      if (done()) return;
    }
  }

  void try_named() {
    for (const Ground& ground : grounds_) {
      for (const NamedSchedule& one : named_schedules()) {
        if (!one.suits(ground.problem)) continue;
        Schedule schedule;
        try {
          schedule = one.make(ground.problem);
        } catch (const Error& error) {
          if (error.kind() != ErrorKind::usage) throw;
          continue;  // it does not fit the memory
        }
        if (schedule.device_of == ground.device_of) offer(std::move(schedule), ground);
        if (done()) return;
      }
    }
  }

  /// The other half, on the ground whose rules did best.
  void improve() {
    const auto best =
        std::ranges::min_element(grounds_, {}, [](const Ground& one) { return one.search->length(); });
    best->search->improve(options_.effort / 2);
    offer_found(*best);
  }

  SynthesisOptions options_;
  std::vector<Ground> grounds_;
  Nanoseconds floor_ = 0;
  std::optional<Candidate> best_;
};

}  // namespace

double Synthesis::gap() const {
  return static_cast<double>(length - certificate.bound) / static_cast<double>(certificate.bound);
}

Synthesis synthesize(const Problem& problem, const SynthesisOptions& options) {
  if (problem.devices < 1 || problem.stages() < problem.devices || problem.stages() % problem.devices != 0)
    expect_valid(problem, {});  // says what is wrong
  return Synthesizer(problem, options).run();
}

}  // namespace weft::pipeline
