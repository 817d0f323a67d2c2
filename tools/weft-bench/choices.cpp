#include "choices.hpp"

#include <iostream>

#include "common/command_line.hpp"
#include "tune.hpp"
#include "weft/core/error.hpp"

namespace weft::bench {
namespace {

/// Whoever would be chosen, and each algorithm on a communicator that knows no other.
std::vector<std::unique_ptr<Contestant>> contestants(const Options& options, const World& world,
                                                     const Communicator& comm) {
  const std::size_t largest = options.largest_bytes(comm.size());
  std::vector<std::unique_ptr<Contestant>> result;
  result.push_back(make_weft(comm, largest, options.out_of_place, options.arena));
  for (std::size_t i = 0; i < algorithm_names.size(); ++i) {
    const auto algorithm = static_cast<Algorithm>(i);
    AlgorithmTable only;
    for (const Op op : options.ops) {
      const auto kind = collective_of(op);
      if (kind && carries_out(algorithm, *kind)) only.add({ReductionOrder::any, *kind, 0, 0, algorithm});
    }
    if (only.rows().empty()) continue;
    const Communicator forced = connect(world, {.order = ReductionOrder::any, .algorithms = only});
    result.push_back(make_algorithm(forced, algorithm, largest, options.out_of_place, options.arena));
  }
  return result;
}

}  // namespace

void explain(const Options& options, const Communicator& comm, std::ostream& out) {
  for (const Case& like : options.tables(comm.rank(), comm.size())) {
    for (const Case& which : cases(options.sizes, like)) {
      const auto kind = collective_of(which.op);
      if (comm.rank() != 0) continue;
      out << name(which.op) << ' ' << which.bytes() << " B " << which.dtype;
      if (reduces(which.op)) out << ' ' << which.redop;
      out << ": " << (kind ? comm.explain(*kind, which.dtype, which.count, which.redop) : "messages") << '\n';
    }
  }
}

std::int64_t tune(const Options& options, const World& world, Communicator& comm, std::ostream& out) {
  if (comm.topology().nodes() != comm.size() || comm.size() == 1) {
    throw Error(ErrorKind::usage,
                text("--tune with ", comm.size(), " ranks on ", comm.topology().nodes(),
                     " nodes: there is a choice between nodes only"),
                "start one rank on each of several nodes (mpirun --map-by ppr:1:node); its table serves any "
                "number of ranks a node");
  }
  const auto all = contestants(options, world, comm);
  std::vector<Result> results;
  std::int64_t wrong = 0;
  for (const Case& like : options.tables(comm.rank(), comm.size())) {
    if (!collective_of(like.op)) continue;
    for (Case which : cases(options.sizes, like)) {
      which.in_place = exists(which.op, true);
      results.push_back(measure(comm, which, all, options.effort));
      wrong += results.back().wrong;
      if (comm.rank() == 0) print_tuned(out, results.back());
    }
  }
  if (comm.rank() == 0) {
    tool::write(*options.tune, text("# weft-bench --tune on ", comm.size(), " nodes, ", comm.backend(), '\n',
                                    tuned(results).text()));
  }
  return wrong;
}

}  // namespace weft::bench
