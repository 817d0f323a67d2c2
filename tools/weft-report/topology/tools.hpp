#pragma once
// What tools of a host printed into the same files as NCCL's log: nvidia-smi topo -m, ibv_devinfo, ulimit -a, lspci -vvv. Their output has several
// lines, which may be mixed with those of other ranks.
//
//   ToolFacts facts;
//   ToolReader reader(facts);
//   for each line: for each phrase i of tool_phrases() in it: reader.open(i, {file, number, line});  then: reader.follow({file, number, line})
//
// WRONG: lines of NCCL given to it; they begin no output and end none.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft-report/topology/host_limits.hpp"
#include "weft-report/topology/matrix.hpp"
#include "weft-report/topology/port.hpp"
#include "weft-report/topology/tag.hpp"

namespace weft::report::topology {

struct ToolFacts {
  std::vector<Matrix> matrices{};
  std::vector<Port> ports{};
  std::vector<Limit> limits{};
  std::vector<PciStatus> pci{};
};

struct ToolLine {
  const std::string& file;
  int number;
  std::string_view text;
};

/// One of them stands in each line that begins an output.
std::span<const std::string_view> tool_phrases();

class ToolReader {
 public:
  explicit ToolReader(ToolFacts& facts) : facts_(facts) {}
  /// A line in which a phrase of tool_phrases() stands. @return whether it began an output, or is one
  bool open(std::size_t phrase, const ToolLine& line);
  /// Any line. @return whether it belongs to an output that a line before began
  bool follow(const ToolLine& line);

 private:
  enum class Tool : std::uint8_t { matrix, port, pci };
  struct Output {
    Tool tool;
    std::size_t index;  ///< into the facts of the tool
    std::string file;
    Tag tag;
    int last;  ///< line after which it is over
  };
  bool open_matrix(const ToolLine& line);
  bool open_port(const ToolLine& line);
  bool open_pci(const ToolLine& line);
  bool take_limit(const ToolLine& line);
  void begin(Tool tool, std::size_t index, const ToolLine& line, const Tag& tag);
  bool take(Output& output, std::string_view text, const ToolLine& line);

  ToolFacts& facts_;
  std::vector<Output> open_{};
};

}  // namespace weft::report::topology
