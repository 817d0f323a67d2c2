// Tables in files: which rows a batch needs here, when their reading begins, and who waits for it.

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "embedding/sharded_tables_state.hpp"

namespace weft::embedding {
namespace {

using Clock = std::chrono::steady_clock;
using detail::BatchExchange;
using detail::DigitSort;
using detail::HeldRows;
using detail::RowsInFile;

/// Holds the wire up until the rows of the oldest batch are in memory.
class FilesRead final : public Task {
 public:
  explicit FilesRead(std::vector<HeldRows>& held) : held_(held) {}

  bool advance() override {
    if (!began_) {
      began_ = Clock::now();
      each([](RowsInFile& file) { file.needed(); });
    }
    waits_for_ = nullptr;
    each([this](RowsInFile& file) {
      if (waits_for_ == nullptr && !file.is_read()) waits_for_ = &file;
    });
    if (waits_for_ != nullptr) {
      last_ = waits_for_;
      return false;
    }
    if (last_ != nullptr) last_->waited(Clock::now() - *began_);
    return true;
  }
  void rest(std::chrono::microseconds at_most) override {
    if (waits_for_ != nullptr) waits_for_->rest(at_most);
  }

 private:
  template <class Work>
  void each(const Work& work) {
    for (HeldRows& held : held_) {
      if (held.file() != nullptr) work(*held.file());
    }
  }

  std::vector<HeldRows>& held_;
  std::optional<Clock::time_point> began_{};
  RowsInFile* waits_for_ = nullptr;
  RowsInFile* last_ = nullptr;  ///< the stall is its, for there is one stall for all files
};

}  // namespace

/// Rows of this rank, each once, whichever ranks ask for it.
void ShardedTables::State::begin_reading(const BatchExchange& batch) {
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    RowsInFile* const file = held_[t].file();
    if (file == nullptr) continue;
    std::vector<DigitSort::Item>& items = update_sort_.items();
    items.clear();
    for (int rank = 0; rank < ranks_; ++rank) {
      for (const std::int32_t slot : batch.asked_slots(rank, t, rank_))
        items.push_back({static_cast<std::uint64_t>(slot), 0});
    }
    update_sort_.sort(static_cast<std::uint64_t>(std::max<std::int64_t>(1, places_[t].rows_of(rank_)) - 1));
    std::vector<std::int32_t> slots;
    slots.reserve(items.size());
    for (const DigitSort::Item& item : items) {
      const auto slot = static_cast<std::int32_t>(item.key);
      if (slots.empty() || slots.back() != slot) slots.push_back(slot);
    }
    file->begin(std::move(slots));
  }
}

void ShardedTables::State::wait_for_files() {
  wire_.submit(std::make_unique<FilesRead>(held_));
}

void ShardedTables::State::end_reading(bool changed) {
  for (HeldRows& held : held_) {
    if (held.file() != nullptr) held.file()->end(changed);
  }
  count();
}

/// For the meter. What is still being written comes with the next batch.
void ShardedTables::State::count() {
  const FileFigures now = file_figures();
  const auto add = [](detail::Count& count, detail::Growth& growth, std::int64_t sum) {
    count.add(static_cast<std::uint64_t>(growth.of(static_cast<double>(sum))));
  };
  add(counters_->table_hits, counted_.hits, now.hits);
  add(counters_->table_misses, counted_.misses, now.misses);
  add(counters_->table_read_bytes, counted_.read, now.bytes_read);
  add(counters_->table_written_bytes, counted_.written, now.bytes_written);
  counters_->table_stalls.add(counted_.stalled.of(now.stall_seconds));
}

FileFigures ShardedTables::State::file_figures() const {
  FileFigures sum;
  for (const HeldRows& held : held_) {
    if (held.file() == nullptr) continue;
    const FileFigures one = held.file()->figures();
    sum.hits += one.hits;
    sum.misses += one.misses;
    sum.reads += one.reads;
    sum.reads_hidden += one.reads_hidden;
    sum.bytes_read += one.bytes_read;
    sum.bytes_written += one.bytes_written;
    sum.stall_seconds += one.stall_seconds;
    sum.evictions += one.evictions;
    sum.rows_in_memory += one.rows_in_memory;
    sum.memory_bytes += one.memory_bytes;
    sum.file_bytes += one.file_bytes;
  }
  return sum;
}

}  // namespace weft::embedding
