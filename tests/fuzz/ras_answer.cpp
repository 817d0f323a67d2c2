// An answer of NCCL's RAS, as text or JSON: alone, and after the same answer.

#include "fuzz/expect_refused.hpp"
#include "weft-report/ras/judge.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  using namespace report::ras;
  test::taken_or_refused([&] {
    const Answer answer = parse_answer(test::as_text(data, size), "answer");
    const Earlier earlier{.before = &answer, .seconds = 10};
    for (const auto& findings : {judge(answer), judge(answer, earlier)}) {
      for (const RasFinding& one : findings) {
        test::expect(!one.finding.evidence.empty(), "a finding has evidence");
        test::expect(!one.finding.fix.empty(), "a finding says what to do");
      }
      (void)next_question(findings, answer, false);
    }
  });
  return 0;
}
