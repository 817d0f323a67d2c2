#include <iomanip>
#include <iostream>

#include "common/command_line.hpp"
#include "earlier.hpp"
#include "gpt/math/blas_advice.hpp"
#include "measure.hpp"
#include "page.hpp"
#include "report.hpp"
#include "strategy.hpp"

namespace {

using namespace weft;

/// Collective: all ranks refuse wrong input together, before any rank waits for another.
void check_ranks(const scaling::Options& options, const World& world) {
  if (!options.ranks || *options.ranks == world.size()) return;
  throw Error(ErrorKind::usage,
              text("--ranks ", *options.ranks, ", but the launcher (", name(world.launcher()), ") provides ",
                   world.size()),
              text("start it with mpirun -n ", *options.ranks, " or weft-launch -n ", *options.ranks));
}

using Say = std::function<void(const std::string&)>;

auto loss_curve(const scaling::Options& options, const Say& say) {
  return [&options, say](const std::string& strategy, std::int64_t step, double training, double held_out) {
    std::ostringstream line;
    line << std::fixed << std::setprecision(3) << std::left << std::setw(8) << strategy << std::right
         << " step " << std::setw(5) << step << "/" << options.steps << "   loss " << training
         << "   held out " << held_out << '\n';
    say(std::move(line).str());
  };
}

int run(const std::vector<std::string>& arguments) {
  const scaling::Options options = scaling::parse(arguments);
  if (options.help) {
    std::cout << scaling::help();
    return 0;
  }
  // All ranks refuse wrong input together, before any rank waits for another.
  const examples::Text source =
      examples::Text::read(options.text, examples::model_spec(options.model).sequence_bytes());
  std::optional<report::EarlierRun> earlier;
  if (options.compare) earlier = scaling::read_earlier(*options.compare);
  Environment environment = Environment::of_process();
  if (options.device) environment = environment.with(env::device, *options.device);
  FlightRecorder::dump_on_sigusr2();
  const World world = World::from_environment({}, environment);
  check_ranks(options, world);
  scaling::check_pipelines(options, world.size());
  scaling::check_sweep(options, world.size());
  const bool speaks = world.rank() == 0;
  const scaling::NcclLog nccl_log(world, environment, options.require);
  const auto trace = options.trace ? std::make_shared<Trace>(world.rank()) : nullptr;
  const Communicator comm = connect(world, {.trace = trace});
  if (earlier) scaling::check_comparable(*earlier, options, comm);
  if (options.report) scaling::check_writable(*options.report, comm);

  const std::string advice = comm.device().is_host() ? examples::blas_advice() : "";
  if (speaks && !advice.empty()) std::cerr << text("weft-scaling: ", advice, "\n") << std::flush;
  // With the figures on standard output, the rest goes to standard error.
  std::ostream& people = options.json == "-" ? std::cerr : std::cout;
  if (speaks) {
    people << text("weft-scaling: ", options.model, " on ", comm.size(), " rank(s), ", comm.backend(),
                   ", text ", options.text, "\n")
           << std::flush;
  }
  const auto say = [&](const std::string& line) {
    if (speaks) people << line << std::flush;
  };
  std::vector<scaling::Run> runs;
  std::vector<scaling::SweepRun> swept;
  if (options.sweep.empty()) {
    runs = scaling::measure(comm, options, source, {loss_curve(options, say)}, trace);
    if (speaks) people << '\n';
    if (speaks) scaling::print_table(people, runs);
    for (const scaling::Run& run : runs) say(scaling::parts_text(run));
    for (const scaling::Run& run : runs) say(scaling::choice_text(run));
  } else {
    say(scaling::sweep_heading());
    swept = scaling::sweep(comm, options, source, [&](const auto& one) { say(scaling::sweep_row(one)); });
  }
  const scaling::Setting setting{options.model, comm.backend()};
  std::optional<report::Comparison> comparison;
  if (earlier && speaks) {
    comparison = scaling::compare(*earlier, setting, runs);
    say(text("\n", report::to_text(*comparison)));
  }
  const std::vector<scaling::Connection> connections = scaling::connections(comm, nccl_log);
  if (trace) write_trace(*trace, comm, *options.trace);
  const std::string lacks = scaling::shortfall(options.require, connections);
  const int status = lacks.empty() ? 0 : 1;
  if (!speaks) return status;
  if (!connections.empty()) say("\ntransport\n" + scaling::to_text(connections));
  if (options.json) {
    tool::write(*options.json, options.sweep.empty() ? scaling::to_json(setting, runs, connections)
                                                     : scaling::to_json(setting, swept, connections));
  }
  if (options.report) {
    tool::write(*options.report, report::to_html(scaling::page_of(options, arguments, comm, runs, swept,
                                                                  connections, std::move(comparison))));
  }
  if (status != 0) std::cerr << "weft-scaling: not what --require asks for: " << lacks << '\n';
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::tool::run_program("weft-scaling", argc, argv, run);
}
