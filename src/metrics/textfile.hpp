#pragma once
// A meter's figures in a file, for node_exporter's textfile collector: written now and then, by a thread of its own.
//
// Each file is whole: it is written under a name that the collector does not read, and renamed.

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "metrics/families.hpp"

namespace weft::detail {

class Textfile {
 public:
  /// @throws Error (usage) if the folder cannot be written
  Textfile(const Meter& meter, const std::string& folder, std::chrono::milliseconds every);
  /// Removes the file: what it says would look like a rank that stands still.
  ~Textfile();
  Textfile(const Textfile&) = delete;
  Textfile& operator=(const Textfile&) = delete;

 private:
  /// @returns what went wrong; empty if nothing
  std::string write() const;
  void run();

  const pid_t owner_ = getpid();  ///< a child that it forks has neither its threads nor its connections
  Meter meter_;
  std::string path_;
  std::string draft_;
  std::chrono::milliseconds every_;
  std::mutex mutex_;
  std::condition_variable wakes_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace weft::detail
