// WEFT_ALGORITHMS: what is taken is written as text that is taken again, as the same rows.

#include "fuzz/expect_refused.hpp"
#include "weft/collectives/algorithm.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  test::taken_or_refused([&] {
    const AlgorithmTable table = AlgorithmTable::parse(test::as_text(data, size), "fuzz");
    const AlgorithmTable again = AlgorithmTable::parse(table.text(), "again");
    test::expect(again.rows() == table.rows(), "a table's text says the same");
    for (const AlgorithmTable::Row& row : table.rows())
      (void)table.find(row.order, row.collective, row.ranks, row.from_bytes + 1);
  });
  return 0;
}
