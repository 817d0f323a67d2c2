// PyTorch's CSV of a schedule. The first byte chooses format and dialect. What is taken is written as a file that is taken again.

#include "weft/pipeline/csv.hpp"

#include "fuzz/expect_refused.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  using pipeline::CsvFormat;
  using pipeline::Dialect;
  if (size == 0) return 0;
  const CsvFormat format = data[0] % 2 == 0 ? CsvFormat::compute_only : CsvFormat::compute_comms;
  const Dialect dialect = static_cast<Dialect>(data[0] / 2 % 3);
  test::taken_or_refused([&] {
    const pipeline::Schedule schedule =
        pipeline::parse_csv(test::as_text(data + 1, size - 1), format, dialect);
    const std::string written = pipeline::to_csv(schedule, format);
    test::expect(pipeline::parse_csv(written, format, Dialect::current).rows == schedule.rows,
                 "a schedule's CSV says the same");
  });
  return 0;
}
