// Tables of nccl-tests, links and costs from any lines, and results from any JSON.

#include "fuzz/expect_refused.hpp"
#include "weft-report/bandwidth/results_json.hpp"
#include "weft-report/bandwidth/table_reader.hpp"
#include "weft-report/nccl/judge.hpp"
#include "weft-report/nccl/nccl.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  using namespace weft::report;
  const std::string_view content = test::as_text(data, size);
  const auto plain = [](double value) { return value >= 0 && value < 1e30; };
  const auto expect_plain = [&](const std::vector<bandwidth::Table>& tables) {
    for (const bandwidth::Table& table : tables) {
      test::expect(table.rows.size() <= bandwidth::Table::most_rows, "a table is bounded");
      for (const bandwidth::Row& row : table.rows) {
        test::expect(row.bytes >= 0 && (row.in_place || row.out_of_place), "a row has a measurement");
        test::expect(plain(row.best().busbw) && plain(row.best().algbw) && plain(row.best().microseconds),
                     "measurements are plain numbers");
      }
    }
  };
  nccl::JobLog log;
  log.add(content, "log");
  expect_plain(log.job().tables);
  for (const bandwidth::Judged& one : bandwidth::judge(log.job()))
    test::expect(plain(one.speed.bound.busbw) && plain(one.speed.fraction), "bounds are plain numbers");
  for (const bandwidth::SizeChoice& one : bandwidth::choices_by_size(log.job()))
    test::expect(plain(one.predicted.microseconds), "expected times are plain numbers");
  test::taken_or_refused([&] { expect_plain(bandwidth::read_results(content, "r.json")); });
  return 0;
}
