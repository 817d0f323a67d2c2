#pragma once
// The answers in tests/unit/tools/weft-report/ras/answers, which NCCL's own code made.

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace weft::test {

inline std::string answers_folder() {
  return std::string(WEFT_SOURCE_DIR) + "/tests/unit/tools/weft-report/ras/answers/";
}

inline std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::ostringstream all;
  all << in.rdbuf();
  return std::move(all).str();
}

/// By version and form ("text", "verbose", "json"), the answer of each state.
using Recorded = std::map<std::string, std::map<std::string, std::string>>;

inline Recorded recorded_answers() {
  Recorded all;
  std::istringstream versions(content_of(answers_folder() + "versions"));
  for (std::string row; std::getline(versions, row);) {
    std::istringstream words(row);
    std::string version;
    words >> version;
    for (std::string file; words >> file;) {
      std::istringstream lines(content_of(answers_folder() + file));
      std::string* answer = nullptr;
      for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("##### ")) {
          const std::size_t space = line.rfind(' ');
          answer = &all[version + ' ' + line.substr(space + 1)][line.substr(6, space - 6)];
          continue;
        }
        if (const std::size_t at = line.find("VERSION"); at != std::string::npos)
          line.replace(at, 7, version);
        if (answer == nullptr) throw std::runtime_error(file + " does not begin with a state");
        *answer += line + '\n';
      }
    }
  }
  return all;
}

inline std::string recorded_answer(const std::string& version_and_form, const std::string& state) {
  static const Recorded all = recorded_answers();
  return all.at(version_and_form).at(state);
}

}  // namespace weft::test
