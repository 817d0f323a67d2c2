#pragma once
// A setting as what a run and its files need: variables, a table of algorithms, and the files in which a user keeps both.
//
//   const Environment run = environment_of(setting, facts, {.table = "/shared/tuned/nccl-tuner.csv", .tuner = "weft"});
//   for (const SettingFile& file : files_of(setting, facts, places)) write(folder + "/" + file.name, file.content);

#include <string>
#include <vector>

#include "weft-report/tuning/command.hpp"
#include "weft-report/tuning/space.hpp"

namespace weft::report::tuning {

struct Places {
  std::string table{};         ///< path of the table of algorithms
  std::string tuner = "weft";  ///< NCCL_TUNER_PLUGIN
};

struct SettingFile {
  std::string name;
  std::string content;
};

/// Variables of a run; the table is named where the setting has ranges.
Environment environment_of(const Setting& setting, const Facts& facts, const Places& places);

/// The ranges as a tuner's CSV (nccl) or a table for WEFT_ALGORITHMS (weft).
std::string table_of(const Setting& setting, const Facts& facts);
/// "nccl-tuner.csv" or "algorithms.txt"
std::string table_name(Library library);

/// Their names, whatever is kept: nccl.conf (of NCCL alone), settings.sh, mpirun-flags.txt, and the table.
std::vector<std::string> file_names(Library library);
std::vector<SettingFile> files_of(const Setting& setting, const Facts& facts, const Places& places);

}  // namespace weft::report::tuning
