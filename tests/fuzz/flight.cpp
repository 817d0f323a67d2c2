// A flight record, and what two ranks' records together give.

#include "weft-report/flight/flight.hpp"

#include "fuzz/expect_refused.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  test::taken_or_refused([&] {
    const report::FlightRecord one = report::parse_flight(test::as_text(data, size), "rank-0.json");
    report::FlightRecord other = one;
    other.rank = one.rank + 1;
    const auto run = report::of_one_run({one, other});
    (void)report::examine(run);
    (void)report::progress_summary(run);
  });
  return 0;
}
