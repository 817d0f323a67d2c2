// Files of NCCL's Inspector, JSON lines and metrics, from any bytes; what was read is concluded from.

#include "weft-report/inspector/inspector.hpp"

#include <cmath>

#include "fuzz/expect_refused.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  using namespace weft::report::inspector;
  const std::string_view content = test::as_text(data, size);
  // Two ranks of one communicator, where the bytes are such lines: the second half is another file.
  std::vector<FileRecords> files;
  for (const std::string_view part : {content.substr(0, size / 2), content.substr(size / 2)}) {
    Reader reader;
    for (std::size_t at = 0; at < part.size(); at += 97) reader.take(part.substr(at, 97));
    files.push_back(reader.finish());
    const FileRecords& file = files.back();
    test::expect(file.bad_lines == 0 || !file.problem.empty(), "what is wrong is said");
    for (const Record& record : file.records) {
      test::expect(record.member < file.members.size() && record.size < file.sizes.size(),
                   "records refer to what is there");
      test::expect(std::isfinite(record.microseconds) && record.microseconds >= 0, "times are plain numbers");
    }
  }
  Job job = job_of(std::move(files));
  const Metrics metrics = read_metrics(content);
  job.means = metrics.means;
  const Conclusions all = conclude(job, {}, "NVIDIA H100 80GB HBM3");
  test::expect(all.comparisons.size() == job.communicators.size(), "each communicator is compared");
  for (const SizeRow& row : all.rows)
    test::expect(std::isfinite(row.busbw) && std::isfinite(row.median_us) && row.operations > 0,
                 "rows are plain numbers");
  for (const Named& one : all.findings) test::expect(!one.finding.evidence.empty(), "a finding has evidence");
  (void)tables(job, all);
  (void)sections(job, all);
  return 0;
}
