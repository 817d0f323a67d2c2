#pragma once
// Prints what nccl-tests and NCCL print, in the slow and obvious way: each format as a sequence of printf's of its columns.

#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <string>

#include "support/draw.hpp"
#include "weft-report/bandwidth/columns.hpp"
#include "weft-report/bandwidth/tuning_table.hpp"

namespace weft::report::bandwidth::test {

__attribute__((format(printf, 1, 2))) inline std::string print(const char* format, ...) {
  char line[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  return line;
}

/// How a version of nccl-tests prints its rows.
struct Format {
  const char* heading;
  bool redop;
  bool root;
  bool error;       ///< the largest difference in place of a count
  bool iterations;  ///< -I
  bool stamp;
  double time_unit = 1;  ///< microseconds of what it prints
};
inline constexpr Format formats[] = {
    {"size count type redop root time algbw busbw #wrong time algbw busbw #wrong", true, true, false, false,
     false},
    {"size count type redop root cputime algbw busbw #wrong cputime algbw busbw #wrong", true, true, false,
     false, false},
    {"size count type redop root time algbw busbw #wrong time algbw busbw #wrong timestamp", true, true,
     false, false, true},
    {"size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% time algbw busbw #wrong "
     "i_min "
     "i_max i_p99 i_cv%",
     true, true, false, true, false},
    {"size count type redop time algbw busbw error time algbw busbw error", true, false, true, false, false},
    {"size count type root time algbw busbw error time algbw busbw error", false, true, true, false, false},
    {"size count type time algbw busbw error time algbw busbw error", false, false, true, false, false},
    {"bytes N type op time algbw busbw res time algbw busbw res", true, false, true, false, false, 1000}};

inline std::string heading_of(const Format& format) {
  std::string line = "#";
  std::string word;
  for (const char c : std::string(format.heading) + " ") {
    if (c != ' ') {
      word += c;
      continue;
    }
    line += print(" %10s", word.c_str());
    word.clear();
  }
  return line;
}

/// As nccl-tests fits a number into its column.
inline std::string fitted(double value, int width) {
  for (const int digits : {2, 1, 0}) {
    const std::string words = print("%*.*f", width, digits, value);
    if (static_cast<int>(words.size()) <= width) return words;
  }
  return print("%*.1e", width, value);
}

inline std::string half_of(const Format& format, const Measured& one, weft::test::Draw& draw) {
  std::string line = print("  %7s  %6s  %6s", fitted(one.microseconds / format.time_unit, 7).c_str(),
                           fitted(one.algbw, 6).c_str(), fitted(one.busbw, 6).c_str());
  if (format.error) {
    line += draw.once_in(4) ? print("  %5s", "N/A") : print("  %5.0le", draw.below(1000) * 1e-9);
  } else if (one.wrong < 0) {
    line += "    N/A";
  } else {
    line += print("  %6g", static_cast<double>(one.wrong));
  }
  for (int i = 0; format.iterations && i < 4; ++i)
    line += print("  %7s", fitted(draw.below(100000) / 7.0, 7).c_str());
  return line;
}

inline std::string row_text(const Format& format, const Row& row, weft::test::Draw& draw) {
  std::string line = print("%12lld  %12lld  %8s", static_cast<long long>(row.bytes),
                           static_cast<long long>(row.bytes / 4), row.dtype.c_str());
  if (format.redop) line += print("  %6s", row.redop.empty() ? "none" : row.redop.c_str());
  if (format.root) line += print("  %6lld", static_cast<long long>(row.root));
  line += row.out_of_place ? half_of(format, *row.out_of_place, draw) : std::string(32, ' ');
  line += half_of(format, *row.in_place, draw);
  if (format.stamp) line += print("%21s", "2026-03-01 10:20:30");
  return line;
}

/// A value that its column shows in full: as the printer rounds it.
inline double shown(double value, int width) {
  return std::stod(fitted(value, width));
}
inline Measured random_measured(const Format& format, weft::test::Draw& draw) {
  Measured one;
  const double time = std::exp(draw.below(1400) / 100.0) * (1 + draw.below(1000) / 1000.0);
  one.microseconds = shown(std::max(time, 1.0) / 1, 7) * format.time_unit;
  one.algbw = shown(draw.below(1000000) / 1000.0, 6);
  one.busbw = shown(draw.below(1000000) / 999.0, 6);
  if (!format.error) one.wrong = draw.once_in(4) ? -1 : draw.once_in(3) ? draw.below(100000) : 0;
  return one;
}
inline Row random_row(const Format& format, weft::test::Draw& draw) {
  Row row;
  row.bytes = std::int64_t{draw.below(1 << 30)} << draw.below(12);
  row.dtype = draw.one_of<const char*>({"int8", "half", "float", "bfloat16", "f8e4m3"});
  if (format.redop) row.redop = draw.one_of<const char*>({"sum", "prod", "avg", "mulsum", ""});
  if (format.root) row.root = draw.below(66) - 1;
  if (format.error || !draw.once_in(4)) row.out_of_place = random_measured(format, draw);
  row.in_place = random_measured(format, draw);
  return row;
}

/// A block of NCCL's table of costs: up to three algorithms.
inline std::string costs_text(const CostTable& costs, std::size_t first, std::size_t count,
                              const std::string& prefix) {
  std::string page = prefix + "  Algorithm   |";
  for (std::size_t a = first; a < first + count; ++a)
    page += print(" %14s   %14s   %14s |", "", std::string(name(static_cast<Algorithm>(a))).c_str(), "");
  page += "\n" + prefix + "  Protocol    |";
  for (std::size_t a = 0; a < 3; ++a) page += print(" %14s | %14s | %14s |", "LL", "LL128", "Simple");
  page += "\n" + prefix + " Max NThreads |";
  for (std::size_t a = 0; a < 3 * count; ++a) page += print(" %14d |", 512);
  page += "\n";
  for (std::size_t c = 0; c < collectives; ++c) {
    page += prefix + print("%13s |", std::string(name(static_cast<Collective>(c))).c_str());
    for (std::size_t a = first; a < first + count; ++a) {
      for (std::size_t p = 0; p < protocols; ++p) {
        const Cost& cost =
            costs.at(static_cast<Collective>(c), static_cast<Algorithm>(a), static_cast<Protocol>(p));
        page += print("%8.1f/%6.1f |", cost.latency, cost.bandwidth);
      }
    }
    page += "\n";
  }
  return page;
}

}  // namespace weft::report::bandwidth::test
