#include "weft-report/topology/tools.hpp"

#include <algorithm>

#include "weft-report/topology/words.hpp"

namespace weft::report::topology {
namespace {

constexpr std::size_t most_kept = 4096;
constexpr std::size_t most_open = 64;
/// Lines of an output, with those of other ranks between them.
constexpr int longest_output = 8192;

constexpr std::string_view phrase_table[] = {
    "GPU0",         "hca_id:",    " controller: ", "locked memory", "locked-in-memory",
    "memorylocked", "open files", "nofiles",       "descriptors"};

Evidence evidence_of(const ToolLine& line) {
  return {line.file, line.number, evidence_text(line.text)};
}

}  // namespace

std::span<const std::string_view> tool_phrases() {
  return phrase_table;
}

bool ToolReader::open(std::size_t phrase, const ToolLine& line) {
  switch (phrase) {
    case 0:
      return open_matrix(line);
    case 1:
      return open_port(line);
    case 2:
      return open_pci(line);
    default:
      return take_limit(line);
  }
}

bool ToolReader::open_matrix(const ToolLine& line) {
  const std::string plain = without_codes(line.text);
  std::optional<Matrix> matrix = matrix_of_heading(plain);
  if (!matrix || facts_.matrices.size() == most_kept) return false;
  const Tag tag(std::string_view(plain).substr(0, plain.find("GPU0")));
  matrix->host = tag.host();
  matrix->evidence = evidence_of(line);
  facts_.matrices.push_back(std::move(*matrix));
  begin(Tool::matrix, facts_.matrices.size() - 1, line, tag);
  return true;
}

bool ToolReader::open_port(const ToolLine& line) {
  const auto at = line.text.find("hca_id:");
  const std::string_view name = trimmed(line.text.substr(at + 7));
  if (name.empty() || facts_.ports.size() >= most_kept) return false;
  const Tag tag(line.text.substr(0, at));
  facts_.ports.push_back({.host = tag.host(), .hca = std::string(name), .evidence = evidence_of(line)});
  begin(Tool::port, facts_.ports.size() - 1, line, tag);
  return true;
}

/// "18:00.0 3D controller: NVIDIA Corporation ..." behind a tag of some words.
bool ToolReader::open_pci(const ToolLine& line) {
  constexpr int most_words = 8;
  std::string_view rest = line.text;
  for (int word = 0; word < most_words && facts_.pci.size() < most_kept; ++word) {
    if (std::optional<PciStatus> status = pci_status_of(rest)) {
      const Tag tag(line.text.substr(0, line.text.size() - rest.size()));
      status->host = tag.host();
      status->evidence = evidence_of(line);
      facts_.pci.push_back(std::move(*status));
      begin(Tool::pci, facts_.pci.size() - 1, line, tag);
      return true;
    }
    take_word(rest);
  }
  return false;
}

bool ToolReader::take_limit(const ToolLine& line) {
  std::optional<Limit> limit = limit_of(line.text);
  if (!limit || facts_.limits.size() == most_kept) return false;
  limit->evidence = evidence_of(line);
  facts_.limits.push_back(std::move(*limit));
  return true;
}

/// The next output of the same tool with the same tag ends the one before.
void ToolReader::begin(Tool tool, std::size_t index, const ToolLine& line, const Tag& tag) {
  std::erase_if(open_, [&](const Output& one) {
    return one.last < line.number || one.file != line.file || (one.tool == tool && one.tag == tag);
  });
  if (open_.size() == most_open) open_.erase(open_.begin());
  open_.push_back({tool, index, line.file, tag, line.number + longest_output});
}

bool ToolReader::follow(const ToolLine& line) {
  for (Output& one : open_) {
    std::string_view text = line.text;
    if (line.number > one.last || line.file != one.file || !one.tag.strip(text)) continue;
    if (one.tool == Tool::pci && begins_pci_device(text)) {
      one.last = 0;  // what follows is about another device
      continue;
    }
    if (take(one, text, line)) return true;
  }
  return false;
}

bool ToolReader::take(Output& output, std::string_view text, const ToolLine& line) {
  switch (output.tool) {
    case Tool::matrix:
      return take_matrix_line(facts_.matrices[output.index], without_codes(text), evidence_of(line));
    case Tool::port:
      return take_port_line(facts_.ports, output.index, text, evidence_of(line));
    case Tool::pci:
      break;
  }
  return take_pci_line(facts_.pci[output.index], text, evidence_of(line));
}

}  // namespace weft::report::topology
