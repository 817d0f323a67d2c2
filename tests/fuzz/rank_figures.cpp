// What a rank of weft serves for Prometheus, as weft-report watch reads it from whatever listens at the port.

#include "fuzz/expect_refused.hpp"
#include "weft-report/watch/ranks.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  test::taken_or_refused([&] {
    const report::RankFigures figures = report::parse_figures(test::as_text(data, size), "localhost:9400");
    test::expect(figures.rank >= 0 && figures.rank < figures.size, "a rank is one of its job");
    report::RanksWatch watch(1);
    for (int i = 0; i < 3; ++i)
      (void)watch.looked(i, {{.address = "a", .figures = figures}, {.address = "b", .why = "no answer"}});
  });
  return 0;
}
