#pragma once
// Inputs that say something only as a whole: XML, JSON, pickles. Everything else is read by lines. Which of them it is shows in the first
// bytes of a file, never in its name.
//
//   if (const Kind* kind = kind_of(content.substr(0, start_bytes))) kind->read(content, "topo.xml", facts);
//
// To read a new kind: a member of Facts with plain values of its room, and a row of the table in documents.cpp.
// WRONG: a row that takes any JSON or any XML: the next row never gets its own.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "weft-report/bandwidth/tables.hpp"
#include "weft-report/flight/flight.hpp"
#include "weft-report/topology/graph.hpp"
#include "weft-report/topology/topology.hpp"

namespace weft::report::documents {

/// What all documents said.
struct Facts {
  int taken = 0;  ///< documents that were read whole
  std::vector<topology::Host> hosts{};
  std::vector<topology::Graph> graphs{};
  std::vector<bandwidth::Table> tables{};     ///< results of nccl-tests and weft-bench
  std::vector<FlightRecord> torch_records{};  ///< of PyTorch, as torch_records::add_record() keeps them
};

struct Kind {
  std::string_view name;  ///< as messages call it: "a topology of NCCL"
  std::size_t most;       ///< bytes; a file with more is not read
  /// @param start the first bytes, at most start_bytes
  bool (*is)(std::string_view start);
  /// Adds to the facts, or leaves them as they are. @throws Error (usage) that says where it is broken
  void (*read)(std::string_view content, const std::string& file, Facts& into);
};

/// The kind that takes this file; null: lines.
const Kind* kind_of(std::string_view start);

/// Reads a document. @return what was wrong with it, as "is broken: ..."; empty: nothing
std::string read(const Kind& kind, std::string_view content, const std::string& file, Facts& into);

}  // namespace weft::report::documents
