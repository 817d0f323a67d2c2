#include <iomanip>
#include <iostream>
#include <memory>
#include <sstream>

#include "common/command_line.hpp"
#include "common/progress.hpp"
#include "common/rank_outputs.hpp"
#include "common/usage_once.hpp"
#include "core/base/strings.hpp"
#include "deepspeed.hpp"
#include "earlier.hpp"
#include "measure.hpp"
#include "page.hpp"
#include "report.hpp"
#include "serving.hpp"
#include "strategy.hpp"
#include "weft-scaling/gpt/math/blas_advice.hpp"

namespace {

using namespace weft;

void check_ranks(const scaling::Options& options, const World& world) {
  if (!options.ranks || *options.ranks == world.size()) return;
  throw Error(ErrorKind::usage,
              text("--ranks ", *options.ranks, ", but the launcher (", name(world.launcher()), ") provides ",
                   world.size()),
              text("start it with mpirun -n ", *options.ranks, " or weft-launch -n ", *options.ranks));
}

/// What the ranks have in common with the program's end: rank 0 speaks and writes.
class Session {
 public:
  Session(const scaling::Options& options, const std::vector<std::string>& arguments,
          const Communicator& comm, tool::Outputs& outputs, tool::Progress& progress)
      : options_(options), arguments_(arguments), comm_(comm), outputs_(outputs), progress_(progress) {}

  bool speaks() const { return comm_.rank() == 0; }
  void say(const std::string& line) const {
    if (speaks()) progress_.aside([&] { outputs_.people() << line << std::flush; });
  }
  /// What --quiet leaves out.
  void remark(const std::string& line) const {
    if (!options_.quiet) say(line);
  }
  /// Trains, and keeps what there is for a signal. None where the training is over, or was told to end: `status` says which.
  std::optional<scaling::Results> measure(const examples::Text& source, const std::shared_ptr<Trace>& trace,
                                          int& status);
  tool::Contents files(const scaling::Results& results, std::optional<report::Comparison> comparison) const {
    return {{"--json", to_json(results)},
            {"--report",
             report::to_html(scaling::page_of(options_, arguments_, comm_, results, std::move(comparison)))}};
  }

 private:
  void say_loss(const std::string& strategy, std::int64_t step, double training, double held_out) const {
    std::ostringstream line;
    line << std::fixed << std::setprecision(3) << std::left << std::setw(8) << strategy << std::right
         << " step " << std::setw(5) << step << "/" << options_.steps << "   loss " << training
         << "   held out " << held_out << '\n';
    remark(std::move(line).str());
  }

  const scaling::Options& options_;
  const std::vector<std::string>& arguments_;
  const Communicator& comm_;
  tool::Outputs& outputs_;
  tool::Progress& progress_;
};

std::optional<scaling::Results> Session::measure(const examples::Text& source,
                                                 const std::shared_ptr<Trace>& trace, int& status) {
  const auto there = std::make_shared<scaling::Results>();
  there->setting = {options_.model, comm_.backend()};
  if (speaks()) {
    outputs_.keep([this, there] {
      if (!there->is_partial()) return tool::Kept();
      std::ostringstream table;
      if (options_.sweep.empty()) scaling::print_table(table, there->runs);
      return tool::Kept{there->how_far, "\n" + std::move(table).str(), files(*there, std::nullopt)};
    });
  }
  if (options_.sweep.empty()) {
    const scaling::Heard progress{[this](const auto&... losses) { say_loss(losses...); },
                                  [&](std::int64_t step, const std::vector<scaling::Run>& runs) {
                                    outputs_.change([&] {
                                      there->runs = runs;
                                      there->how_far = text(step, " of ", options_.steps, " steps");
                                    });
                                  },
                                  progress_};
    scaling::Measured measured = scaling::measure(comm_, options_, source, progress, trace);
    if (measured.told_to_end) {
      say(text("told to end: saved after step ", *measured.told_to_end, " of ", options_.steps,
               "; start it again to go on\n"));
      status = exit_code(ErrorKind::peer_lost);
      return std::nullopt;
    }
    if (measured.runs.empty()) {
      say(text("the checkpoint has all ", options_.steps, " steps: nothing is left to measure\n"));
      return std::nullopt;
    }
    outputs_.change([&] { there->runs = std::move(measured.runs); });
  } else {
    say(scaling::sweep_heading());
    scaling::sweep(comm_, options_, source, progress_, [&](const scaling::SweepRun& one) {
      say(scaling::sweep_row(one));
      outputs_.change([&] {
        there->swept.push_back(one);
        there->how_far = text(there->swept.size(), " of ", 2 * options_.sweep.size(), " rows");
      });
    });
  }
  scaling::Results all = *there;
  all.how_far.clear();
  return all;
}

/// All ranks refuse wrong input together, before any rank waits for another.
World world_of(scaling::Options& options, tool::Outputs& outputs, const Environment& environment,
               std::optional<report::EarlierRun>& earlier) {
  const auto check = [&](int ranks) {
    scaling::resolve_deepspeed(options, ranks);
    scaling::check_pipelines(options, ranks);
    scaling::check_sweep(options, ranks);
  };
  const std::optional<int> launched = tool::launched_ranks();
  tool::alike_on_ranks([&] {
    if (launched) check(*launched);
  });
  const World world = World::from_environment({}, environment);
  tool::alike_on_ranks([&] {
    check_ranks(options, world);
    if (launched != world.size()) check(world.size());
  });
  tool::on_rank_0(world, [&] {
    if (options.compare) earlier = scaling::read_earlier(*options.compare);
  });
  tool::open_on_rank_0(outputs, world,
                       {{"--json", options.json}, {"--report", options.report}, {"--trace", options.trace}});
  return world;
}

int run(const std::vector<std::string>& arguments) {
  scaling::Options options = tool::alike_on_ranks([&] { return scaling::parse(arguments); });
  if (options.help) {
    std::cout << scaling::help();
    return 0;
  }
  scaling::read_deepspeed(options);
  if (options.explain) {
    const std::string table =
        tool::alike_on_ranks([&] { return scaling::explain_deepspeed(options, tool::launched_ranks()); });
    if (tool::is_first_rank()) std::cout << table;
    return 0;
  }
  tool::Outputs outputs("weft-scaling");
  tool::Progress progress("weft-scaling", tool::Quiet(options.quiet || !tool::is_first_rank()));
  progress.prepare("reading " + options.text);
  const examples::Text source =
      examples::Text::read(options.text, examples::model_spec(options.model).sequence_bytes());
  Environment environment = Environment::of_process();
  if (options.device) environment = environment.with(env::device, *options.device);
  FlightRecorder::dump_on_sigusr2();
  std::optional<report::EarlierRun> earlier;
  progress.prepare(tool::connecting_ranks());
  const World world = world_of(options, outputs, environment, earlier);
  const scaling::NcclLog nccl_log(world, environment, options.require);
  const auto trace = options.trace ? std::make_shared<Trace>(world.rank()) : nullptr;
  const Communicator comm = connect(world, {.trace = trace});
  tool::on_rank_0(world, [&] {
    if (earlier) scaling::check_comparable(*earlier, options, comm);
  });
  const std::unique_ptr<scaling::Served> served = scaling::serve_metrics(comm, options);
  Session session(options, arguments, comm, outputs, progress);
  if (served) session.say(text("rank 0 serves metrics on ", served->address(), "\n"));

  const std::string advice = comm.device().is_host() ? examples::blas_advice() : "";
  if (session.speaks() && !advice.empty())
    progress.aside(
        [&] { std::cerr << text("weft-scaling: ", weft::detail::printable(advice), "\n") << std::flush; });
  for (const std::string& notice : options.deepspeed_notices) {
    if (session.speaks())
      progress.aside(
          [&] { std::cerr << text("weft-scaling: ", weft::detail::printable(notice), "\n") << std::flush; });
  }
  session.remark(text("weft-scaling: ", options.model, " on ", comm.size(), " rank(s), ", comm.backend(),
                      ", text ", options.text, "\n"));
  int ended = 0;
  std::optional<scaling::Results> measured = session.measure(source, trace, ended);
  progress.end();
  if (!measured) return ended;
  scaling::Results& results = *measured;
  if (options.sweep.empty()) {
    std::ostringstream table;
    scaling::print_table(table, results.runs);
    session.say("\n" + std::move(table).str());
  }
  for (const scaling::Run& run : results.runs) session.say(scaling::parts_text(run));
  for (const scaling::Run& run : results.runs) session.say(scaling::choice_text(run));
  std::optional<report::Comparison> comparison;
  if (earlier) {
    comparison = scaling::compare(*earlier, results.setting, results.runs);
    session.say(text("\n", report::to_text(*comparison)));
  }
  results.connections = scaling::connections(comm, nccl_log);
  tool::Contents contents = session.files(results, std::move(comparison));
  if (trace) contents["--trace"] = merged_trace(*trace, comm);
  const std::string lacks = scaling::shortfall(options.require, results.connections);
  const int status = lacks.empty() ? 0 : 1;
  if (!session.speaks()) return status;
  if (!results.connections.empty()) session.say("\ntransport\n" + scaling::to_text(results.connections));
  outputs.write(contents);
  if (status != 0)
    std::cerr << "weft-scaling: not what --require asks for: " << weft::detail::printable(lacks) << '\n';
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::tool::run_program("weft-scaling", argc, argv, weft::tool::on_ranks(run));
}
