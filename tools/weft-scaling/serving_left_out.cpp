#include "serving.hpp"
#include "weft/core/error.hpp"

namespace weft::scaling {

void expect_serving() {
  throw Error(ErrorKind::usage, "--metrics: this weft-scaling is built without prometheus-cpp",
              "install it (Debian: prometheus-cpp-dev), and configure with -DWEFT_METRICS=ON");
}

std::unique_ptr<Served> serve_metrics(const Communicator& /*comm*/, const Options& /*options*/) {
  return nullptr;
}

}  // namespace weft::scaling
