#pragma once
// The thread beside a job: writes what was recorded when it is asked to, and serves figures. One for each process that asks for it.
//
//   WEFT_PROFILER_DIR       folder: flight records (comm-HASH/rank-R.json) and a trace (trace-HOST-PID.json), when SIGUSR2 comes and when the file
//                           `now` in it is touched
//   WEFT_PROFILER_PORT      port on loopback for Prometheus; the next free one of 64
//   WEFT_PROFILER_TEXTFILE  folder of node_exporter: weft-nccl-PID.prom, every 15 s
//
// A handler of SIGUSR2 that the program has set itself is left alone. What cannot be done is said, once, and costs the job nothing.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft-report/profiler/recorder.hpp"

namespace weft::profiler {

struct Settings {
  std::string folder{};
  int port = 0;
  std::string textfile{};
  std::vector<std::string> problems{};  ///< of the environment
  bool asked() const { return !folder.empty() || port > 0 || !textfile.empty(); }
};
Settings settings_from_environment();

class Service {
 public:
  using Say = std::function<void(bool warns, const std::string& words)>;
  /// @param say is called by the constructor and by the service's thread
  Service(Recorder& recorder, Settings settings, Say say);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// What SIGUSR2 and the file `now` do. @return what went wrong; empty: nothing
  std::string write_all();
  /// The port that is served; 0: none
  int port() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::profiler
