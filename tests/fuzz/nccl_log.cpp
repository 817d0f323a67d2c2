// A log of NCCL: the lines of any ranks, whole or not.

#include "fuzz/expect_refused.hpp"
#include "weft-report/nccl/log_line.hpp"
#include "weft-report/nccl/log_source.hpp"
#include "weft-report/nccl/nccl.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  namespace nccl = report::nccl;
  const std::string_view content = test::as_text(data, size);
  nccl::read_text(content, "log", [](const std::string&, int, std::string_view text) {
    const nccl::LogLine line = nccl::parse_log_line(text);
    const auto within = [&](std::string_view part) {
      return part.empty() ||
             (part.data() >= text.data() && part.data() + part.size() <= text.data() + text.size());
    };
    test::expect(within(line.host) && within(line.stamp) && within(line.source) && within(line.message),
                 "views are of the line");
    test::expect(line.pid >= 0 && line.tid >= 0, "numbers of processes are not negative");
  });
  nccl::JobLog log;
  log.add(content, "log");
  for (const report::Finding& one : nccl::examine(log.job()))
    test::expect(!one.evidence.empty(), "a finding has evidence");
  return 0;
}
