#pragma once
// What all files of a run say, by communicator: the operations of each kind with the time that each rank took. Pure.

#include <array>
#include <span>
#include <string>
#include <vector>

#include "weft-report/inspector/prometheus.hpp"
#include "weft-report/inspector/records.hpp"

namespace weft::report::inspector {

/// One operation as one rank saw it.
struct Sample {
  std::uint32_t number = 0;  ///< of the operation among those of its kind
  std::uint32_t rank = 0;    ///< in Communicator::members
  float microseconds = 0;
  std::uint32_t when = 0;  ///< seconds since 1970
  std::uint16_t size = 0;  ///< in Communicator::sizes
  bool by_gpu = false;
};

struct Communicator {
  std::string id{};
  std::string name{};
  std::int64_t ranks = 0;
  std::int64_t nodes = 0;
  std::vector<Member> members{};  ///< that have a file, by rank
  std::vector<std::uint64_t> sizes{};
  std::array<std::vector<Sample>, kinds> operations{};  ///< by number, then rank
  bool whole_nodes = true;                              ///< whether no node has processes that are not in it
  std::size_t records() const;
  /// "0x7f8c496ae9f661 (DP Group 0)"
  std::string called() const;
};

/// Calls visit(std::span<const Sample>) with the samples of each operation, in the order of their numbers.
template <class Visit>
void each_operation(const std::vector<Sample>& samples, Visit&& visit) {
  for (std::size_t begin = 0; begin < samples.size();) {
    std::size_t end = begin + 1;
    while (end < samples.size() && samples[end].number == samples[begin].number) ++end;
    visit(std::span(samples).subspan(begin, end - begin));
    begin = end;
  }
}

struct Job {
  std::vector<Communicator> communicators{};  ///< the one with the most records first
  std::vector<Mean> means{};                  ///< of Prometheus files
  std::size_t files = 0;                      ///< that were Inspector's
  std::uint64_t records = 0;
  std::uint64_t left_out = 0;
  std::uint64_t lost = 0;
  std::vector<std::string> notes{};  ///< a line for each file that has something wrong, or is another's
};

/// @param all is emptied on the way, for memory's sake
Job job_of(std::vector<FileRecords>&& all);

}  // namespace weft::report::inspector
