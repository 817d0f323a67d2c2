#include "earlier.hpp"

#include "core/files/input_file.hpp"
#include "strategy.hpp"
#include "weft/core/error.hpp"

namespace weft::scaling {
namespace {

/// "host" of "host (shared memory)": where ranks compute. The transport may differ: it may be what is
/// compared.
std::string device_of(const std::string& backend) {
  return backend.substr(0, backend.find(' '));
}

void same(const std::string& file, const char* what, const auto& before, const auto& now) {
  if (before == now) return;
  throw Error(ErrorKind::usage,
              text("--compare ", file, ": ", what, " ", before, " there, ", now, " in this run"),
              "compare runs of the same model, ranks and device");
}

}  // namespace

report::EarlierRun read_earlier(const std::string& file) {
  return report::parse_earlier_run(
      detail::read_input(file, text("--compare ", file), {.source = detail::Source::file_or_pipe}), file);
}

void check_comparable(const report::EarlierRun& earlier, const Options& options, const Communicator& comm) {
  same(earlier.file, "the model is", earlier.model, options.model);
  same(earlier.file, "the number of ranks is", earlier.ranks, comm.size());
  same(earlier.file, "the device is", device_of(earlier.backend), device_of(comm.backend()));
  const std::int64_t counting = options.steps - first_counted(options);
  if (counting < static_cast<std::int64_t>(report::fewest_samples)) {
    throw Error(ErrorKind::usage,
                text("--compare with --steps ", options.steps, ": ", counting,
                     " steps count, and a verdict needs ", report::fewest_samples, " or more"));
  }
}

report::Comparison compare(const report::EarlierRun& earlier, const Setting& setting,
                           const std::vector<Run>& runs) {
  std::vector<report::Samples> now;
  now.reserve(runs.size());
  for (const Run& run : runs) now.push_back({run.strategy, run.samples});
  const bool same_backend = earlier.backend == setting.backend;
  return report::compare(same_backend ? earlier.file : text(earlier.file, " on ", earlier.backend),
                         earlier.strategies, now);
}

}  // namespace weft::scaling
