#pragma once
// Times and bandwidths of each communicator, operation and size, over the run and by parts of it. Pure.
//
// The time of an operation is the median of its ranks; where a rank always comes last (stragglers.hpp), that rank's, for the others' times hold
// what they wait for it.

#include <optional>
#include <vector>

#include "weft-report/bandwidth/tables.hpp"
#include "weft-report/inspector/job.hpp"
#include "weft-report/inspector/stragglers.hpp"

namespace weft::report::inspector {

/// Operations that follow each other.
struct Window {
  std::uint32_t first = 0;  ///< number of its first operation
  std::uint32_t when = 0;   ///< of that, seconds since 1970
  double microseconds = 0;  ///< median
};

/// From some operation on, operations took longer or shorter, and go on to.
struct Change {
  std::uint32_t number = 0;
  std::uint32_t when = 0;
  double before = 0;  ///< microseconds
  double after = 0;
  double times() const { return after / before; }
};

struct SizeRow {
  std::size_t communicator = 0;  ///< in Job::communicators
  Kind kind{};
  std::uint64_t bytes = 0;
  std::uint64_t operations = 0;
  std::uint64_t records = 0;  ///< of all ranks
  double median_us = 0;       ///< of operations
  double p99_us = 0;
  double first_half_us = 0;  ///< median; 0: fewer than 4 operations
  double second_half_us = 0;
  double algbw = 0;  ///< GB/s, at the median
  double busbw = 0;  ///< 0: the operation has none
  std::vector<Window> windows{};
  std::optional<Change> change{};
};

/// By communicator, kind and size. @param comparisons one for each communicator
std::vector<SizeRow> rows_of(const Job& job, const std::vector<Comparison>& comparisons);
/// A step between windows that noise does not make; where several would do, the one that leaves the least apart.
std::optional<Change> change_of(const std::vector<Window>& windows);

/// What the judge of nccl-tests' tables takes: a table for each communicator and collective. A size's operations of the first half of the run
/// stand for nccl-tests' out of place, those of the second half for in place: two measurements, of which one may have been disturbed.
std::vector<bandwidth::Table> tables_of(const Job& job, const std::vector<SizeRow>& rows,
                                        const std::string& gpu);

}  // namespace weft::report::inspector
