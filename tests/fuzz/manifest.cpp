// Manifests of Kubernetes: YAML of any form, and lint's rules over any tree.

#include <algorithm>

#include "fuzz/expect_refused.hpp"
#include "weft-launch/manifest/lint.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  const std::string content(test::as_text(data, size));
  const auto lines = std::ranges::count(content, '\n') + 1;
  test::taken_or_refused([&] {
    const report::manifest::Lint result = report::manifest::lint({{"job.yaml", content}});
    test::expect(result.objects > 0, "what is taken has an object");
    for (const report::Finding& finding : result.findings) {
      test::expect(finding.evidence.size() == 1, "a finding has its line");
      test::expect(finding.evidence.front().line >= 1 && finding.evidence.front().line <= lines,
                   "a line is one of the file");
      test::expect(!finding.fix.empty() && !finding.cause.empty(), "a finding has a cause and a fix");
    }
  });
  return 0;
}
