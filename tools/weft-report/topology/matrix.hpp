#pragma once
// The table of `nvidia-smi topo -m`: what lies between each two GPUs and NICs of a host.
//
//           GPU0   GPU1   NIC0   CPU Affinity   NUMA Affinity   GPU NUMA ID
//   GPU0     X     NV18   PIX    0-51           0               N/A
//   GPU1    NV18    X     SYS    52-103         1               N/A
//   NIC0    PIX    SYS     X
//   NIC Legend:
//     NIC0: mlx5_0
//
// The driver prints tabs, and underlines the heading; people paste it with spaces. Before driver 520 NICs stand under their own names; before
// 450 there are no NUMA columns.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft-report/topology/topology.hpp"

namespace weft::report::topology {

struct MatrixLink {
  Distance distance = Distance::unknown;
  int nvlinks = 0;  ///< of NV18: 18; else 0
};

struct MatrixDevice {
  std::string name{};    ///< "GPU0", "NIC0", "mlx5_0"
  std::string device{};  ///< the name that the legend gives a NIC, or that of the column
  bool gpu = false;
  std::vector<MatrixLink> links{};  ///< to each device; empty: the row is missing
  std::string cores{};              ///< "0-51,104-155"; empty: not stated
  int numa = -1;                    ///< NUMA node; -1: not stated
  Evidence evidence{};              ///< its row
};

struct Matrix {
  std::string host{};  ///< that a tag before the lines names; empty: none
  std::vector<MatrixDevice> devices{};
  Evidence evidence{};  ///< the heading
};

/// @param line the heading, without codes of terminals. nullopt: it is none
std::optional<Matrix> matrix_of_heading(std::string_view line);
/// Takes a row or a line of the legend. @return false: the line is neither
bool take_matrix_line(Matrix& matrix, std::string_view line, const Evidence& evidence);

}  // namespace weft::report::topology
