#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>

#include "commands.hpp"
#include "common/findings/findings_json.hpp"
#include "core/files/input_file.hpp"
#include "print.hpp"
#include "ras_options.hpp"
#include "ras_output.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

ras::Answer read_answer(const std::string& file) {
  const std::string path = file == "-" ? "/dev/stdin" : file;
  const std::string called = file == "-" ? "standard input" : file;
  return ras::parse_answer(detail::read_input(path, called, {.source = detail::Source::file_or_pipe}),
                           called);
}

ras::Answer answer_of(const RasOptions& options) {
  return ras::parse_answer(ask(options.address, options.asked), options.address.text());
}

}  // namespace

int ras_command(const std::vector<std::string>& arguments) {
  const RasOptions options = parse_ras_options(arguments);
  if (options.help) {
    std::cout << ras_help();
    return 0;
  }
  tool::Outputs outputs("weft-report");
  open(options.outputs, outputs);
  std::ostream& out = outputs.people();
  ras::Answer answer = options.file.empty() ? answer_of(options) : read_answer(options.file);
  ras::Answer before;
  ras::Earlier earlier;
  if (options.every > 0) {
    const auto asked = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::duration<double>(options.every));
    before = std::exchange(answer, answer_of(options));
    earlier = {.before = &before,
               .seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - asked).count()};
  }
  const std::vector<ras::RasFinding> found = judge(answer, earlier);
  const std::string next = next_question(found, answer, options.every > 0);
  const Report report{.subject = "NCCL job that runs",
                      .looked_at = looked_at(answer),
                      .findings = findings_of(found),
                      .tables = {communicators_table(answer)}};
  out << text(tally(report.findings), " in ", one_line(report.looked_at), "\n\n");
  print(report.findings, out);
  if (report.findings.empty()) out << "nothing wrong is seen, and launches go on\n\n";
  print(report.tables.front(), out);
  if (!answer.unread.empty())
    out << text(answer.unread.size(), answer.unread.size() == 1 ? " line is" : " lines are",
                " none of RAS, the first in line ", answer.unread[0].line, ": ",
                one_line(answer.unread[0].text), "\n\n");
  out << text("next: ", one_line(next), "\n");
  write(outputs, report, [&] { return to_json(found, answer, next); });
  return exit_status(report.findings);
}

}  // namespace weft::report
