#pragma once
// What `weft-report tune` tries. A space has variables, each with the values that are worth a try, and algorithms, of which each size can have its own.
// A setting is a choice; what it does not name is as it was.
//
//   const Space space = nccl_space({.collective = "allreduce", .ranks = 16, .nodes = 2, .network = "IB"}, taken);
//   Setting setting{.variables = {{"NCCL_BUFFSIZE", "8388608"}}, .ranges = {{0, "tree/ll"}, {65536, ""}}};

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace weft::report::tuning {

struct Variable {
  std::string name;
  std::vector<std::string> values{};  ///< beside what holds without it
  std::string moot_with{};            ///< a variable; where that is changed nothing reads this one
};

/// Values of variables by name.
using Choice = std::map<std::string, std::string>;

/// From so many bytes on, up to the next range. An empty name: what the library chooses itself.
struct Range {
  std::uint64_t from_bytes = 0;
  std::string algorithm{};
  bool operator==(const Range&) const = default;
};

struct Setting {
  Choice variables{};
  std::vector<Range> ranges{};  ///< from 0 on, in order; none: the library chooses
  bool operator==(const Setting&) const = default;
  /// "NCCL_BUFFSIZE=8388608, tree/ll from 0 B"; "nothing changed"
  std::string text() const;
};

struct Space {
  std::vector<Variable> variables{};
  std::vector<std::string> algorithms{};  ///< beside the library's own choice
  /// Every choice of variables but the unchanged one. If these are more than `most`: each value alone, and others by chance.
  std::vector<Choice> choices(std::size_t most, std::uint64_t seed) const;
  /// Settings in it: every choice of variables, each with one algorithm for all sizes.
  std::uint64_t size() const;
};

enum class Library : std::uint8_t { nccl, weft };

/// What is known of a job before it is tuned.
struct Facts {
  Library library = Library::nccl;
  std::string collective{};  ///< nccl: "allreduce"; weft: "all_reduce"
  int ranks = 0;
  int nodes = 0;
  std::string network{};   ///< of NCCL: "IB", "Socket"; of weft its backend: "host (UCX)"; may be unknown
  bool any_order = false;  ///< weft: sums may be taken in any order
  bool under_mpi = false;
};

/// @param taken whether the user has set the variable: it is then left alone
Space nccl_space(const Facts& facts, const std::function<bool(const std::string&)>& taken);
Space weft_space(const Facts& facts, const std::function<bool(const std::string&)>& taken);

}  // namespace weft::report::tuning
