#include "common/findings/finding.hpp"

#include <numeric>

namespace weft::report {

// Places are sorted, not findings: a stable sort of these takes the compiler ten seconds.
std::vector<std::size_t> order_of_importance(const std::vector<const Finding*>& findings) {
  std::vector<std::size_t> order(findings.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&findings](std::size_t left, std::size_t right) {
    const Finding& a = *findings[left];
    const Finding& b = *findings[right];
    return a.severity != b.severity ? a.severity > b.severity : a.confidence > b.confidence;
  });
  return order;
}

void sort_by_importance(std::vector<Finding>& findings) {
  std::vector<const Finding*> all;
  for (const Finding& one : findings) all.push_back(&one);
  std::vector<Finding> sorted;
  for (const std::size_t at : order_of_importance(all)) sorted.push_back(std::move(findings[at]));
  findings = std::move(sorted);
}

}  // namespace weft::report
