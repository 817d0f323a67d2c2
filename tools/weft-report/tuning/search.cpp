#include "weft-report/tuning/search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "weft-report/tuning/candidates.hpp"
#include "weft/core/error.hpp"

namespace weft::report::tuning {
namespace {

constexpr double wrong_searches = 0.05;  // in which anything is kept that is no gain
constexpr double each_certainty = 0.975;
constexpr double least_gain = 0.005;      // what is smaller is not looked for
constexpr double swing = 0.02;            // between algorithms of neighbouring sizes
constexpr std::size_t most_compared = 2;  // choices of variables, until one is kept
constexpr std::size_t few = 3;            // candidates, which are not halved any more
constexpr std::size_t most_ranges = 5;    // before they are looked at more coarsely
constexpr int pairs_before_futile = 5;
constexpr int most_failures = 3;  // of what is kept, one after the other

/// The search ends before its end; what was kept stays.
struct Stopped {
  std::string why;
};
using Pairs = std::vector<GainBySize>;

GainBySize logs_by_size(const std::vector<Timing>& candidate, const std::vector<Timing>& base) {
  GainBySize logs;
  for (const Timing& one : candidate) {
    const auto other = std::ranges::find(base, one.bytes, &Timing::bytes);
    if (other != base.end()) logs[one.bytes] = std::log(one.seconds / other->seconds);
  }
  return logs;
}

/// One logarithm of each pair, over the sizes that `only` takes.
template <class Only>
std::vector<double> logs_of(const Pairs& pairs, Only&& only) {
  std::vector<double> logs;
  for (const GainBySize& pair : pairs) {
    double sum = 0;
    int count = 0;
    for (const auto& [bytes, log] : pair) {
      if (!only(bytes)) continue;
      sum += log;
      ++count;
    }
    if (count > 0) logs.push_back(sum / count);
  }
  return logs;
}

bool every_size(std::uint64_t) {
  return true;
}

/// Each choice that is tried costs a run, and what is left of it a few more.
std::size_t most_choices(const Effort& effort) {
  return 4 * static_cast<std::size_t>(effort.pairs);
}

int halving_trials(std::size_t candidates, const Effort& effort) {
  if (candidates == 0) return 0;
  int trials = 0;
  for (; candidates > few; candidates = (candidates + 1) / 2) trials += static_cast<int>(candidates) + 1;
  return trials + effort.rounds * (static_cast<int>(candidates) + 1);
}

class Searcher {
 public:
  Searcher(const Space& space, const Effort& effort, std::uint64_t seed, const Measure& measure,
           const Watch& watch)
      : space_(space), effort_(effort), random_(seed), measure_(measure), watch_(watch) {
    const std::size_t comparisons =
        (space.variables.empty() ? 0 : most_compared) + (space.algorithms.empty() ? 0 : 1);
    certainty_ = 1 - wrong_searches / static_cast<double>(std::max<std::size_t>(1, 2 * comparisons));
  }

  Tuning run() {
    try {
      tune_variables();
      tune_algorithms();
      tuning_.complete = true;
    } catch (const Stopped& stopped) {
      tuning_.notes.push_back(stopped.why);
    }
    watch_(tuning_);
    return std::move(tuning_);
  }

 private:
  Outcome run(const Setting& setting) {
    std::optional<Outcome> outcome = measure_(setting);
    if (!outcome) throw Stopped{"the time was over before all was tried"};
    ++tuning_.trials;
    watch_(tuning_);
    return std::move(*outcome);
  }

  /// A run of what is kept so far. That has worked before, so a failure is a disturbance, until it repeats.
  std::vector<Timing> base() {
    for (int failures = 1;; ++failures) {
      Outcome outcome = run(tuning_.kept);
      if (outcome.problem.empty()) {
        base_works_ = true;
        return std::move(outcome.rows);
      }
      if (!base_works_)
        throw Error(ErrorKind::usage,
                    text("the command is no measurement without any change: ", outcome.problem),
                    "it has to be nccl-tests or weft-bench, and to end well by itself");
      if (failures == most_failures)
        throw Stopped{
            text("the search ends here, for what is kept does not run any more: ", outcome.problem)};
      tuning_.notes.push_back(text("a run of what is kept was repeated: ", outcome.problem));
    }
  }

  void note_dropped(const Setting& setting, const std::string& problem) {
    if (setting.ranges.empty()) failed_.push_back(setting.variables);
    tuning_.notes.push_back(text(setting.text(), " is dropped: ", problem));
  }

  /// With what a choice has that failed, others would fail, too.
  bool is_hopeless(const Choice& choice) const {
    return std::ranges::any_of(failed_, [&](const Choice& one) {
      return std::ranges::all_of(one, [&](const auto& variable) {
        const auto found = choice.find(variable.first);
        return found != choice.end() && found->second == variable.second;
      });
    });
  }

  /// Each candidate once, and what is kept once, in an order of chance. One that fails is none any more.
  void round(std::vector<Candidate*>& alive, Candidate& unchanged) {
    std::ranges::shuffle(alive, random_);
    const std::size_t place = random_() % (alive.size() + 1);
    std::vector<std::pair<Candidate*, std::vector<Timing>>> done;
    for (std::size_t i = 0; i <= alive.size(); ++i) {
      if (i == place) done.emplace_back(&unchanged, base());
      if (i == alive.size()) break;
      if (is_hopeless(alive[i]->setting.variables)) continue;
      Outcome outcome = run(alive[i]->setting);
      if (outcome.problem.empty())
        done.emplace_back(alive[i], std::move(outcome.rows));
      else
        note_dropped(alive[i]->setting, outcome.problem);
    }
    add_round(done);
    std::erase_if(alive, [&](const Candidate* one) {
      return std::ranges::none_of(done, [&](const auto& run) { return run.first == one; });
    });
  }

  /// @return those that are left, the best first
  std::vector<Candidate*> halve(std::vector<Candidate>& all, Candidate& unchanged) {
    std::vector<Candidate*> alive;
    for (Candidate& one : all) alive.push_back(&one);
    for (; alive.size() > few; alive.resize((alive.size() + 1) / 2)) {
      round(alive, unchanged);
      alive = by_worth(std::move(alive), unchanged);
    }
    for (int i = 0; i < effort_.rounds && !alive.empty(); ++i) round(alive, unchanged);
    alive = by_worth(std::move(alive), unchanged);
    return alive;
  }

  void tune_variables() {
    std::vector<Candidate> all;
    for (const Choice& choice : space_.choices(most_choices(effort_), random_()))
      all.push_back({.setting = {.variables = choice}});
    Candidate unchanged;
    std::vector<Candidate*> left = halve(all, unchanged);
    if (left.size() > most_compared) left.resize(most_compared);
    for (const Candidate* one : left) {
      if (gain_of(*one, unchanged) > -least_gain || !gains(one->setting, certainty_, one->setting.text()))
        continue;
      keep(one->setting);
      if (one->setting.variables.size() > 1) leave_out_idle(one->setting.variables);
      return;
    }
  }

  /// Each variable has to show a gain against what is kept without it.
  void leave_out_idle(const Choice& choice) {
    for (const auto& [name, value] : choice) {
      if (tuning_.kept.variables.size() == 1) return;
      const Setting whole = tuning_.kept;
      Setting without = whole;
      without.variables.erase(name);
      tuning_.kept = without;
      bool needed = false;
      try {
        needed = gains(whole, each_certainty, text(name, '=', value, " beside the others"));
      } catch (const Stopped&) {
        tuning_.kept = whole;  // it has been shown as a whole
        throw;
      }
      keep(needed ? whole : without);
    }
  }

  void tune_algorithms() {
    std::vector<Candidate> all;
    for (const std::string& algorithm : space_.algorithms) {
      Candidate& one = all.emplace_back(Candidate{.setting = tuning_.kept, .by_size = true});
      one.setting.ranges = {{0, algorithm}};
    }
    Candidate unchanged;
    std::map<std::string, GainBySize> gains;
    for (const Candidate* one : halve(all, unchanged))
      gains[one->setting.ranges.front().algorithm] = gains_of(*one, unchanged);
    std::vector<Range> ranges = fastest_ranges(gains, swing);
    if (ranges.size() > most_ranges) ranges = fastest_ranges(gains, 3 * swing);
    if (!ranges.empty()) compare_ranges(std::move(ranges));
  }

  /// Pairs of what is kept and the changed setting, in an order of chance; as many again where they have not decided. It ends early where no gain is in
  /// sight. @return none where the changed one failed
  template <class Only>
  std::optional<Pairs> compare(const Setting& changed, double certainty, Only&& only) {
    Pairs pairs;
    while (true) {
      const auto count = static_cast<int>(pairs.size());
      const std::vector<double> logs = logs_of(pairs, only);
      const bool looks_good = median_of(logs) < -least_gain;
      if (count >= pairs_before_futile && !looks_good) return pairs;
      if (count == effort_.pairs && interval_of(logs, certainty).greatest < 0) return pairs;
      if (count == 2 * effort_.pairs) return pairs;
      const bool base_first = (random_() & 1) == 0;
      std::vector<Timing> unchanged;
      if (base_first) unchanged = base();
      const Outcome outcome = run(changed);
      if (!outcome.problem.empty()) {
        note_dropped(changed, outcome.problem);
        return std::nullopt;
      }
      if (!base_first) unchanged = base();
      pairs.push_back(logs_by_size(outcome.rows, unchanged));
    }
  }

  bool judge(const std::vector<double>& logs, double certainty, std::string change) {
    const auto count = static_cast<int>(logs.size());
    const bool kept = count >= effort_.pairs && interval_of(logs, certainty).greatest < 0;
    tuning_.steps.push_back({std::move(change), interval_of(logs, each_certainty), count, kept});
    watch_(tuning_);
    return kept;
  }

  /// Whether the setting is faster than what is kept, over all sizes.
  bool gains(const Setting& changed, double certainty, const std::string& change) {
    const auto done = compare(changed, certainty, every_size);
    return done && judge(logs_of(*done, every_size), certainty, change);
  }

  void keep(const Setting& setting) {
    tuning_.kept = setting;
    watch_(tuning_);
  }

  /// First all of them together; then each range that gains is kept, and the others fall back.
  void compare_ranges(std::vector<Range> ranges) {
    Setting changed = tuning_.kept;
    changed.ranges = ranges;
    const auto is_changed = [&](std::uint64_t bytes) { return !algorithm_at(changed.ranges, bytes).empty(); };
    const auto done = compare(changed, certainty_, is_changed);
    if (!done || !judge(logs_of(*done, is_changed), certainty_, "algorithms by size")) return;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      if (ranges[i].algorithm.empty()) continue;
      const bool last = i + 1 == ranges.size();
      const std::uint64_t begin = ranges[i].from_bytes;
      const std::uint64_t end = last ? std::numeric_limits<std::uint64_t>::max() : ranges[i + 1].from_bytes;
      const auto inside = [&](std::uint64_t bytes) { return bytes >= begin && bytes < end; };
      const std::string until = last ? std::string() : text(" to ", end, " B");
      if (!judge(logs_of(*done, inside), each_certainty,
                 text(ranges[i].algorithm, " from ", begin, " B", until)))
        ranges[i].algorithm.clear();
    }
    changed.ranges = joined(ranges);
    keep(changed);
  }

  const Space& space_;
  const Effort& effort_;
  std::mt19937_64 random_;
  const Measure& measure_;
  const Watch& watch_;
  double certainty_ = 0;  // of each of two looks at each comparison
  bool base_works_ = false;
  std::vector<Choice> failed_;
  Tuning tuning_;
};

}  // namespace

int most_trials(const Space& space, const Effort& effort) {
  const std::size_t choices = space.choices(most_choices(effort), 0).size();
  const std::size_t compared = std::min(choices, most_compared + space.variables.size());
  return halving_trials(choices, effort) + halving_trials(space.algorithms.size(), effort) +
         4 * effort.pairs * static_cast<int>(compared + (space.algorithms.empty() ? 0 : 1));
}

Effort effort_for(const Space& space, int trials) {
  Effort chosen{2, 8};
  for (const Effort& larger : {Effort{2, 10}, Effort{3, 14}, Effort{4, 20}, Effort{6, 30}, Effort{8, 45}}) {
    if (most_trials(space, larger) <= trials) chosen = larger;
  }
  return chosen;
}

Tuning search(const Space& space, const Effort& effort, std::uint64_t seed, const Measure& measure,
              const Watch& watch) {
  return Searcher(space, effort, seed, measure, watch).run();
}

}  // namespace weft::report::tuning
