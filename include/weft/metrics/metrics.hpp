#pragma once
// Serves what this rank has counted (weft/collectives/meter.hpp) to Prometheus: over HTTP, and as a file for
// node_exporter's textfile collector.
//
// One line makes any trainer serve. Rank R of a node listens on `port` + R, on loopback unless `bind` says
// otherwise; with `textfile` it writes weft-rank-R.prom into that folder, R being its rank in the job. Every
// sample has the label rank. docs/metrics.md lists the figures, alerts for them, and what to do then.
//
//   auto comm = weft::connect(world);
//   weft::Metrics metrics{comm, {.port = 9400}};
//   ... train                                     // and: curl http://127.0.0.1:9400/metrics
//
//   find_package(weft REQUIRED COMPONENTS metrics)
//   target_link_libraries(trainer PRIVATE weft::metrics)
//
// Construction is collective, and comes before reducers take their first step. Where one rank cannot serve,
// all ranks throw the same Error, which names rank and port. Reading happens in threads of its own, when a
// scraper asks; a training step never waits for a scraper, whatever that does. Signals of the process are
// blocked in these threads.
//
// The destructor stops serving and removes the file. It does not need the communicator, which
// may be broken or gone.
//
// WRONG: Metrics for a communicator that was split, on ranks of one node that are in different parts: two
// ranks then take the same port. Serve the communicator of all ranks; it has the figures of all its parts.
// WRONG: {.bind = "0.0.0.0"} on a machine that strangers reach: all who connect can read the figures.

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "weft/collectives/communicator.hpp"

namespace weft {

struct MetricsOptions {
  /// The first rank of a node has it; the others add their number on the node. nullopt: nothing is served.
  std::optional<int> port{};
  /// A numeric address of this machine, 0.0.0.0 or :: for all of them, without a port.
  std::string bind = "127.0.0.1";
  /// A folder that is there; empty: no file is written.
  std::string textfile{};
  /// How often the file is written.
  std::chrono::milliseconds textfile_every = std::chrono::seconds(15);
  /// Meter::account_every, the same on all ranks: a reducer's step in so many compares times over all ranks.
  int account_every = 64;
};

class Metrics {
 public:
  /// Collective.
  /// @throws Error (usage) on all ranks: a port or an address that cannot be had, a folder that cannot be
  /// written; (mismatch) for different account_every
  Metrics(const Communicator& comm, const MetricsOptions& options);
  ~Metrics();
  Metrics(Metrics&&) noexcept;

  /// "http://127.0.0.1:9401/metrics"; empty without a port.
  const std::string& address() const;
  /// What a scraper gets of this rank's meter, in Prometheus' text format.
  std::string text() const;
  /// Meter::step.
  void step(double seconds) const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
