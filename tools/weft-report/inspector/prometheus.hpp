#pragma once
// The Prometheus text that NCCL's Inspector writes with NCCL_INSPECTOR_PROM_DUMP=1: one file a GPU, written anew every 30 s. Pure.
//
//   2.29.3 to 2.29.7: a line an operation (labels comm_id, hostname, rank, gpu_device_id, coll_sn, message_size "4.00MB")
//   2.30: means since the last dump (labels node, gpu, comm_name, algo_proto, message_size "4-5GB", of which the lower bound is taken)

#include <string>
#include <string_view>
#include <vector>

#include "weft-report/inspector/records.hpp"

namespace weft::report::inspector {

/// Means of one GPU, communicator, operation and range of sizes.
struct Mean {
  std::string host{};
  std::string gpu{};           ///< "GPU0"
  std::string communicator{};  ///< its name, or its id
  std::int64_t rank = -1;      ///< 2.29 alone says it
  std::int64_t ranks = -1;
  std::int64_t nodes = -1;
  Kind kind{};
  std::uint64_t bytes = 0;  ///< as nccl-tests counts them
  std::string algorithm{};  ///< "Ring_ll"
  double busbw = 0;         ///< GB/s; 0: not stated
  double microseconds = 0;  ///< 0: not stated
};

struct Metrics {
  std::vector<Mean> means{};
  int bad_lines = 0;
  int first_bad = 0;
  std::string problem{};
  bool cut = false;  ///< the last line does not end
};

/// Whether a file that begins like this is one that read_metrics() takes.
bool opens_metrics(std::string_view start);
Metrics read_metrics(std::string_view content);

}  // namespace weft::report::inspector
