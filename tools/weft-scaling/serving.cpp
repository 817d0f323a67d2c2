#include "serving.hpp"

#include "weft/metrics/metrics.hpp"

namespace weft::scaling {

void expect_serving() {}

std::unique_ptr<Served> serve_metrics(const Communicator& comm, const Options& options) {
  class ByHttp final : public Served {
   public:
    ByHttp(const Communicator& comm, const MetricsOptions& options) : metrics_(comm, options) {}
    const std::string& address() const override { return metrics_.address(); }

   private:
    Metrics metrics_;
  };
  if (!options.metrics) return nullptr;
  MetricsOptions served{.port = options.metrics};
  if (options.metrics_bind) served.bind = *options.metrics_bind;
  return std::make_unique<ByHttp>(comm, served);
}

}  // namespace weft::scaling
