// WEFT_ALGORITHMS: what is taken is written as text that is taken again, as the same rows.

#include "fuzz/expect_refused.hpp"
#include "fuzz/memory_file.hpp"
#include "weft/collectives/algorithm.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  const test::MemoryFile file(data, size);
  test::taken_or_refused([&] {
    const AlgorithmTable table = AlgorithmTable::read(file.path());
    const AlgorithmTable again = AlgorithmTable::parse(table.text(), "again");
    test::expect(again.rows() == table.rows(), "a table's text says the same");
    test::expect(
        AlgorithmTable::built_in().find(ReductionOrder::any, Collective::all_reduce, 2, size).has_value(),
        "the built-in table has a row for every size");
    for (const AlgorithmTable::Row& row : table.rows())
      (void)table.find(row.order, row.collective, row.ranks, row.from_bytes + 1);
  });
  return 0;
}
