#pragma once
// Settings of a process or a host: NAME=VALUE, and where each comes from. Plain values; nothing here opens a file.

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/findings/finding.hpp"

namespace weft::report {

struct Setting {
  std::string name;
  std::string value;
  std::string file;  ///< "environment" for that of this process
  int line = 0;      ///< 0 where there are no lines
};

/// What one rank or host has set.
struct Settings {
  std::string who;  ///< the file, or "environment"
  std::map<std::string, Setting, std::less<>> values;
  std::vector<Finding> remarks;  ///< on lines that do not do what they look like
  bool whole = true;             ///< an environment, not only a configuration file of NCCL

  /// Null where it is not set.
  const Setting* find(std::string_view name) const;
};

/// How the lines of a file are read. environment: the output of env, a shell script with export, a manifest with name and value,
/// mpirun -x, /proc/PID/environ, or a log of NCCL that says what it took. configuration: as NCCL reads nccl.conf.
enum class Lines : bool { environment, configuration };

/// configuration for a name that ends in .conf.
Lines lines_of(std::string_view file);

/// @param file named in evidence. @throws Error (usage) for a binary file, an empty one, and one without any NAME=VALUE
Settings read_settings(const std::string& content, const std::string& file, Lines lines);

/// The process's own environment and, below it, the configuration files that NCCL reads, in its order: the first that sets a variable
/// wins. A value that another one hides becomes a remark.
/// @param environment lines NAME=VALUE. @param configurations may be empty or without any setting
Settings settings_of_process(const std::vector<std::string>& environment,
                             const std::vector<Settings>& configurations);

/// Evidence that shows a setting in at most 160 characters. Secrets are not shown.
Evidence evidence_of(const Setting& setting);
/// At most 160 characters, and of other than printable ASCII a ? each: for terminals and JSON.
std::string printable(std::string_view words);
/// "NAME=VALUE", printable and without secrets.
std::string shown(const Setting& setting);

}  // namespace weft::report
