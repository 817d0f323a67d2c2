#pragma once
// Figures for Prometheus while weft-scaling trains: serving.cpp, or serving_left_out.cpp in a program that is built without prometheus-cpp.

#include <memory>
#include <string>

#include "options.hpp"
#include "weft/collectives/communicator.hpp"

namespace weft::scaling {

/// @throws Error (usage) in a program that cannot serve
void expect_serving();

/// Serves as long as it lives.
class Served {
 public:
  virtual ~Served() = default;
  /// "http://127.0.0.1:9400/metrics"
  virtual const std::string& address() const = 0;
};
/// Collective. Null without --metrics.
std::unique_ptr<Served> serve_metrics(const Communicator& comm, const Options& options);

}  // namespace weft::scaling
