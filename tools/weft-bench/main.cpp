#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>

#include "common/command_line.hpp"
#include "common/progress.hpp"
#include "common/rank_outputs.hpp"
#include "common/usage_once.hpp"
#include "report.hpp"
#include "tune.hpp"
#include "weft/core/error.hpp"
#include "weft/interop/mpi.hpp"

namespace weft::bench {
namespace {

/// The algorithm that weft would choose, and each algorithm on a communicator that has no other.
std::vector<std::unique_ptr<Contestant>> contestants(const Options& options, const World& world,
                                                     const Communicator& comm) {
  const std::size_t largest = options.largest_bytes(comm.size());
  std::vector<std::unique_ptr<Contestant>> result;
  result.push_back(make_weft(comm, largest, options.out_of_place, options.arena));
  for (std::size_t i = 0; i < algorithm_names.size(); ++i) {
    const auto algorithm = static_cast<Algorithm>(i);
    if (algorithm == Algorithm::mpi && comm.backend().find("MPI") == std::string::npos)
      continue;  // nothing that MPI could carry
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

/// --explain: prints on rank 0, for every row that would be measured, which algorithm is taken.
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

/// How long rows take, as multiples of an empty one's 0.1 ms a sample: from 256 KiB on it is the bytes that take the time.
std::vector<double> row_weights(const Sizes& sizes, const std::vector<Case>& tables) {
  std::vector<double> weights;
  for (const Case& like : tables) {
    for (const Case& which : cases(sizes, like))
      weights.push_back(1 + static_cast<double>(which.bytes()) / (256 << 10));
  }
  return weights;
}

/// --tune: measures every algorithm, each on a communicator of its own, and writes the table. Collective.
/// @returns the number of wrong elements. @throws Error (usage) if a node has several ranks: the exchange
/// between nodes is a different one there
std::int64_t tune(const Options& options, const World& world, Communicator& comm, tool::Outputs& outputs,
                  tool::Progress& progress) {
  if (comm.topology().nodes() != comm.size() || comm.size() == 1) {
    throw tool::AlikeError(
        Error(ErrorKind::usage,
              text("--tune with ", comm.size(), " ranks on ", comm.topology().nodes(),
                   " nodes: there is a choice between nodes only"),
              "start one rank on each of several nodes (mpirun --map-by ppr:1:node); its table serves any "
              "number of ranks a node"));
  }
  const auto all = contestants(options, world, comm);
  std::vector<Result> results;
  std::int64_t wrong = 0;
  const std::vector<Case> tables = options.tables(comm.rank(), comm.size());
  progress.begin("rows", row_weights(options.sizes, tables));
  for (const Case& like : tables) {
    if (!collective_of(like.op)) continue;
    for (Case which : cases(options.sizes, like)) {
      which.in_place = exists(which.op, true);
      results.push_back(measure(comm, which, all, options.effort));
      wrong += results.back().wrong;
      progress.advance();
      if (comm.rank() == 0 && !options.quiet)
        progress.aside([&] { print_tuned(outputs.people(), results.back()); });
    }
  }
  progress.end();
  outputs.write({{"--tune", text("# weft-bench --tune on ", comm.size(), " nodes, ", comm.backend(), "\n# ",
                                 options.dtypes.front(), ", ", name(options.redops.front()), ", root ",
                                 options.root, "; ", options.effort.iterations, " samples after ",
                                 options.effort.warmup, " operations; ",
                                 options.arena ? "arena" : "private memory", '\n', tuned(results).text())}});
  return wrong;
}

}  // namespace
}  // namespace weft::bench

namespace {

using namespace weft;

/// Initializes MPI with MPI_THREAD_SINGLE, so that the peer takes no locks that only weft would need.
class PeersMpi {
 public:
  explicit PeersMpi(bool wanted) {
#if WEFT_HAS_MPI
    if (!wanted) return;
    MPI_Init(nullptr, nullptr);
    ours_ = true;
#else
    if (wanted) (void)bench::make_mpi(0, false);  // throws an Error that says why
#endif
  }
  ~PeersMpi() {
#if WEFT_HAS_MPI
    if (ours_ && std::uncaught_exceptions() == 0) MPI_Finalize();
#endif
  }
  PeersMpi(const PeersMpi&) = delete;
  PeersMpi& operator=(const PeersMpi&) = delete;

 private:
  bool ours_ = false;
};

void check(const bench::Options& options, const World& world) {
  if (options.root < 0 || options.root >= world.size()) {
    throw Error(ErrorKind::usage,
                text("--root ", options.root, " is not a rank from 0 to ", world.size() - 1));
  }
  if (options.compares_with("mpi") && world.launcher() != Launcher::mpi && world.size() > 1) {
    throw Error(ErrorKind::usage,
                text("--against mpi, but the ranks were started by ", name(world.launcher())),
                "start them with mpirun");
  }
}

std::vector<std::string> places(const World& world) {
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  char line[512];
  std::snprintf(line, sizeof(line), "#  Rank %2d Group %2d Pid %6d on %10s device %2d [%s] %s", world.rank(),
                0, static_cast<int>(getpid()), host, 0, "host", "CPU");
  return world.rendezvous()->all_gather(line, "weft-bench", Deadline::in(world.connect_timeout()));
}

std::vector<std::uint64_t> network_bytes(const Communicator& comm, const World& world) {
  const auto deadline = Deadline::in(world.timeout());
  std::vector<std::uint64_t> result;
  for (const std::string& note :
       world.rendezvous()->all_gather(text(comm.network_bytes()), "weft-bench ends", deadline))
    result.push_back(std::stoull(note));
  return result;
}

/// All rows of one collective, type and operation.
class Table {
 public:
  Table(const bench::Options& options, Communicator& comm,
        const std::vector<std::unique_ptr<bench::Contestant>>& contestants, bench::Report& report,
        tool::Outputs& outputs, tool::Progress& progress)
      : options_(options),
        comm_(comm),
        contestants_(contestants),
        report_(report),
        outputs_(outputs),
        progress_(progress) {
    if (!speaks()) return;
    outputs.keep([rows = rows_, &options] {
      return tool::Kept{
          .how_far = rows->empty() ? "" : text(rows->size(), rows->size() == 1 ? " row" : " rows"),
          .files = {{"--json", bench::to_json(options, *rows, {}, tool::Partial::yes)}}};
    });
  }

  void measure(const bench::Case& like) {
    if (speaks()) progress_.aside([&] { report_.heading(like); });
    for (const bench::Case& which : bench::cases(options_.sizes, like)) {
      bench::Row row{which, one(which, false), one(which, true)};
      progress_.advance();
      if (speaks()) progress_.aside([&] { report_.row(row); });
      outputs_.change([&] { rows_->push_back(std::move(row)); });
    }
  }
  bool speaks() const { return comm_.rank() == 0; }
  const std::vector<bench::Row>& rows() const { return *rows_; }

 private:
  std::optional<bench::Result> one(bench::Case which, bool in_place) {
    which.in_place = in_place;
    const bool only = !bench::exists(which.op, !in_place);
    const bool wanted = only || in_place || options_.out_of_place;
    if (!wanted || !bench::exists(which.op, in_place)) return std::nullopt;
    return bench::measure(comm_, which, contestants_, options_.effort);
  }

  const bench::Options& options_;
  Communicator& comm_;
  const std::vector<std::unique_ptr<bench::Contestant>>& contestants_;
  bench::Report& report_;
  tool::Outputs& outputs_;
  tool::Progress& progress_;
  std::shared_ptr<std::vector<bench::Row>> rows_ = std::make_shared<std::vector<bench::Row>>();
};

struct Verdict {
  std::int64_t wrong = 0;
  double bus_bandwidth = 0;  ///< mean
  std::vector<std::string> slower;
};

Verdict judge(const bench::Options& options, const std::vector<bench::Row>& rows) {
  Verdict verdict;
  int count = 0;
  for (const bench::Row& row : rows) {
    for (const auto& result : {row.out_of_place, row.in_place}) {
      if (!result) continue;
      ++count;
      verdict.wrong += result->wrong;
      verdict.bus_bandwidth += result->bus_bandwidth();
      for (const bench::Against& one : result->against) {
        if (!options.expect || one.ratio >= *options.expect) continue;
        verdict.slower.push_back(text(name(row.which.op), " of ", row.which.bytes(), " bytes ",
                                      result->which.in_place ? "in place" : "out of place", ": ", one.ratio,
                                      " times ", one.name, ", where --expect asks for ", *options.expect));
      }
    }
  }
  verdict.bus_bandwidth /= std::max(1, count);
  return verdict;
}

std::vector<std::unique_ptr<bench::Contestant>> contestants(const bench::Options& options, const World& world,
                                                            const Communicator& comm) {
  const std::size_t largest = options.largest_bytes(comm.size());
  const bool out_of_place = options.out_of_place || !bench::exists(options.ops.back(), true);
  std::vector<std::unique_ptr<bench::Contestant>> result;
  result.push_back(bench::make_weft(comm, largest, out_of_place, options.arena));
  for (const std::string& name : options.against) {
    result.push_back(name == "mpi" ? bench::make_mpi(largest, out_of_place)
                                   : bench::make_bound(comm, world, largest, out_of_place));
  }
  return result;
}

int run(const std::vector<std::string>& arguments) {
  const bench::Options options = tool::alike_on_ranks([&] { return bench::parse(arguments); });
  if (options.help) {
    std::cout << bench::help();
    return 0;
  }
  const PeersMpi mpi(options.compares_with("mpi"));
  tool::Outputs outputs("weft-bench");
  tool::Progress progress("weft-bench",
                          tool::Quiet(options.quiet || options.explain || !tool::is_first_rank()));
  progress.prepare(tool::connecting_ranks());
  const World world = World::from_environment();
  tool::alike_on_ranks([&] { check(options, world); });
  tool::alike_on_ranks([&] {
    tool::open_on_rank_0(outputs, world, {{"--json", options.json}, {"--tune", options.tune}});
  });
  Communicator comm = connect(world);
  std::ostream& people = outputs.people();
  if (options.explain) {
    bench::explain(options, comm, people);
    return 0;
  }
  if (options.tune) return bench::tune(options, world, comm, outputs, progress) == 0 ? 0 : 1;
  bench::Report report(people, options, comm.backend(), places(world));
  if (world.rank() == 0) progress.aside([&] { report.begin(); });
  progress.prepare("buffers");
  const auto all = contestants(options, world, comm);
  Table table(options, comm, all, report, outputs, progress);
  const std::vector<bench::Case> tables = options.tables(comm.rank(), comm.size());
  progress.begin("rows", bench::row_weights(options.sizes, tables));
  for (const bench::Case& like : tables) table.measure(like);
  progress.end();
  const std::vector<std::uint64_t> sent = network_bytes(comm, world);
  const Verdict verdict = judge(options, table.rows());
  if (world.rank() == 0) {
    report.end(verdict.wrong, verdict.bus_bandwidth);
    outputs.write({{"--json", bench::to_json(options, table.rows(), sent)}});
    for (const std::string& line : verdict.slower) std::cerr << "weft-bench: " << line << '\n';
  }
  return verdict.wrong == 0 && verdict.slower.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::tool::run_program("weft-bench", argc, argv, weft::tool::on_ranks(run));
}
