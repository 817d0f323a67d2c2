#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include "commands.hpp"
#include "common/outputs.hpp"
#include "common/progress.hpp"
#include "common/temporary_folder.hpp"
#include "print.hpp"
#include "trial_run.hpp"
#include "tune_options.hpp"
#include "tune_print.hpp"
#include "weft-report/nccl/nccl.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

using Clock = std::chrono::steady_clock;
using tuning::Library;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Set in this environment, or in the command: mpirun -x NAME=VALUE, env NAME=VALUE.
std::optional<std::string> already_set(const tuning::Command& command, const std::string& name) {
  for (const std::string& word : command.words) {
    if (word.starts_with(name + "=")) return word.substr(name.size() + 1);
  }
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

/// The name of the option that Outputs knows a file of --output by.
std::string option_of(const std::string& file) {
  return "--output (" + file + ")";
}

/// Everything that is written at the end, or when a signal ends the program.
tool::Contents contents_of(const TuneState& state, tool::Partial partial) {
  tool::Contents contents{{"--json", tuning_json(state, partial)}};
  for (const tuning::SettingFile& file : files_of(state.tuning.kept, state.facts, state.places))
    contents[option_of(file.name)] = file.content;
  return contents;
}

/// Runs the command, and knows how much time is left.
class Bench {
 public:
  Bench(const TuneOptions& options, const tuning::Command& command, std::string table)
      : options_(options),
        command_(command),
        tried_(std::move(table)),
        limit_(options.deadline.value_or(options.minutes * 60)) {}
  ~Bench() {
    std::error_code ignored;
    std::filesystem::remove(tried_, ignored);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  /// The command as it is. @throws Error (usage) if that is no measurement
  tuning::BenchRun first() {
    const Clock::time_point begin = Clock::now();
    TrialRun run = run_trial(command_.words, {}, std::chrono::duration<double>(limit_));
    longest_ = seconds_since(begin);
    tuning::BenchRun rows = tuning::BenchRun::parse(run.output);
    const std::string& problem = run.problem.empty() ? rows.problem : run.problem;
    if (!problem.empty())
      throw Error(ErrorKind::usage, text("the command is no measurement: ", problem),
                  "it has to be nccl-tests or weft-bench, print their table to standard output, and end well "
                  "by itself");
    if (!options_.deadline) limit_ = std::min(limit_, 30 + 10 * longest_);
    return rows;
  }

  /// @return none where the time does not reach for another run
  std::optional<tuning::Outcome> measure(const tuning::Setting& setting, const tuning::Facts& facts) {
    if (left() < longest_) return std::nullopt;
    if (!setting.ranges.empty()) {
      std::ofstream file(tried_);
      if (!(file << table_of(setting, facts) << std::flush))
        throw Error(ErrorKind::system, text("cannot write ", tried_));
    }
    const tuning::Environment variables =
        environment_of(setting, facts, {.table = tried_, .tuner = options_.tuner.value_or("weft")});
    const TrialRun run =
        run_trial(command_.with(variables), variables, std::chrono::duration<double>(limit_));
    if (!run.problem.empty()) return tuning::Outcome{.rows = {}, .problem = run.problem};
    tuning::BenchRun rows = tuning::BenchRun::parse(run.output);
    return tuning::Outcome{std::move(rows.rows), std::move(rows.problem)};
  }

  double seconds() const { return seconds_since(begin_); }
  double left() const { return options_.minutes * 60 - seconds(); }
  double seconds_of_run() const { return longest_; }
  int trials_left() const {
    return static_cast<int>(std::min(1e6, std::max(0.0, left()) / std::max(0.01, longest_)));
  }

 private:
  const TuneOptions& options_;
  const tuning::Command& command_;
  const std::string tried_;
  const Clock::time_point begin_ = Clock::now();
  double limit_;
  double longest_ = 0;
};

/// What the first run and the logs say.
tuning::Facts facts_of(const TuneOptions& options, const tuning::Command& command,
                       const tuning::BenchRun& first, std::vector<std::string>& notes) {
  tuning::Facts facts{.library = command.library,
                      .collective = command.collective,
                      .ranks = first.ranks,
                      .nodes = first.hosts};
  facts.network = first.backend;
  facts.any_order = already_set(command, "WEFT_ORDER") == "any";
  facts.under_mpi = command.under_mpi;
  if (options.logs.empty()) return facts;
  nccl::JobLog log;
  for (const std::string& line : log.read(options.logs)) notes.push_back(line);
  for (const nccl::Process& process : log.job().processes) {
    if (process.network) facts.network = process.network.value;
    if (process.nodes > 0) facts.nodes = static_cast<int>(process.nodes);
  }
  for (const Finding& finding : nccl::examine(log.job())) {
    if (finding.severity == Severity::critical)
      notes.push_back(text("the log shows something worse than a setting: ", finding.verdict,
                           " (weft-report nccl says more)"));
  }
  return facts;
}

tuning::Space space_of(const TuneOptions& options, const tuning::Command& command, const tuning::Facts& facts,
                       std::vector<std::string>& notes) {
  const auto taken = [&](const std::string& name) {
    if (!already_set(command, name)) return false;
    notes.push_back(text(name, " is set already, and is left alone"));
    return true;
  };
  tuning::Space space = facts.library == Library::weft ? weft_space(facts, taken) : nccl_space(facts, taken);
  // Ranks that do not see the table would choose otherwise than the others, and wait for ever.
  if (facts.library == Library::nccl && facts.nodes > 1 && !options.output && !space.algorithms.empty()) {
    space.algorithms.clear();
    notes.emplace_back(
        "algorithms are not tried: the nodes need --output DIR, a folder that all of them see");
  }
  return space;
}

/// Options that the command leaves nothing to do.
void check_effects(const TuneOptions& options, Library library) {
  if (library == Library::nccl) return;
  if (!options.logs.empty())
    throw Error(ErrorKind::usage, "--log has no effect: weft-bench runs no NCCL", "leave it out");
  if (options.tuner)
    throw Error(ErrorKind::usage, "--tuner has no effect: weft-bench runs no NCCL", "leave it out");
}

void open_outputs(const TuneOptions& options, Library library, tool::Outputs& outputs) {
  outputs.open("--json", options.json);
  if (!options.output) return;
  std::error_code failed;
  std::filesystem::create_directories(*options.output, failed);
  if (failed || !std::filesystem::is_directory(*options.output, failed))
    throw Error(ErrorKind::usage,
                text("--output ", *options.output, ": it is no folder, and cannot be made"));
  for (const std::string& name : tuning::file_names(library))
    outputs.open(option_of(name), *options.output + "/" + name);
}

std::string absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

/// Where the table is in the end, and where it lies for a run.
std::pair<std::string, std::string> table_paths(const TuneOptions& options, Library library) {
  const std::string name = tuning::table_name(library);
  if (options.output)
    return {absolute(*options.output + "/" + name), absolute(*options.output + "/tried-" + name)};
  return {name, text(tool::temporary_folder(), "/weft-tune-", getpid(), "-", name)};
}

/// What a signal leaves: what was kept until then, and no run.
void keep_so_far(tool::Outputs& outputs, const std::shared_ptr<const TuneState>& state,
                 const std::string& tried) {
  outputs.keep([state, tried] {
    end_trial();
    std::error_code ignored;
    std::filesystem::remove(tried, ignored);
    if (state->facts.collective.empty()) return tool::Kept{};  // in the first run
    return tool::Kept{.how_far = text(state->tuning.trials, " runs"),
                      .printed = {},
                      .files = contents_of(*state, tool::Partial::yes)};
  });
}

/// The first run, and what follows from it. @return how often things are run
tuning::Effort look(const TuneOptions& options, Bench& bench, TuneState& state, tool::Outputs& outputs,
                    std::vector<std::string>& notes) {
  const tuning::BenchRun first = bench.first();
  tuning::Facts facts = facts_of(options, state.command, first, notes);
  tuning::Space space = space_of(options, state.command, facts, notes);
  tuning::Effort effort = effort_for(space, bench.trials_left());
  if (options.pairs) effort.pairs = *options.pairs;
  outputs.change([&] {
    state.facts = std::move(facts);
    state.space = std::move(space);
    state.pairs = effort.pairs;
  });
  return effort;
}

}  // namespace

int tune_command(const std::vector<std::string>& arguments) {
  const TuneOptions options = parse_tune_options(arguments);
  if (options.help) {
    std::cout << tune_help();
    return 0;
  }
  const auto state = std::make_shared<TuneState>();
  state->command = tuning::Command::parse(options.command);
  check_effects(options, state->command.library);
  const auto [table, tried] = table_paths(options, state->command.library);
  state->places = {.table = table, .tuner = options.tuner.value_or("weft")};
  tool::Outputs outputs("weft-report");
  open_outputs(options, state->command.library, outputs);
  keep_so_far(outputs, state, tried);
  tool::Progress progress("weft-report", options.quiet ? tool::Quiet::yes : tool::Quiet::no);
  progress.prepare("a first run of the command");
  Bench bench(options, state->command, tried);
  std::vector<std::string> notes;
  const tuning::Effort effort = look(options, bench, *state, outputs, notes);
  const int most = std::min(bench.trials_left(), most_trials(state->space, effort));
  std::ostream& out = outputs.people();
  if (!options.quiet)
    progress.aside([&] { out << tune_heading(*state, most, bench.seconds_of_run()) << std::flush; });
  const auto watch = [&](const tuning::Tuning& now) {
    outputs.change([&] {
      state->tuning = now;
      state->tuning.notes.insert(state->tuning.notes.begin(), notes.begin(), notes.end());
      state->seconds = bench.seconds();
    });
  };
  const auto measure = [&](const tuning::Setting& setting) {
    progress.advance();
    progress.doing(setting.text());
    return bench.measure(setting, state->facts);
  };
  progress.begin("runs", most);
  watch(search(state->space, effort, options.seed, measure, watch));
  progress.end();
  print_tuning(*state, out);
  if (options.output) out << "written to " << one_line(*options.output) << '\n';
  outputs.write(contents_of(*state, tool::Partial::no));
  return 0;
}

}  // namespace weft::report
