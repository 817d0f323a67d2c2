#pragma once
// The files that a program writes at its end, and what it leaves when Ctrl-C (SIGINT) or SIGTERM ends it before.
//
//   tool::Outputs outputs("weft-bench");                    // from here on a signal ends the program tidily
//   outputs.open("--json", options.json);                   // before the work: who cannot have the file hears so now
//   const auto rows = std::make_shared<std::vector<Row>>();
//   outputs.keep([rows] { return tool::Kept{.how_far = "3 rows", .files = {{"--json", json_of(*rows, Partial::yes)}}}; });
//   while (measure(row)) outputs.change([&] { rows->push_back(row); });
//   outputs.write({{"--json", json_of(*rows)}});
//
// A signal writes what keep()'s function returns, whole files that say that they are partial, and ends the process with 130 or 143. Without
// that, and without a write(), the files are what they were before. One thread calls; another serves the signal.
//
// WRONG: rows->push_back(row) without change(): the thread that serves a signal may be reading them.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

namespace weft::tool {

/// Figures of a program that a signal ended say so: "partial": true.
enum class Partial : bool { no, yes };

/// Contents of files, by the option that named them: "--json".
using Contents = std::map<std::string, std::string>;

/// What there is before the work is done.
struct Kept {
  std::string how_far{};  ///< "15 of 40 steps"; empty: nothing is written
  std::string printed{};  ///< for people
  Contents files{};
};

class Outputs {
 public:
  /// @param program its name, for what it says when a signal ends it
  explicit Outputs(std::string program);
  ~Outputs();
  Outputs(const Outputs&) = delete;
  Outputs& operator=(const Outputs&) = delete;

  /// @param path a file, - for standard output, or none. @throws Error (usage) "--json FILE: cannot write it: ...", also where two options
  /// name one file, and where two name standard output
  void open(const std::string& option, const std::optional<std::string>& path);
  bool has(const std::string& option) const;
  /// A signal ends this process without a word: another one speaks for it.
  void silence();
  /// What is printed for people goes here: standard error where figures go to standard output.
  std::ostream& people() const;
  /// What a signal writes. @param so_far reads what change() alters; what it holds lives as long as this
  void keep(std::function<Kept()> so_far);
  /// Alters what there is, while no signal is served.
  void change(const std::function<void()>& alter);
  /// Writes every file that was opened. A signal waits until that is done. @throws Error (system) naming the option and the file; the files
  /// that could be written are
  void write(const Contents& contents);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::tool
