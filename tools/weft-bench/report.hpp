#pragma once
// Output: exactly the layouts of nccl-tests and OSU, so that their parsers work; CSV and JSON with all
// figures.

#include <iosfwd>

#include "common/outputs.hpp"
#include "options.hpp"
#include "weft/collectives/communicator.hpp"

namespace weft::bench {

/// The out-of-place and in-place results of a case; either may be missing.
struct Row {
  Case which;
  std::optional<Result> out_of_place;
  std::optional<Result> in_place;
};

class Report {
 public:
  /// @param devices a line a rank: "process 77 on host"
  Report(std::ostream& out, const Options& options, std::string backend, std::vector<std::string> places)
      : out_(out), options_(options), backend_(std::move(backend)), places_(std::move(places)) {}

  void begin();
  /// Printed before the rows of one collective, type and operation.
  void heading(const Case& which);
  void row(const Row& row);
  void end(std::int64_t wrong, double mean_bus_bandwidth);

 private:
  void nccl_row(const Row& row);
  void csv_row(const Result& result);

  std::ostream& out_;
  const Options& options_;
  std::string backend_;
  std::vector<std::string> places_;
};

/// @param network_bytes bytes that each rank sent between nodes in the whole run
std::string to_json(const Options& options, const std::vector<Row>& rows,
                    const std::vector<std::uint64_t>& network_bytes,
                    tool::Partial partial = tool::Partial::no);
/// A number as nccl-tests prints it: as many digits as fit the column.
std::string fitted(double value, int width);

}  // namespace weft::bench
