#pragma once
// The rows of a table that a rank keeps in a file, with their state, and the ones that lie in memory.
//
// Three kinds of memory hold rows. The *cache* has rows that are read often, each in a place of its own. A *frame* has a span of the file, as
// long as a batch needs one of its rows that the cache lacks. All other rows are in the file alone. What is true of a row stands in the cache,
// if it is there; else in a frame of its span, if there is one; else in the file.
//
// A batch goes through three calls, and batches through each of them in one order:
//
//   rows.begin(slots);                        // which rows: reads those that are in no memory, behind the program
//   if (rows.is_read()) ...                   // of the oldest batch; and then its rows are at parts(slot)
//   rows.end(true);                           // the oldest batch: whether its rows were changed
//
// end() gives a row that was not in the cache a place there, if one is free, or if it is one of those that were read most often lately. The row
// whose place it takes goes back to its *home*, a position of the file that still holds it, or, if it was changed, to the position that the
// other row leaves: into a frame, so that an eviction reads nothing. So a row may lie anywhere in the file, and each row of the cache has a
// home there. Changed frames are written behind the program. Several batches may have begun: a row of two of them is in memory once. Which rows were read most often is found out every `refresh_every` batches, behind the program, and counts from a fixed batch on:
// figures are the same in each run.
//
// One thread at a time calls. A worker, a stream with a thread of its own, reads and writes the file and counts: it alone touches the ring. It
// touches memory of a frame only before is_read() says true to the batch that uses it, or after the last such batch has ended.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/files/file_ring.hpp"
#include "embedding/row_counts.hpp"
#include "embedding/row_record.hpp"
#include "weft/core/buffer.hpp"
#include "weft/core/stream.hpp"
#include "weft/embedding/table.hpp"

namespace weft::detail {

class RowsInFile {
 public:
  /// Fills a row before the first batch.
  using Fill = std::function<void(std::int64_t slot, std::span<float> row)>;
  /// Sees a record: a row and its state.
  using Visitor = std::function<void(std::int64_t slot, const RowParts& parts)>;

  /// State begins as zeros. @param rows 1 or more, of this rank @param places rows of the cache @param worker a queued stream
  /// @throws Error (system) without the space, the folder or io_uring, (usage) in a build without io_uring
  RowsInFile(const embedding::Table& table, std::int64_t rows, std::int64_t places, const RowRecord& record,
             int rank, Stream worker);
  RowsInFile(const RowsInFile&) = delete;
  RowsInFile& operator=(const RowsInFile&) = delete;
  /// Waits for the worker.
  ~RowsInFile();

  void fill(const Fill& fill);

  /// @param slots ascending, each once
  void begin(std::vector<std::int32_t> slots);
  /// Whether the rows of the oldest batch are in memory. @throws Error (system, timeout) that says what could not be read or written
  bool is_read();
  /// To sleep until is_read() may say something else.
  void rest(std::chrono::microseconds at_most) const { in_flight_.front().read.rest(at_most); }
  /// Tells the figures that the oldest batch is needed now; and that it had to wait so long.
  void needed();
  void waited(std::chrono::nanoseconds time) { stalled_ += time.count(); }
  /// Of a row of the oldest batch.
  RowParts parts(std::int32_t slot) { return record_.parts(memory_of(slot)); }
  float* row(std::int32_t slot) { return reinterpret_cast<float*>(memory_of(slot)); }
  /// The oldest batch needs its rows no longer. Blocks until they are read, if they were never waited for.
  void end(bool changed);
  std::size_t batches() const { return in_flight_.size(); }

  /// Sees the rows [first, first + count), each once, in the order in which they lie, wherever they are, while nothing is changed by others. Blocks.
  /// @param changes whether the visitor changes records; then no batch may be in flight
  void visit(std::int64_t first, std::int64_t count, bool changes, const Visitor& visitor);

  const RowRecord& record() const { return record_; }
  embedding::FileFigures figures() const;

 private:
  using Count = std::atomic<std::int64_t>;
  struct Batch {
    std::int64_t number = 0;
    std::vector<std::int32_t> slots{};
    std::vector<std::int32_t> frames{};  ///< each once
    Event read{};
    std::shared_ptr<Count> spans_read = std::make_shared<Count>(0);
    std::int64_t spans = 0;  ///< to be read
  };
  struct Frame {
    std::byte* memory = nullptr;
    std::int64_t span = -1;  ///< of the file; below 0 while the frame is free
    std::int64_t used_until = 0;
    int tasks = 0;  ///< of the worker that write it
    bool changed = false;
  };
  struct Moved {  ///< between a frame and the file
    std::int64_t span;
    std::byte* memory;
  };
  struct Choice {
    Event made{};
    std::int64_t from = 0;  ///< the batch at whose end it counts
    std::shared_ptr<RowSet> rows{};
  };

  std::int64_t span_of(std::int32_t position) const { return position / record_.per_span(); }
  std::size_t at_in_span(std::int32_t position) const {
    return static_cast<std::size_t>(position % record_.per_span()) * record_.bytes();
  }
  FileRing::Span part_of(std::int64_t span) const {
    return {static_cast<std::uint64_t>(span) * record_.span_bytes(), record_.span_bytes()};
  }
  std::byte* place(std::int32_t number) {
    return cache_.view().bytes() + static_cast<std::size_t>(number) * record_.bytes();
  }
  std::int32_t& frame_of(std::int32_t position) {
    return frame_of_[static_cast<std::size_t>(span_of(position))];
  }
  std::byte* in_frame(std::int32_t position) {
    return frames_[static_cast<std::size_t>(frame_of(position))].memory + at_in_span(position);
  }
  std::byte* memory_of(std::int64_t slot);
  std::int32_t free_frame();
  void free_if_unused(std::int32_t frame);
  void reclaim();
  void choose();
  bool may_enter(std::int32_t slot) const;
  std::optional<std::int32_t> free_place();
  void enter(std::int32_t slot, std::int32_t place, bool changed);
  template <class Work>
  void on_worker(Work work);
  void read_spans(const std::vector<Moved>& spans, Count& done);
  void write_spans(const std::vector<Moved>& spans);
  void visit_on_worker(std::int64_t first, std::int64_t end, bool changes, const Visitor& visitor);

  std::string name_;
  int rank_;
  int refresh_every_;
  std::int64_t rows_;
  RowRecord record_;
  std::int64_t places_;
  Buffer cache_;
  std::unique_ptr<FileRing> ring_;  ///< the worker's
  // The caller's
  std::vector<std::int32_t> where_;  ///< of each row: its place in the cache, or ~ its position in the file
  std::vector<std::int32_t> frame_of_;         ///< of each span; below 0: none
  std::vector<std::int32_t> slot_of_{};        ///< of each place that is taken; and so on
  std::vector<std::int32_t> home_{};           ///< a position of the file that no other row has
  std::vector<std::int64_t> place_used_{};     ///< until which batch
  std::vector<std::uint8_t> place_changed_{};  ///< its home does not hold the row as it is
  std::size_t hand_ = 0;                       ///< the place that is looked at next for a row to evict
  bool all_stay_ = false;                      ///< the hand went around in vain
  std::shared_ptr<const RowSet> hot_;
  std::optional<Choice> choice_{};
  std::vector<Frame> frames_{};
  std::vector<std::int32_t> free_{};
  std::vector<Buffer> frame_memory_{};
  struct Pending {
    Event written;
    std::vector<std::int32_t> frames;
  };
  std::deque<Pending> pending_{};
  std::deque<Batch> in_flight_{};
  std::int64_t last_begun_ = 0, last_ended_ = 0;
  // The worker's
  RowCounts counts_;
  std::shared_ptr<const RowSet> chosen_;
  // Figures, of both
  Count hits_{0}, misses_{0}, reads_{0}, reads_hidden_{0}, bytes_read_{0}, bytes_written_{0}, stalled_{0},
      evictions_{0}, cached_{0};
  Count memory_;
  Stream worker_;
};

}  // namespace weft::detail
