#pragma once
// What the kernel counts of this process's memory.

#include <fstream>
#include <string>

#include "weft/core/error.hpp"

namespace weft::bench {

/// A figure of this process, in MiB. @param key such as "VmSize:"
inline double status_mib(const std::string& key) {
  std::ifstream file("/proc/self/status");
  std::string word;
  double kib = 0;
  while (file >> word) {
    if (word == key && file >> kib) return kib / 1024;
  }
  throw Error(ErrorKind::system, text("/proc/self/status has no ", key));
}

/// From here on "VmHWM:" is the peak since this call.
inline void forget_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

}  // namespace weft::bench
