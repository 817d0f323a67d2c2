#pragma once
// The two ways out of a meter's figures: HTTP, and a file. Each has threads of its own.
//
// MeterExposer answers GET /metrics, all scrapers in one thread.
//
// Textfile writes into a folder that node_exporter's textfile collector reads, now and then. Each file is
// whole: it is written under a name that the collector does not read, and renamed.

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "metrics/families.hpp"

namespace weft::detail {

class MeterExposer {
 public:
  /// @throws Error (usage) naming address, port and rank
  MeterExposer(const Meter& meter, const std::string& bind, int port, int local_rank);
  ~MeterExposer();
  MeterExposer(const MeterExposer&) = delete;
  MeterExposer& operator=(const MeterExposer&) = delete;

  /// "http://127.0.0.1:9401/metrics"
  const std::string& address() const { return address_; }

 private:
  class Server;

  const pid_t owner_ = getpid();  ///< a child that it forks has neither its threads nor its connections
  std::string address_;
  std::unique_ptr<Server> server_;
};

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

/// While it lives, new threads block all signals, so that the program's own threads handle the signals of the
/// process.
class BlockedSignals {
 public:
  BlockedSignals();
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  struct Before;
  std::unique_ptr<Before> before_;
};

}  // namespace weft::detail
