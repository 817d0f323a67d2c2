#pragma once
// Output of tools as lines, mixed between hosts, and what is read of it.

#include <string>
#include <vector>

#include "support/draw.hpp"
#include "weft-report/nccl/nccl.hpp"
#include "weft-report/topology/tools.hpp"

namespace weft::report::topology::test {

using Lines = std::vector<std::string>;

inline ToolFacts facts_of(const std::string& content) {
  nccl::JobLog log;
  log.add(content, "log");
  return log.job().tools;
}
inline ToolFacts facts_of(const Lines& lines) {
  std::string content;
  for (const std::string& line : lines) content += line + "\n";
  return facts_of(content);
}

/// The lines of both, by chance; each one's keep their order.
inline Lines mixed(const Lines& a, const Lines& b, weft::test::Draw& draw) {
  Lines all;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() || j < b.size()) {
    const bool first = j == b.size() || (i < a.size() && draw.once_in(2));
    all.push_back(first ? a[i++] : b[j++]);
  }
  return all;
}
inline Lines tagged(const Lines& lines, const std::string& tag) {
  Lines all;
  for (const std::string& line : lines) all.push_back(tag + line);
  return all;
}

}  // namespace weft::report::topology::test
