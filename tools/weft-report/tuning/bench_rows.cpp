#include "weft-report/tuning/bench_rows.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "core/base/number.hpp"
#include "weft/core/text.hpp"

namespace weft::report::tuning {
namespace {

constexpr std::size_t fewest_words = 7;  // size, count, type, time, algbw, busbw, #wrong
constexpr std::size_t before_sides = 3;
constexpr std::size_t words_of_side = 4;

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t begin = line.find_first_not_of(" \t\r", at);
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    at = end;
  }
  return words;
}

/// "[1,0]<stdout>:", "[node1:0] ": what launchers put before a line.
std::string_view without_tag(std::string_view line) {
  if (!line.starts_with('[')) return line;
  const std::size_t end = line.find(']');
  if (end == std::string_view::npos) return line;
  line.remove_prefix(end + 1);
  if (line.starts_with("<std")) line.remove_prefix(std::min(line.find(':'), line.size() - 1) + 1);
  return line;
}

/// Gathers rows, and the first thing that is wrong.
class Gatherer {
 public:
  explicit Gatherer(BenchRun& run) : run_(run) {}

  void line(std::string_view line) {
    const auto words = words_of(without_tag(line));
    if (words.empty()) return;
    if (words.front().starts_with('#')) return comment(words);
    const auto bytes = detail::number_of<std::uint64_t>(words.front());
    if (!bytes || words.size() < fewest_words || !detail::number_of<std::uint64_t>(words[1]) ||
        detail::number_of<double>(words[2]))
      return;
    row(*bytes, words);
  }

  void end() {
    for (const auto& [bytes, sides] : sums_)
      run_.rows.push_back({bytes, std::exp(sides.first / sides.second)});
    run_.hosts = static_cast<int>(hosts_.size());
    if (run_.problem.empty() && run_.rows.empty()) run_.problem = "it printed no row of times";
  }

 private:
  void comment(const std::vector<std::string_view>& words) {
    const auto after = [&](std::string_view word) {
      const auto found = std::ranges::find(words, word);
      return found == words.end() || found + 1 == words.end() ? std::string_view() : *(found + 1);
    };
    if (words.size() > 4 && words[1] == "Rank" && !after("on").empty()) {
      ++run_.ranks;
      hosts_.insert(std::string(after("on")));
    }
    if (!after("backend").empty() && run_.backend.empty()) {
      const auto first = std::ranges::find(words, "backend") + 1;
      for (auto word = first; word != words.end(); ++word)
        run_.backend += (word == first ? "" : " ") + std::string(*word);
    }
    if (words.size() > 2 && words[1] == "Out" && words.back() == "FAILED") complain("its results are wrong");
  }

  /// Behind the type stand redop and root, one of them or none, by nccl-tests' version and collective. Then a side is time, algbw, busbw and #wrong.
  void row(std::uint64_t bytes, const std::vector<std::string_view>& words) {
    const std::size_t more = words.size() - before_sides;
    const std::size_t sides = std::min<std::size_t>(2, more / words_of_side);
    bool any = false;
    for (std::size_t side = 0; side < sides; ++side) {
      const std::size_t first = before_sides + more % words_of_side + side * words_of_side;
      if (words[first] == "N/A" || words[first] == "-") continue;
      const auto time = detail::number_of<double>(words[first]);
      if (!time || !std::isfinite(*time) || *time <= 0)
        return complain(text("the time of ", bytes, " bytes is ", words[first].substr(0, 20)));
      const auto wrong = detail::number_of<double>(words[first + 3]);
      if (wrong && *wrong != 0)
        return complain(text(words[first + 3].substr(0, 20), " elements of ", bytes, " bytes are wrong"));
      auto& [sum, count] = sums_[bytes];
      sum += std::log(*time * 1e-6);
      count += 1;
      any = true;
    }
    if (!any) complain(text("the row of ", bytes, " bytes has no time"));
  }

  void complain(std::string words) {
    if (run_.problem.empty()) run_.problem = std::move(words);
  }

  BenchRun& run_;
  std::map<std::uint64_t, std::pair<double, double>> sums_;
  std::set<std::string> hosts_;
};

}  // namespace

BenchRun BenchRun::parse(std::string_view output) {
  BenchRun run;
  Gatherer gatherer(run);
  for (std::size_t begin = 0; begin < output.size();) {
    const std::size_t end = std::min(output.find('\n', begin), output.size());
    gatherer.line(output.substr(begin, end - begin));
    begin = end + 1;
  }
  gatherer.end();
  return run;
}

}  // namespace weft::report::tuning
