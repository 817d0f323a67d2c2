#pragma once
// The catalogue of lines that say that something is wrong.
//
//   if (const auto row = row_of(line)) topic_of(*row).doing;     // "connects to another process over TCP"
//
// A row is a text with {names} where values stand. A topic says what NCCL was doing and which causes print such lines.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "weft-report/nccl/job.hpp"

namespace weft::report::nccl {

enum class Meaning : std::uint8_t {
  fault,    ///< NCCL cannot go on
  follows,  ///< of an error that happened before, here or on another rank
  slower,   ///< NCCL goes on without it
  harmless
};

struct Candidate {
  std::string_view cause{};  ///< of causes(); empty: none
  double confidence = 0;     ///< 0: the line does not decide
  bool (*when)(const Job&, const std::vector<Finding>&) =
      nullptr;               ///< decides with the line; null: nothing else has to agree
  std::string_view tells{};  ///< how to find out
};

struct Topic {
  std::string_view name;
  std::string_view doing;
  Meaning meaning;
  Candidate candidates[5]{};  ///< the usual one first
};

struct CatalogueRow {
  std::string_view topic;
  std::string_view pattern;
  bool of_info = false;  ///< says why NCCL goes on without something: looked for in lines of INFO, too
};

/// Stands for the row of a line that has none.
constexpr std::uint16_t no_row = 0xffff;

std::span<const CatalogueRow> rows();
std::span<const Topic> topics();
/// @throws Error (internal) for a row of no topic
const Topic& topic_of(std::uint16_t row);
/// The row with the most text that stands in a line; none: nothing.
std::optional<std::uint16_t> row_of(std::string_view line);
/// The longest text of a pattern between two values.
std::string_view longest_text(std::string_view pattern);
/// How many letters of a pattern stand in a line, in its order; 0: not all of them.
std::size_t text_in(std::string_view line, std::string_view pattern);

/// Adds findings for warnings that no finding explains yet. @param fired the rows of line_rules() that hold
void add_catalogue(const Job& job, const std::vector<bool>& fired, std::vector<Finding>& findings);

// What decides between causes that print the same line (decisions.cpp): other facts of the logs, or what other rules have found.

bool names_interface(const Job& job, const std::vector<Finding>& found);
bool names_no_interface(const Job& job, const std::vector<Finding>& found);
bool names_topology_file(const Job& job, const std::vector<Finding>& found);
bool names_graph_file(const Job& job, const std::vector<Finding>& found);
/// The port is Ethernet, and its GIDs are not in the logs: those a job rule reads.
bool is_roce(const Job& job, const std::vector<Finding>& found);
bool has_several_versions(const Job& job, const std::vector<Finding>& found);
bool settings_differ(const Job& job, const std::vector<Finding>& found);
/// The GPU has less shared memory than this NCCL asks for.
bool gpu_is_newer(const Job& job, const std::vector<Finding>& found);
bool kernels_failed(const Job& job, const std::vector<Finding>& found);
bool is_fusing_version(const Job& job, const std::vector<Finding>& found);
bool is_before_2_12(const Job& job, const std::vector<Finding>& found);
bool is_since_2_19(const Job& job, const std::vector<Finding>& found);
bool transports_are_off(const Job& job, const std::vector<Finding>& found);

}  // namespace weft::report::nccl
