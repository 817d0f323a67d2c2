// Random and mutated lines for weft-report nccl: of the rules' examples and of every format of NCCL, with tags of launchers, cut, with bytes
// changed, joined, mixed over processes, and plain bytes. Nothing crashes, and a finding shows lines that are there.
//
//   soak_nccl_lines SEED COUNT    ends with 0 when all of COUNT lines were read; aborts at the first that goes wrong, and names its seed

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "support/draw.hpp"
#include "unit/tools/weft-report/nccl/rule_examples.hpp"
#include "weft-report/nccl/formats.hpp"
#include "weft-report/nccl/nccl.hpp"
#include "weft-report/topology/words.hpp"
#include "weft/core/text.hpp"

namespace {

using weft::test::Draw;
namespace nccl = weft::report::nccl;
namespace topology = weft::report::topology;

std::vector<std::string> lines_of_examples() {
  std::vector<std::string> lines;
  for (const auto* examples :
       {&nccl::test::line_examples(), &nccl::test::job_examples(), &nccl::test::topology_examples()}) {
    for (const auto& example : *examples) {
      for (const std::string* log : {&example.fires, &example.near_miss}) {
        for (std::size_t from = 0; from < log->size();) {
          const std::size_t end = std::min(log->find('\n', from), log->size());
          lines.push_back(log->substr(from, end - from));
          from = end + 1;
        }
      }
    }
  }
  return lines;
}

std::string draw_value(Draw& draw, char kind) {
  if (kind == 'd')
    return std::to_string(draw.below(3) == 0 ? draw.below(1 << 30) - (1 << 29) : draw.below(16));
  if (kind == 'f') return std::to_string(draw.below(1000)) + "." + std::to_string(draw.below(1000));
  if (kind == 'x' || kind == 'p')
    return (kind == 'p' ? "0x" : "") + weft::hex(static_cast<std::uint64_t>(draw.below(1 << 30)));
  return draw.one_of<std::string>({"", "IB", "Socket", "mlx5_0", "eth0:10.0.0.1<0>",
                                   "[0]mlx5_0:1/RoCE [1]mlx5_1:1/IB", "NCCL_ALGO", "%s", " ", "Ring",
                                   "::ffff:10.1.2.1", "fe80::1", std::string(300, 'a')});
}
std::string print_format(Draw& draw) {
  const auto formats = nccl::line_formats();
  std::string_view pattern =
      formats[static_cast<std::size_t>(draw.below(static_cast<int>(formats.size())))].pattern;
  std::string line;
  while (!pattern.empty()) {
    if (pattern.front() == '%') {
      line += draw_value(draw, pattern[1]);
      pattern.remove_prefix(2);
      continue;
    }
    line += pattern.front();
    pattern.remove_prefix(1);
  }
  return line;
}
std::string print_call(Draw& draw) {
  return weft::text(draw.one_of<const char*>({"AllReduce", "Broadcast", "ReduceScatter", "Send"}),
                    ": opCount ", weft::hex(static_cast<std::uint64_t>(draw.below(1 << draw.below(20)))),
                    " sendbuff 0x7f", draw.below(9), " recvbuff 0x7f00 count ", draw.below(4), " datatype ",
                    draw.below(14), " op ", draw.below(6), " root ", draw.below(3), " comm 0x", draw.below(3),
                    " [nranks=", draw.below(4), "] stream 0x5580");
}
std::string frame(Draw& draw, const std::string& message) {
  const std::string tag =
      draw.one_of<std::string>({"", "[1,3]<stdout>:", "3: ", "[rank3]:", "(pid=77) ",
                                "Mar 01 10:00:00 login1 train[4711]: ", "\x1b[36m(worker)\x1b[0m ",
                                "2026-03-01T10:00:00.123456789Z stdout F "});
  const std::string level = draw.one_of<std::string>({"INFO", "INFO", "INFO", "WARN", "CALL", "TRACE"});
  return weft::text(tag, "node", draw.below(3), ":", 700 + draw.below(3), ":1 [", draw.below(8), "] ",
                    level == "WARN" ? "a/b.cc:12 " : "", "NCCL ", level, ' ', message);
}

void mutate(Draw& draw, std::string& line) {
  if (line.empty()) return;
  const auto at = static_cast<std::size_t>(draw.below(static_cast<int>(line.size())));
  const auto count = std::min<std::size_t>(line.size() - at, 1U << draw.below(6));
  switch (draw.below(7)) {
    case 0:
      line.resize(at);
      return;
    case 1:
      line[at] = static_cast<char>(draw.below(256));
      return;
    case 2:
      line.erase(at, count);
      return;
    case 3:
      line.insert(at, line.substr(at, count));
      return;
    case 4:
      line.replace(at, count,
                   draw.one_of<std::string>({"99999999999999999999", "-1", "0x", "NCCL INFO ", "%", ":", " ",
                                             std::string(1, '\0'), "\xff"}));
      return;
    case 5:
      line.erase(0, at);
      return;
    default:
      line += line.substr(at, count);
  }
}

std::string draw_line(Draw& draw, const std::vector<std::string>& examples) {
  std::string line;
  switch (draw.below(8)) {
    case 0:
    case 1:
    case 2:
      line = examples[static_cast<std::size_t>(draw.below(static_cast<int>(examples.size())))];
      break;
    case 3:
    case 4:
      line = frame(draw, print_format(draw));
      break;
    case 5:
      line = frame(draw, print_call(draw));
      break;
    case 6:
      line =
          frame(draw, print_format(draw) + " " +
                          examples[static_cast<std::size_t>(draw.below(static_cast<int>(examples.size())))]);
      break;
    default:
      for (int i = draw.below(200); i > 0; --i) line += static_cast<char>(draw.below(256));
  }
  for (int changes = draw.below(4); changes > 0; --changes) mutate(draw, line);
  std::ranges::replace(line, '\n', ' ');
  return line;
}

void require(bool so, std::uint64_t seed, const char* what) {
  if (so) return;
  std::fprintf(stderr, "seed %llu: not so: %s\n", static_cast<unsigned long long>(seed), what);
  std::abort();
}

/// A log of so many lines. @return how many findings it has
std::size_t try_log(std::uint64_t seed, int count, const std::vector<std::string>& examples) {
  Draw draw(seed);
  std::vector<std::string> lines;
  std::string content = "node0:700:1 [0] NCCL INFO cudaDriverVersion 13000\n";  // lines, whatever follows
  lines.push_back(content.substr(0, content.size() - 1));
  while (static_cast<int>(lines.size()) < count) {
    lines.push_back(draw_line(draw, examples));
    content += lines.back() + "\n";
  }
  nccl::JobLog log;
  require(log.add(content, "log").empty(), seed, "lines are no document");
  require(log.job().lines == count, seed, "all lines are read");
  const auto findings = nccl::examine(log.job());
  for (const auto& finding : findings) {
    require(!finding.evidence.empty() && !finding.verdict.empty() && !finding.fix.empty(), seed,
            "a finding has evidence, verdict and fix");
    for (const auto& one : finding.evidence) {
      require(one.line >= 0 && one.line <= count, seed, "evidence is a line");
      if (one.line == 0) continue;
      const std::string& line = lines[static_cast<std::size_t>(one.line - 1)];
      const std::string_view text = one.text;
      // Readers of tables leave the codes of terminals out.
      const std::string quoted =
          topology::without_codes(text.ends_with(" ...") ? text.substr(0, text.size() - 4) : text);
      const bool stands_there = topology::without_codes(line).find(quoted) != std::string::npos;
      require(stands_there, seed,
              weft::text("evidence of ", finding.cause, " is what line ", one.line, " says: ", text).c_str());
    }
  }
  return findings.size();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: soak_nccl_lines SEED COUNT\n");
    return 42;
  }
  constexpr int longest_log = 200;
  const std::vector<std::string> examples = lines_of_examples();
  std::uint64_t seed = std::strtoull(argv[1], nullptr, 10);
  const long long count = std::strtoll(argv[2], nullptr, 10);
  long long left = count;
  std::size_t findings = 0;
  for (; left > 0; ++seed) {
    const int lines = static_cast<int>(std::min<long long>(left, longest_log));
    findings += try_log(seed, lines, examples);
    left -= lines;
  }
  std::printf("%lld lines in logs of %d, %zu findings; nothing went wrong\n", count, longest_log, findings);
  return 0;
}
