#include <iostream>

#include "bandwidth_output.hpp"
#include "commands.hpp"
#include "nccl_options.hpp"
#include "print.hpp"
#include "read_logs.hpp"
#include "weft-report/nccl/nccl.hpp"
#include "weft-report/nccl/rules/rules.hpp"
#include "weft-report/output/run_json.hpp"
#include "weft-report/output/run_sections.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
int nccl_command(const std::vector<std::string>& arguments) {
  const NcclOptions options = parse_nccl_options(arguments);
  if (options.help) {
    std::cout << nccl_help();
    return 0;
  }
  if (options.rules) {
    std::cout << nccl::rules_page();
    return 0;
  }
  tool::Outputs outputs("weft-report");
  open(options.files, outputs);
  const ReadLogs logs = read_logs(options.paths);
  const nccl::Job& job = logs.log.job();
  const RunFacts run = run_of(job, nccl::examine(job), logs.skipped);
  Report report{.subject = "NCCL job",
                .looked_at = looked_at(run),
                .findings = run.findings,
                .tables = bandwidth_tables(job)};
  report.tables.push_back(hosts_table(run));
  std::ostream& out = outputs.people();
  if (run.findings.empty()) {
    out << text(
        "nothing wrong is seen in ", job.lines, " lines, ", job.nccl_lines, " of them NCCL's",
        job.documents.taken == 0 ? "" : text(", and ", job.documents.taken, " files that were read whole"),
        "\n", nccl::what_was_looked_at(job), "\n\n");
  } else {
    out << text(tally(run.findings), " in ", one_line(looked_at(run)), "\n\n");
  }
  print(run.findings, out);
  for (const TextTable& table : report.tables) print(table, out);
  const auto json = [&] {
    boost::json::object bandwidth;
    add_bandwidth(job, bandwidth);
    return to_json(run, std::move(bandwidth));
  };
  write(outputs, report, json, [&](Report& page) {
    page.sections = {transports(run), hosts_compared(run), rank_matrix(run)};
    // Without a table it says how to get one, which is what a reader needs last.
    page.sections.insert(run.bandwidths.empty() ? page.sections.end() : page.sections.begin(),
                         bandwidth_reached(job));
    page.tables.pop_back();  // hosts_compared() shows the hosts, and more
  });
  return exit_status(run.findings);
}

}  // namespace weft::report
