#pragma once
// What one batch reads, and where its rows and their gradients lie on their way between ranks.
//
// Messages to and from a rank hold the tables' parts in turn. `wanted` is what this rank reads: rows come in, gradients go out, in one layout.
// `asked` is what other ranks read here.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "embedding/sample_sum.hpp"
#include "embedding/wanted_rows.hpp"
#include "weft/collectives/communicator.hpp"
#include "weft/core/buffer.hpp"

namespace weft::detail {

/// For each rank and table: how many rows, and where they begin, in rows and in numbers of f32.
class RowLayout {
 public:
  void lay_out(int ranks, std::span<const int> columns, const std::vector<std::int64_t>& counts);

  std::int64_t rows(int rank, std::size_t table) const {
    return rows_[at(rank, table) + 1] - rows_[at(rank, table)];
  }
  std::int64_t first_row(int rank, std::size_t table) const { return rows_[at(rank, table)]; }
  std::int64_t first_number(int rank, std::size_t table) const { return numbers_[at(rank, table)]; }
  std::int64_t rows_of(int rank) const { return first_row(rank + 1, 0) - first_row(rank, 0); }
  std::int64_t numbers_of(int rank) const { return first_number(rank + 1, 0) - first_number(rank, 0); }
  std::int64_t all_rows() const { return rows_.back(); }
  std::int64_t all_numbers() const { return numbers_.back(); }

 private:
  std::size_t at(int rank, std::size_t table) const {
    return static_cast<std::size_t>(rank) * tables_ + table;
  }

  std::size_t tables_ = 0;
  std::vector<std::int64_t> rows_{};  // ranks x tables + 1, and below
  std::vector<std::int64_t> numbers_{};
};

/// Memory that ranks of the node reach, and that only grows. Work under way keeps what it uses.
class GrowingBuffer {
 public:
  std::shared_ptr<Buffer> of(Communicator& comm, DataType dtype, std::int64_t count);

 private:
  std::shared_ptr<Buffer> buffer_{};
};

/// A part of a buffer for each rank, in elements.
struct PartOf {
  std::int64_t first;
  std::int64_t count;
};

struct BatchExchange {
  std::vector<WantedRows> wanted{};                   ///< for each table
  std::vector<std::vector<std::int64_t>> offsets{};   ///< of bags
  Work counted{};                                     ///< until then `counts_in` is not there
  std::shared_ptr<Buffer> counts_out{}, counts_in{};  ///< for each rank: samples, and rows of each table; i64
  std::shared_ptr<Buffer> slots_out{}, slots_in{};    ///< i32
  RowLayout wanted_layout{}, asked_layout{};
  std::vector<SampleRange> samples{};  ///< of each rank
  /// Gradients, where a row's sum is several parts on some rank: the parts of each row, then a sample of each part. Empty where each has one.
  struct Parts {
    std::shared_ptr<Buffer> words{};     ///< i32, for each rank
    std::vector<std::int64_t> first{};   ///< ranks + 1: where a rank's words begin
    std::vector<std::int64_t> number{};  ///< ranks + 1: where its numbers of f32 begin
  };
  Parts sent_parts{}, received_parts{};
  bool one_part = true;  ///< of each row, on all ranks
  Event done{};          ///< when nothing of it is used any more

  GrowingBuffer counts_memory[2]{}, slots_memory[2]{}, parts_memory[2]{}, sizes_memory[2]{};

  std::span<const std::int32_t> asked_slots(int rank, std::size_t table, int own) const;
  PartOf sent_gradients(int rank) const;
  PartOf received_gradients(int rank) const;
};

/// Sends this rank's parts of `out` to the others, and receives theirs into `in`. @returns bytes that leave this rank
std::int64_t exchange_parts(const Communicator& comm, ConstView out, const std::function<PartOf(int)>& out_of,
                            View in, const std::function<PartOf(int)>& in_of, const Stream& wire);

}  // namespace weft::detail
