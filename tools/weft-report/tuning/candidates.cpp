#include "weft-report/tuning/candidates.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "weft-report/tuning/interval.hpp"

namespace weft::report::tuning {
namespace {

constexpr double cost_of_change = 0.002;  // of each variable

/// The median; of an even number the lower one, for what disturbs a run makes it slower.
double likely(std::vector<double> logs) {
  const auto middle = logs.begin() + static_cast<std::ptrdiff_t>((logs.size() - 1) / 2);
  std::ranges::nth_element(logs, middle);
  return *middle;
}

GainBySize middles_of(const std::vector<GainBySize>& rounds) {
  std::map<std::uint64_t, std::vector<double>> all;
  for (const GainBySize& round : rounds) {
    for (const auto& [bytes, log] : round) all[bytes].push_back(log);
  }
  GainBySize middles;
  for (auto& [bytes, logs] : all) middles[bytes] = likely(std::move(logs));
  return middles;
}

/// What an algorithm adds to those whose gains are `reached`.
double addition(const GainBySize& gains, const GainBySize& reached) {
  double sum = 0;
  for (const auto& [bytes, gain] : gains) {
    const auto before = reached.find(bytes);
    sum += std::min(0.0, gain - (before == reached.end() ? 0.0 : before->second));
  }
  return sum;
}

}  // namespace

void add_round(const std::vector<std::pair<Candidate*, std::vector<Timing>>>& runs) {
  for (const auto& [candidate, rows] : runs) {
    GainBySize& round = candidate->rounds.emplace_back();
    for (const Timing& row : rows) round[row.bytes] = std::log(row.seconds);
  }
}

void centre(const std::vector<Candidate*>& all) {
  for (std::size_t round = 0; !all.empty() && round < all.front()->rounds.size(); ++round) {
    std::map<std::uint64_t, std::vector<double>> logs;
    for (const Candidate* one : all) {
      for (const auto& [bytes, log] : one->rounds[round]) logs[bytes].push_back(log);
    }
    for (Candidate* one : all) {
      for (auto& [bytes, log] : one->rounds[round]) log -= median_of(logs[bytes]);
    }
  }
}

GainBySize gains_of(const Candidate& candidate, const Candidate& unchanged) {
  GainBySize gains = middles_of(candidate.rounds);
  const GainBySize base = middles_of(unchanged.rounds);
  for (auto& [bytes, gain] : gains) {
    const auto other = base.find(bytes);
    if (other != base.end()) gain -= other->second;
  }
  return gains;
}

double gain_of(const Candidate& candidate, const Candidate& unchanged) {
  const GainBySize gains = gains_of(candidate, unchanged);
  double sum = 0;
  for (const auto& [bytes, gain] : gains) sum += gain;
  return gains.empty() ? 0 : sum / static_cast<double>(gains.size());
}

std::vector<Candidate*> by_worth(std::vector<Candidate*> alive, Candidate& unchanged) {
  std::vector<Candidate*> all = alive;
  all.push_back(&unchanged);
  centre(all);
  std::vector<Candidate*> sorted;
  GainBySize reached;
  while (!alive.empty()) {
    std::vector<double> worth;
    for (const Candidate* one : alive)
      worth.push_back(one->by_size ? addition(gains_of(*one, unchanged), reached)
                                   : gain_of(*one, unchanged) +
                                         cost_of_change * static_cast<double>(one->setting.variables.size()));
    const auto best = alive.begin() + (std::ranges::min_element(worth) - worth.begin());
    if ((*best)->by_size) {
      for (const auto& [bytes, gain] : gains_of(**best, unchanged))
        reached[bytes] = std::min(reached[bytes], gain);
    }
    sorted.push_back(*best);
    alive.erase(best);
  }
  return sorted;
}

}  // namespace weft::report::tuning
