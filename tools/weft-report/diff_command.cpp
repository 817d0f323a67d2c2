#include <array>
#include <iostream>

#include "commands.hpp"
#include "core/files/input_file.hpp"
#include "diff_options.hpp"
#include "print.hpp"
#include "read_logs.hpp"
#include "weft-report/output/diff.hpp"
#include "weft-report/output/run_json.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

/// A file of weft-report nccl --json, or logs.
RunFacts run_at(const std::string& path) {
  std::array<char, 32> start{};
  // What comes through a pipe comes once: it is taken for logs.
  detail::InputFile file(path);
  if (file.is_open()) (void)file.read(start.data(), start.size() - 1);
  if (opens_run(start.data())) return read_run(detail::read_input(path, path), path);
  const nccl::JobLog log = read_logs({path}).log;
  return run_of(log.job(), nccl::examine(log.job()), {});
}

}  // namespace

int diff_command(const std::vector<std::string>& arguments) {
  const DiffOptions options = parse_diff_options(arguments);
  if (options.help) {
    std::cout << diff_help();
    return 0;
  }
  tool::Outputs outputs("weft-report");
  open(options.files, outputs);
  const RunFacts before = run_at(options.before);
  const RunFacts after = run_at(options.after);
  const RunDiff diff = compare(before, after);
  const Report report{.subject = "two NCCL runs",
                      .looked_at = text(options.after, " beside ", options.before, ": ", verdict(diff)),
                      .findings = diff.fresh,
                      .tables = {findings_table("Gone", diff.gone), findings_table("The same", diff.same),
                                 facts_table(diff), speeds_table(diff)}};
  std::ostream& out = outputs.people();
  out << one_line(verdict(diff)) << "\n\n";
  print(diff.fresh, out);
  for (const TextTable& table : report.tables) print(table, out);
  write(outputs, report, [&] { return to_json(diff); });
  return exit_status(diff.fresh);
}

}  // namespace weft::report
