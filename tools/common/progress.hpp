#pragma once
// What a program is doing, how far it is and how long it still takes, on standard error.
//
// On a terminal that is one line, drawn anew several times a second and removed at the end. Elsewhere (mpirun pipes standard error) it
// is a plain line after 2 s and then every 10 s. With --quiet there is none.
//
//   tool::Progress progress("weft-scaling", options.quiet ? tool::Quiet::yes : tool::Quiet::no);
//   progress.prepare("connecting 4 ranks");
//   progress.begin("steps", 400);
//   while (...) { train(); progress.advance(); }
//   progress.aside([&] { std::cout << row; });       // prints lines where the progress line stands
//
// Any thread may call. A thread of its own draws, because what takes long need not call anything.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace weft::tool {

/// Whether a program was told --quiet: it prints the figures alone.
enum class Quiet : bool { no, yes };

class Progress {
 public:
  Progress(std::string program, Quiet quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// @param what completes "preparing: "
  void prepare(std::string what);
  /// Work of `total` parts, from which the rest of the time is estimated. @param parts their name: "steps"
  void begin(std::string parts, std::int64_t total);
  /// The same of parts that take different times. @param weights of each, in order
  void begin(std::string parts, std::vector<double> weights);
  void advance();
  /// Names what is being done, without another count.
  void doing(std::string what);
  /// Takes the line away, prints, and lets it come back.
  void aside(const std::function<void()>& print);
  /// Takes the line away for good.
  void end();

 private:
  struct State;
  std::shared_ptr<State> state_;  // none where nothing is shown
};

/// "34 s", "2 min 5 s", "3 h 20 min"
std::string time_left(double seconds);

/// Takes away the line of the process's Progress, if there is one: where a signal ends the process.
void end_progress();

}  // namespace weft::tool
