#pragma once
// A document of XML in memory, and where its elements stand in the text. Entities, document types and references to other files are not
// followed: pugixml knows none of them.
//
//   const Xml xml(content, "topo.xml");
//   for (const pugi::xml_node cpu : xml.root("system").children("cpu")) take(integer(cpu, "numaid", -1), xml.evidence(cpu));

#include <cstdint>
#include <pugixml.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/findings/finding.hpp"

namespace weft::report::topology {

/// NCCL cuts values there (src/graph/xml.h, MAX_STR_LEN).
inline constexpr std::size_t longest_value = 255;
/// Elements in elements: many more than a path of PCIe has bridges.
inline constexpr int deepest = 32;

class Xml {
 public:
  /// @throws Error (usage) with line and column where it is broken
  Xml(std::string_view content, const std::string& file);

  /// @throws Error (usage) if the root has another name or its version is not 1
  pugi::xml_node root(const char* name) const;
  Evidence evidence(const pugi::xml_node& node) const;
  [[noreturn]] void refuse(const pugi::xml_node& node, const std::string& problem) const;

 private:
  int line_of(std::size_t offset) const;

  std::string_view content_;
  std::string file_;
  std::vector<std::size_t> line_ends_{};
  pugi::xml_document document_{};
};

/// An attribute's value; empty: there is none.
std::string value(const pugi::xml_node& node, const char* attribute);
/// A whole number, decimal or 0x...; `otherwise` where there is none, or it is no number.
std::int64_t integer(const pugi::xml_node& node, const char* attribute, std::int64_t otherwise);
/// A whole number from 0 to 2^20; `otherwise` for others.
int small(const pugi::xml_node& node, const char* attribute, int otherwise);
/// A number, which may be followed by its unit; 0: none.
double real(const pugi::xml_node& node, const char* attribute);

}  // namespace weft::report::topology
