// The results of an earlier run of weft-scaling, as its --json writes them.

#include "weft-scaling/pages/earlier_run.hpp"

#include "fuzz/expect_refused.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  test::taken_or_refused([&] {
    const report::EarlierRun run = report::parse_earlier_run(test::as_text(data, size), "run.json");
    test::expect(run.ranks > 0 && !run.strategies.empty(), "a run has ranks and strategies");
    for (const report::Samples& one : run.strategies)
      test::expect(one.seconds.size() >= report::fewest_samples, "a verdict has its samples");
  });
  return 0;
}
