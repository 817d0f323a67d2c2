#pragma once
// The machines of a plan: constants that are published, and at most four numbers that are fitted to published
// runs. Both come from a file (hardware/NAME.json), which gives each constant its origin and keeps the runs.
//
//   const Hardware hardware = hardware_named("a100-80g");       // or read_hardware(text, "my.json")
//
// Rates are of one GPU and one direction, in bytes or operations a second. Plain values, any thread.

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace weft::scale {

/// The way between GPUs of a node, or between nodes.
struct Link {
  double rate = 0;     ///< of a GPU, with all others busy
  double latency = 0;  ///< seconds of a step of a ring or a tree
  double share = 0;    ///< of the rate that large collectives reach
};

struct Hardware {
  std::string name;
  double bf16 = 0;  ///< peak, dense; fp16 has the same
  double fp8 = 0;   ///< 0: has none
  int multiprocessors = 0;
  double memory_bytes = 0;
  double memory_rate = 0;
  double attention = 0;  ///< operations a second of fused attention, forward and backward
  int gpus_per_node = 0;
  Link node, network;
  double collective_latency = 0;    ///< seconds to begin one
  double communication_blocks = 0;  ///< multiprocessors that a collective takes from what runs beside it
  // Fitted:
  double gemm = 1;      ///< share of the peak that large products reach
  double gemm_fp8 = 1;  ///< of the fp8 peak
  double memory = 1;    ///< share of the memory's rate that kernels reach which only read and write
  double send = 1;      ///< share of the network's rate that a message between two stages reaches
  std::map<std::string, double> software{};  ///< factor of a software's computing and sending; 1 where absent

  std::string default_software;
  /// Half the width of the interval that is stated, as a share of the value.
  double uncertainty = 0;
};

/// What a file holds.
struct HardwareFile {
  Hardware hardware;
  std::vector<std::string> fitted;  ///< names: "gemm", "gemm_fp8", "memory", "send" or a software's
  std::string text;                 ///< the file itself, whose rows calibration.hpp reads
};

/// A number by the name that it has in `fitted`. @throws Error (usage) for a name that is none
double& number_of(Hardware& hardware, const std::string& name);

/// Names of the files that are built in.
std::vector<std::string> known_hardware();
/// @throws Error (usage) for an unknown name, with the nearest one
HardwareFile hardware_named(std::string_view name);
/// @param source what errors call the text. @throws Error (usage) for what is no hardware
HardwareFile read_hardware(const std::string& text, const std::string& source);

}  // namespace weft::scale
