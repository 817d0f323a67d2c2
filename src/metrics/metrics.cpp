#include "weft/metrics/metrics.hpp"

#include <string>
#include <vector>

#include "collectives/diagnosis/agree.hpp"
#include "metrics/exposer.hpp"
#include "metrics/families.hpp"
#include "metrics/textfile.hpp"

namespace weft {
namespace {

void expect_equal(const std::vector<std::string>& account_every, const Communicator& comm) {
  for (std::size_t rank = 1; rank < account_every.size(); ++rank) {
    if (account_every[rank] != account_every[0])
      throw Error(ErrorKind::mismatch,
                  text("account_every is ", account_every[0], " on rank 0 and ", account_every[rank],
                       " on rank ", rank),
                  "give all ranks the same", {comm.rank(), "Metrics", 0});
  }
}

}  // namespace

class Metrics::State {
 public:
  State(const Communicator& comm, const MetricsOptions& options) : meter_(comm.meter()) {
    expect_equal(detail::agree(comm, "Metrics",
                               [&] {
                                 serve(comm, options);
                                 return weft::text(options.account_every);
                               }),
                 comm);
    meter_.account_every(options.account_every);
  }

  const std::string& address() const { return exposer_ ? exposer_->address() : nowhere_; }
  const Meter& meter() const { return meter_; }

 private:
  void serve(const Communicator& comm, const MetricsOptions& options) {
    if (!options.port && options.textfile.empty())
      throw Error(ErrorKind::usage, "metrics that nothing can read",
                  "set MetricsOptions::port, textfile, or both");
    if (options.port)
      exposer_.emplace([this] { return detail::text_of(meter_); }, options.bind, *options.port,
                       comm.topology().local_rank(comm.rank()), ErrorContext{comm.rank(), "Metrics", 0});
    if (!options.textfile.empty()) textfile_.emplace(meter_, options.textfile, options.textfile_every);
  }

  Meter meter_;
  std::string nowhere_;
  std::optional<detail::Exposer> exposer_;
  std::optional<detail::Textfile> textfile_;
};

Metrics::Metrics(const Communicator& comm, const MetricsOptions& options)
    : state_(std::make_unique<State>(comm, options)) {}
Metrics::~Metrics() = default;
Metrics::Metrics(Metrics&&) noexcept = default;

const std::string& Metrics::address() const {
  return state_->address();
}
std::string Metrics::text() const {
  return detail::text_of(state_->meter());
}
void Metrics::step(double seconds) const {
  state_->meter().step(seconds);
}

}  // namespace weft
