#pragma once
// Reads the files that NCCL's Inspector wrote: a folder with all that is below it, or one file. Files are read by several threads; what is kept
// of them is bounded (Limits).

#include <string>

#include "weft-report/inspector/job.hpp"

namespace weft::report::inspector {

struct Limits {
  std::uint64_t most_records = std::uint64_t{4} << 20;  ///< of all files: 160 MB at most
  unsigned threads = 0;                                 ///< 0: as many as there are cores, at most 16
};

/// A file that is another's, cut or wrong costs its records alone; Job::notes says so.
/// @throws Error (usage) for a path that is not there, and where nothing below it is Inspector's
Job read_folder(const std::string& path, const Limits& limits = {});

}  // namespace weft::report::inspector
