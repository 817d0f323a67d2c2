// What ranks tell each other when they meet: arrivals, refusals, verdicts, outcomes.

#include "collectives/bootstrap/gathering.hpp"
#include "collectives/diagnosis/agree.hpp"
#include "fuzz/expect_refused.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  using namespace weft::detail;
  const std::string bytes(test::as_text(data, size));
  static const RankIdentity mine = RankIdentity::of_this_process(0, 2);
  const Deadline now = Deadline::in({});
  const auto opened = [&](const std::string& verdict) {
    try {
      (void)open_verdict(verdict, mine);
    } catch (const Error&) {  // of any kind: a verdict says of which
    }
  };
  test::taken_or_refused([&] {
    const Arrival arrival = Arrival::decode(1, bytes);
    test::expect(Arrival::decode(1, arrival.encode()).note == arrival.note, "an arrival says the same again");
    for (const std::string& purpose : {arrival.purpose, std::string("connect")}) {
      const Arrival own{mine, purpose, "note"};
      opened(conclude(own, {own.encode(), bytes}, now));
      opened(conclude(own, {own.encode(), bytes, std::nullopt}, now));
    }
    opened(refuse(rank_is_taken(arrival.who, mine)));
    opened(refuse(sizes_differ(arrival.who, mine)));
    opened(call_off(lost_error(mine.rank, arrival.who.name(), arrival.purpose)));
    opened(call_off(silent_error(mine.rank, mine.size, arrival.purpose, now)));
  });
  test::taken_or_refused([&] {
    const Refusal refusal = Refusal::decode(bytes);
    test::expect(Refusal::decode(refusal.encode()).problem == refusal.problem,
                 "a refusal says the same again");
    opened(refuse(refusal));
  });
  opened(bytes);
  test::taken_or_refused([&] {
    const Outcome outcome = Outcome::from(bytes);
    const Outcome again = Outcome::from(outcome.words());
    const bool same_why = again.why().has_value() == outcome.why().has_value() &&
                          (!again.why() || (again.why()->kind() == outcome.why()->kind() &&
                                            again.why()->problem() == outcome.why()->problem() &&
                                            again.why()->advice() == outcome.why()->advice()));
    test::expect(again.note() == outcome.note() && same_why, "an outcome says the same again");
    opened(call_off(outcome.why().value_or(Error(ErrorKind::usage, outcome.note()))));
  });
  // Members as a split would name them: a rank in each byte.
  const std::vector<int> members(bytes.begin(), bytes.end());
  test::taken_or_refused([&] { (void)place_among(members, 0, 64); });
  opened(time_out(members, 64, "connect", now));
  return 0;
}
