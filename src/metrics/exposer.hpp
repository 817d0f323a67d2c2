#pragma once
// Figures over HTTP: answers GET /metrics, all scrapers in one thread. It knows nothing of what is served, and nothing of prometheus-cpp, so that
// programs compile it, too (weft-report watch).
//
//   Exposer exposer([&] { return text_of(meter); }, "127.0.0.1", 9400, 0, {});
//
// WRONG: figures that another thread alters without a lock: the exposer's thread asks for them whenever a scraper comes.

#include <unistd.h>

#include <functional>
#include <memory>
#include <string>

#include "weft/core/error.hpp"

namespace weft::detail {

class Exposer {
 public:
  /// What a scraper gets, in Prometheus' text format. Called in the exposer's thread; does not throw.
  using Figures = std::function<std::string()>;

  /// @param port of the first rank of a node; that of `local_rank` is as many further @param here who serves, for messages
  /// @throws Error (usage) naming address, port and rank
  Exposer(Figures figures, const std::string& bind, int port, int local_rank, const ErrorContext& here);
  ~Exposer();
  Exposer(const Exposer&) = delete;
  Exposer& operator=(const Exposer&) = delete;

  /// "http://127.0.0.1:9401/metrics"
  const std::string& address() const { return address_; }

 private:
  class Server;

  const pid_t owner_ = getpid();  ///< a child that it forks has neither its threads nor its connections
  std::string address_;
  std::unique_ptr<Server> server_;
};

}  // namespace weft::detail
