#include "weft-report/tuning/settings_text.hpp"

#include <algorithm>
#include <limits>

#include "weft/collectives/algorithm.hpp"
#include "weft/core/text.hpp"

namespace weft::report::tuning {
namespace {

constexpr const char* heading = "# Written by weft-report tune.\n";

std::string csv_of(const Setting& setting, const Facts& facts) {
  std::string result =
      text(heading, "# collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks\n");
  for (std::size_t i = 0; i < setting.ranges.size(); ++i) {
    const Range& range = setting.ranges[i];
    if (range.algorithm.empty()) continue;
    std::string pair = range.algorithm;
    std::ranges::replace(pair, '/', ',');
    const std::string last =
        i + 1 < setting.ranges.size() ? std::to_string(setting.ranges[i + 1].from_bytes - 1) : "-1";
    result += text(facts.collective, ',', range.from_bytes, ',', last, ',', pair, ",-1,",
                   facts.nodes > 0 ? facts.nodes : -1, ',', facts.ranks > 0 ? facts.ranks : -1, '\n');
  }
  return result;
}

/// Rows for any number of nodes: which exchange them is not in what a benchmark prints.
std::string algorithms_of(const Setting& setting, const Facts& facts) {
  AlgorithmTable table;
  const auto kind = static_cast<Collective>(std::ranges::find(collective_names, facts.collective) -
                                            collective_names.begin());
  const ReductionOrder order = facts.any_order && reduces(kind) ? ReductionOrder::any : ReductionOrder::rank;
  const auto own_at = [&](std::uint64_t bytes) {
    return AlgorithmTable::built_in().find(order, kind, facts.nodes, bytes)->algorithm;
  };
  for (std::size_t i = 0; i < setting.ranges.size(); ++i) {
    const Range& range = setting.ranges[i];
    const auto named = std::ranges::find(algorithm_names, range.algorithm);
    if (named != algorithm_names.end()) {
      table.add({order, kind, 0, range.from_bytes, static_cast<Algorithm>(named - algorithm_names.begin())});
      continue;
    }
    // A row counts up to the next one, so weft's own choice has to be written down again.
    if (i == 0) continue;
    const std::uint64_t end = i + 1 < setting.ranges.size() ? setting.ranges[i + 1].from_bytes
                                                            : std::numeric_limits<std::uint64_t>::max();
    table.add({order, kind, 0, range.from_bytes, own_at(range.from_bytes)});
    for (const AlgorithmTable::Row& row : AlgorithmTable::built_in().rows()) {
      if (row.collective == kind && row.from_bytes > range.from_bytes && row.from_bytes < end)
        table.add({order, kind, 0, row.from_bytes, own_at(row.from_bytes)});
    }
  }
  return heading + table.text();
}

/// For a shell.
std::string quoted(const std::string& value) {
  if (!value.empty() && std::ranges::all_of(value, [](char letter) {
        return std::isalnum(static_cast<unsigned char>(letter)) ||
               std::string_view("._/:,+-").find(letter) != std::string_view::npos;
      }))
    return value;
  std::string result = "'";
  for (const char letter : value) result += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return result + "'";
}

}  // namespace

Environment environment_of(const Setting& setting, const Facts& facts, const Places& places) {
  Environment result = setting.variables;
  if (setting.ranges.empty()) return result;
  if (facts.library == Library::weft) {
    result["WEFT_ALGORITHMS"] = places.table;
    return result;
  }
  result["NCCL_TUNER_PLUGIN"] = places.tuner;
  result["NCCL_TUNER_CONFIG_FILE"] = places.table;
  return result;
}

std::string table_of(const Setting& setting, const Facts& facts) {
  return facts.library == Library::weft ? algorithms_of(setting, facts) : csv_of(setting, facts);
}

std::string table_name(Library library) {
  return library == Library::weft ? "algorithms.txt" : "nccl-tuner.csv";
}

std::vector<std::string> file_names(Library library) {
  std::vector<std::string> names{"settings.sh", "mpirun-flags.txt", table_name(library)};
  if (library == Library::nccl) names.insert(names.begin(), "nccl.conf");
  return names;
}

std::vector<SettingFile> files_of(const Setting& setting, const Facts& facts, const Places& places) {
  std::string conf = heading;
  std::string shell = text(heading, "# For a shell: . settings.sh\n");
  std::string flags;
  for (const auto& [name, value] : environment_of(setting, facts, places)) {
    conf += text(name, '=', value, '\n');
    shell += text("export ", name, '=', quoted(value), '\n');
    flags += text(flags.empty() ? "" : " ", "-x ", name, '=', quoted(value));
  }
  std::vector<SettingFile> files{{"settings.sh", shell},
                                 {"mpirun-flags.txt", flags + '\n'},
                                 {table_name(facts.library), table_of(setting, facts)}};
  if (facts.library == Library::nccl) files.insert(files.begin(), {"nccl.conf", conf});
  return files;
}

}  // namespace weft::report::tuning
