#include "report.hpp"

#include <boost/json.hpp>
#include <cstdio>
#include <ostream>

#include "core/base/strings.hpp"
#include "weft/core/error.hpp"
#include "weft/core/version.hpp"

namespace weft::bench {
namespace {

template <class... Values>
std::string print(const char* format, Values... values) {
  std::string line(static_cast<std::size_t>(std::snprintf(nullptr, 0, format, values...)) + 1, '\0');
  std::snprintf(line.data(), line.size(), format, values...);
  line.pop_back();
  return line;
}

const char* redop_of(const Case& which) {
  return reduces(which.op) ? name(which.redop) : "none";
}
int root_of(const Case& which) {
  return has_root(which.op) ? which.root : -1;
}

std::string columns(const std::optional<Result>& result) {
  if (!result) return std::string(32, ' ');
  return print("  %7s  %6s  %6s  %6g", fitted(result->time.median_seconds * 1e6, 7).c_str(),
               fitted(result->algorithm_bandwidth(), 6).c_str(), fitted(result->bus_bandwidth(), 6).c_str(),
               static_cast<double>(result->wrong));
}

std::string comparison(const std::optional<Result>& result, std::size_t contestants) {
  std::string line;
  for (std::size_t i = 0; i < contestants; ++i) {
    if (!result) {
      line += print("  %8s  %6s", "-", "-");
    } else {
      const Against& one = result->against[i];
      line += print("  %8s  %6.2f", fitted(one.time.median_seconds * 1e6, 8).c_str(), one.ratio);
    }
  }
  return line;
}

}  // namespace

std::string fitted(double value, int width) {
  for (const int digits : {2, 1, 0}) {
    std::string words = print("%*.*f", width, digits, value);
    if (static_cast<int>(words.size()) <= width) return words;
  }
  return print("%*.*e", width, width >= 7 ? 1 : 0, value);
}

void Report::begin() {
  if (options_.format == Format::csv) {
    out_ << "op,bytes,count,dtype,redop,root,ranks,in_place,median_us,p99_us,algbw_GBps,busbw_GBps,wrong,"
            "network_bytes";
    for (const std::string& one : options_.against) out_ << ',' << one << "_us," << one << "_ratio";
    out_ << '\n';
  }
  if (options_.format != Format::nccl || options_.quiet) return;
  const Sizes& sizes = options_.sizes;
  out_ << "# weft-bench version " WEFT_VERSION " backend " << backend_ << "\n"
       << print(
              "# nThread 1 nGpus 0 minBytes %zu maxBytes %zu step: %s(%s) warmup iters: %d iters: %d agg "
              "iters: 1 "
              "validation: 1 graph: 0\n#\n# Using devices\n",
              sizes.first, sizes.last, (sizes.step > 0 ? text(sizes.step) : text(sizes.factor)).c_str(),
              sizes.step > 0 ? "bytes" : "factor", options_.effort.warmup, options_.effort.iterations);
  for (const std::string& place : places_) out_ << detail::printable(place) << '\n';
  out_ << "#\n";
}

void Report::heading(const Case& which) {
  switch (options_.format) {
    case Format::nccl: {
      std::string names;
      std::string units;
      for (const char* place : {" out", " in"}) {
        if (place == std::string(" out") && !options_.out_of_place) continue;
        for (const std::string& one : options_.against) {
          names += print("  %8s  %6s", (one + place).c_str(), "ratio");
          units += print("  %8s  %6s", "(us)", "");
        }
      }
      out_ << print(
                  "# %10s  %12s  %8s  %6s  %6s           out-of-place                       in-place         "
                  " \n",
                  "", "", "", "", "")
           << print("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s", "size", "count",
                    "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw",
                    "#wrong")
           << names << '\n'
           << print("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s", "(B)",
                    "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "")
           << units << '\n'
           << std::flush;
      break;
    }
    case Format::osu:
      out_ << "\n# OSU " << row_of(which.op).osu_title << " v7.0\n"
           << (options_.out_of_place ? "" : "# In place\n")
           << print("%-10s%18s\n", "# Size", "Avg Latency(us)") << std::flush;
      break;
    case Format::csv:
      break;
  }
}

void Report::row(const Row& row) {
  const Result& result =
      row.out_of_place ? *row.out_of_place : *row.in_place;  // OSU's is out of place unless it is told to
  switch (options_.format) {
    case Format::nccl:
      return nccl_row(row);
    case Format::osu:
      out_ << print("%-10zu%18.2f\n", row.which.bytes(), result.time.median_seconds * 1e6) << std::flush;
      return;
    case Format::csv:
      if (row.out_of_place) csv_row(*row.out_of_place);
      if (row.in_place) csv_row(*row.in_place);
      return;
  }
}

void Report::nccl_row(const Row& row) {
  const Case& which = row.which;
  out_ << print("%12zu  %12lld  %8s  %6s  %6d", which.bytes(), static_cast<long long>(which.count),
                nccl_name(which.dtype), redop_of(which), root_of(which))
       << columns(row.out_of_place) << columns(row.in_place);
  if (options_.out_of_place) out_ << comparison(row.out_of_place, options_.against.size());
  out_ << comparison(row.in_place, options_.against.size()) << '\n' << std::flush;
}

void Report::csv_row(const Result& result) {
  const Case& which = result.which;
  out_ << name(which.op) << ',' << which.bytes() << ',' << which.count << ',' << which.dtype << ','
       << redop_of(which) << ',' << root_of(which) << ',' << which.ranks << ',' << (which.in_place ? 1 : 0)
       << print(",%.3f,%.3f,%.4f,%.4f,%lld,%lld", result.time.median_seconds * 1e6,
                result.time.p99_seconds * 1e6, result.algorithm_bandwidth(), result.bus_bandwidth(),
                static_cast<long long>(result.wrong), static_cast<long long>(result.network_bytes));
  for (const Against& one : result.against)
    out_ << print(",%.3f,%.3f", one.time.median_seconds * 1e6, one.ratio);
  out_ << '\n' << std::flush;
}

void Report::end(std::int64_t wrong, double mean_bus_bandwidth) {
  if (options_.format != Format::nccl) return;
  out_ << print("# %-20s : %lld %s\n", "Out of bounds values", static_cast<long long>(wrong),
                wrong > 0 ? "FAILED" : "OK")
       << print("# %-20s : %g %s\n#\n", "Avg bus bandwidth", mean_bus_bandwidth, "") << std::flush;
}

std::string to_json(const Options& options, const std::vector<Row>& rows,
                    const std::vector<std::uint64_t>& network_bytes, tool::Partial partial) {
  boost::json::array results;
  const auto add = [&](const std::optional<Result>& result) {
    if (!result) return;
    const Case& which = result->which;
    boost::json::object one{
        {"op", name(which.op)},
        {"bytes", which.bytes()},
        {"dtype", name(which.dtype)},
        {"redop", redop_of(which)},
        {"root", root_of(which)},
        {"ranks", which.ranks},
        {"in_place", which.in_place},
        {"seconds", {{"median", result->time.median_seconds}, {"p99", result->time.p99_seconds}}},
        {"algbw", result->algorithm_bandwidth()},
        {"busbw", result->bus_bandwidth()},
        {"wrong", result->wrong},
        {"network_bytes", result->network_bytes}};
    const auto described = [](const Against& peer) {
      return boost::json::object{
          {"name", peer.name}, {"seconds_median", peer.time.median_seconds}, {"ratio", peer.ratio}};
    };
    if (result->against.size() == 1) one["against"] = described(result->against.front());
    if (result->against.size() > 1) {
      boost::json::array all;
      for (const Against& peer : result->against) all.push_back(described(peer));
      one["against"] = std::move(all);
    }
    results.push_back(std::move(one));
  };
  for (const Row& row : rows) {
    add(row.out_of_place);
    add(row.in_place);
  }
  boost::json::array by_rank(network_bytes.begin(), network_bytes.end());
  boost::json::object settings{{"samples", options.effort.iterations},
                               {"warmup_operations", options.effort.warmup},
                               {"buffers", options.arena ? "arena" : "private"}};
  boost::json::object all{{"results", std::move(results)},
                          {"network_bytes_by_rank", std::move(by_rank)},
                          {"settings", std::move(settings)}};
  if (partial == tool::Partial::yes) all["partial"] = true;
  return boost::json::serialize(all) + "\n";
}

}  // namespace weft::bench
