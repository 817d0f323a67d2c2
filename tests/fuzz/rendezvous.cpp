// What ranks tell each other when they meet: arrivals, refusals, verdicts.

#include "collectives/bootstrap/gathering.hpp"
#include "fuzz/expect_refused.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  using namespace weft::detail;
  const std::string bytes(test::as_text(data, size));
  const RankIdentity mine{0, 2, "process 1 on node0", 1};
  test::taken_or_refused([&] {
    const Arrival arrival = Arrival::decode(1, bytes);
    test::expect(Arrival::decode(1, arrival.encode()).note == arrival.note, "an arrival says the same again");
    const Arrival own{mine, arrival.purpose, "note"};
    const std::string verdict = conclude(own, {own.encode(), bytes}, Deadline::in({}));
    test::taken_or_refused([&] { (void)open_verdict(verdict, mine); });
  });
  test::taken_or_refused([&] { (void)Refusal::decode(bytes); });
  try {
    (void)open_verdict(bytes, mine);
  } catch (const Error&) {  // of any kind: a verdict says of which
  }
  return 0;
}
