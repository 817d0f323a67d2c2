// The flight records of a run: those in a folder, one of each rank.

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <map>

#include "core/files/input_file.hpp"
#include "weft-report/flight/flight.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

bool is_record(const std::filesystem::directory_entry& one) {
  const std::string name = one.path().filename();
  return name.starts_with("rank-") && name.ends_with(".json");
}

/// @param path of a file rank-*.json
int rank_in_name(const std::string& path) {
  std::string digits = std::filesystem::path(path).stem();
  digits.erase(0, std::string_view("rank-").size());
  int rank = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (digits.empty() || !std::ranges::all_of(digits, [](unsigned char c) { return std::isdigit(c) != 0; }) ||
      error != std::errc())
    throw Error(ErrorKind::usage, text(path, ": its name has no rank"), "records are rank-R.json");
  return rank;
}

}  // namespace

std::vector<FlightRecord> of_one_run(std::vector<FlightRecord> records) {
  if (records.empty()) throw Error(ErrorKind::usage, "there is no flight record");
  std::ranges::stable_sort(records, {}, &FlightRecord::rank);
  for (std::size_t i = 1; i < records.size(); ++i) {
    const FlightRecord& a = records[i - 1];
    const FlightRecord& b = records[i];
    if (a.rank == b.rank)
      throw Error(ErrorKind::usage, text(a.file, " and ", b.file, " are both of rank ", a.rank),
                  "keep the records of one run in a folder of their own");
    if (a.size != b.size)
      throw Error(ErrorKind::usage,
                  text(a.file, " is of a job of ", a.size, " ranks, ", b.file, " of one of ", b.size),
                  "keep the records of one run in a folder of their own");
  }
  return records;
}

bool has_flights(const std::string& folder) {
  std::error_code error;
  return std::ranges::any_of(std::filesystem::directory_iterator(folder, error), is_record);
}

std::vector<FlightRecord> read_flights(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::map<std::string, std::string>
      paths;  // sorted by name: messages do not depend on the order of the folder
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (is_record(*at)) paths[at->path().filename()] = at->path();
  }
  if (error) throw Error(ErrorKind::usage, text("cannot read the folder '", folder, "': ", error.message()));
  if (paths.empty()) {
    throw Error(ErrorKind::usage, text("the folder '", folder, "' has no rank-R.json"),
                "ranks write them when an operation fails and on SIGUSR2");
  }
  std::vector<FlightRecord> records;
  for (const auto& [name, path] : paths) {
    rank_in_name(path);
    records.push_back(parse_flight(detail::read_input(path, path), path));
  }
  records = of_one_run(std::move(records));
  for (FlightRecord& record : records) {
    if (rank_in_name(record.file) != record.rank)
      throw Error(ErrorKind::usage, text(record.file, ": is of rank ", record.rank),
                  "its name says another; name each record after its rank");
    record.file = fs::path(record.file).filename();
  }
  return records;
}

}  // namespace weft::report
