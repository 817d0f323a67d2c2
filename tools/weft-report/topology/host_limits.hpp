#pragma once
// Single lines and short parts of what tools say of a host: `ulimit -a` of any shell, /proc/PID/limits, `lspci -vvv`.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weft-report/topology/topology.hpp"

namespace weft::report::topology {

enum class LimitOf : std::uint8_t { locked_memory, open_files };

/// A soft limit of a process.
struct Limit {
  LimitOf of = LimitOf::open_files;
  std::int64_t value = 0;  ///< bytes of locked memory, or files; -1: unlimited
  std::string host{};      ///< that a tag before the line names; empty: none
  Evidence evidence{};
};

/// nullopt: the line is none of them.
std::optional<Limit> limit_of(std::string_view line);

/// A device of `lspci -vvv`.
struct PciStatus {
  std::string host{};
  std::string bus{};    ///< "18:00.0", "0000:18:00.0"
  std::string what{};   ///< "3D controller", "Infiniband controller"
  PciLink able{};       ///< LnkCap
  PciLink now{};        ///< LnkSta: a GPU without work lowers its speed, but not its width
  Evidence evidence{};  ///< the line of LnkSta
};

/// Whether a device begins: "18:00.0 PCI bridge: ...".
bool begins_pci_device(std::string_view line);
/// "18:00.0 3D controller: NVIDIA Corporation ..." without a tag. nullopt: another line, or a device that moves no data of the job
std::optional<PciStatus> pci_status_of(std::string_view line);
/// LnkCap or LnkSta of the device above. @return false: the line is neither
bool take_pci_line(PciStatus& status, std::string_view line, const Evidence& evidence);

}  // namespace weft::report::topology
