#include "embedding/rows_in_file.hpp"

#include <algorithm>
#include <cstring>

#include "core/memory/host_memory.hpp"
#include "weft/core/env.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

/// Spans of the file that are read or written at a time.
constexpr std::int64_t most_at_once = 64;
constexpr std::size_t frames_at_once = 64;

std::chrono::nanoseconds transfer_timeout() {
  const std::chrono::duration<double> seconds(Environment::of_process().number(env::timeout));
  return std::chrono::duration_cast<std::chrono::nanoseconds>(seconds);
}

template <class Work>
auto for_table(const std::string& name, int rank, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(error.kind(), text("the file of table ", name, ": ", error.problem()), error.advice(),
                {rank, "ShardedTables", 0});
  }
}

std::unique_ptr<FileRing> make_ring(const embedding::Table& table, std::int64_t rows, const RowRecord& record,
                                    int rank) {
  return for_table(table.name, rank, [&] {
    const std::int64_t spans = record.spans(rows);
    const std::int64_t places = std::min(most_at_once, spans);
    ScratchFile file(table.file.directory, static_cast<std::size_t>(spans) * record.span_bytes());
    return std::make_unique<FileRing>(
        std::move(file),
        Buffer::on_host(DataType::u8, places * static_cast<std::int64_t>(record.span_bytes()) +
                                          static_cast<std::int64_t>(ScratchFile::block)),
        static_cast<std::size_t>(places), transfer_timeout());
  });
}

/// Bytes of lists that have an entry for each row, span or place.
std::size_t list_bytes(std::int64_t rows, std::int64_t places, const RowRecord& record) {
  const auto of_rows = static_cast<std::size_t>(rows);
  const std::size_t counts = places > 0 ? of_rows * sizeof(std::uint16_t) + 2 * (of_rows / 8) : 0;
  const std::size_t of_places =
      static_cast<std::size_t>(places) * (2 * sizeof(std::int32_t) + sizeof(std::int64_t) + 1);
  return counts + of_places + sizeof(std::int32_t) * (of_rows + static_cast<std::size_t>(record.spans(rows)));
}

Buffer make_cache(const embedding::Table& table, std::int64_t rows, std::int64_t places,
                  const RowRecord& record, int rank) {
  const std::size_t bytes = static_cast<std::size_t>(places) * record.bytes();
  const std::size_t lists = list_bytes(rows, places, record);
  if (const auto left = memory_left(); left && bytes + lists > *left)
    throw Error(ErrorKind::system,
                text("table ", table.name, " keeps ", places, " of ", rows, " rows of this rank in memory: ",
                     bytes, " bytes, and ", lists, " of lists, and ", *left, " are left"),
                "keep fewer there (RowFile::rows_in_memory), or use more hosts", {rank, "ShardedTables", 0});
  return Buffer::on_host(DataType::u8, static_cast<std::int64_t>(bytes), Contents::any);
}

}  // namespace

RowsInFile::RowsInFile(const embedding::Table& table, std::int64_t rows, std::int64_t places,
                       const RowRecord& record, int rank, Stream worker)
    : name_(table.name),
      rank_(rank),
      refresh_every_(table.file.refresh_every),
      rows_(rows),
      record_(record),
      places_(places),
      cache_(make_cache(table, rows, places, record, rank)),
      ring_(make_ring(table, rows, record, rank)),
      where_(static_cast<std::size_t>(rows)),
      frame_of_(static_cast<std::size_t>(record.spans(rows)), -1),
      hot_(std::make_shared<const RowSet>(places > 0 ? rows : 0)),
      counts_(places > 0 ? rows : 0),
      chosen_(hot_),
      memory_(static_cast<std::int64_t>(cache_.size_bytes() + list_bytes(rows, places, record))),
      worker_(std::move(worker)) {
  for (std::size_t slot = 0; slot < where_.size(); ++slot) where_[slot] = ~static_cast<std::int32_t>(slot);
}

RowsInFile::~RowsInFile() {
  try {
    worker_.synchronize();
  } catch (...) {  // NOLINT(bugprone-empty-catch): who waited for rows has heard of it
  }
}

template <class Work>
void RowsInFile::on_worker(Work work) {
  worker_.run([this, work = std::move(work)] { for_table(name_, rank_, work); });
}

void RowsInFile::fill(const Fill& fill) {
  constexpr std::int64_t bytes_at_once = std::int64_t{1} << 20;
  const std::int64_t spans_at_once =
      std::max<std::int64_t>(1, bytes_at_once / static_cast<std::int64_t>(record_.span_bytes()));
  const std::int64_t rows_at_once = spans_at_once * record_.per_span();
  for (std::int64_t first = 0; first < rows_; first += rows_at_once) {
    const std::int64_t count = std::min(rows_at_once, rows_ - first);
    auto spans = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(record_.spans(count)) *
                                                          record_.span_bytes());
    for (std::int64_t i = 0; i < count; ++i) {
      std::byte* const record = spans->data() +
                                static_cast<std::size_t>(i / record_.per_span()) * record_.span_bytes() +
                                at_in_span(static_cast<std::int32_t>(i));
      fill(first + i, {record_.parts(record).row, static_cast<std::size_t>(record_.columns)});
    }
    on_worker([this, first, spans] {
      for (std::size_t at = 0; at < spans->size(); at += record_.span_bytes()) {
        const auto span = first / record_.per_span() + static_cast<std::int64_t>(at / record_.span_bytes());
        std::memcpy(ring_->take_unread(part_of(span)).data(), spans->data() + at, record_.span_bytes());
        ring_->put_back(true);
      }
    });
    worker_.synchronize();
  }
  on_worker([this] { ring_->settle(); });
  worker_.synchronize();
}

std::byte* RowsInFile::memory_of(std::int64_t slot) {
  const std::int32_t where = where_[static_cast<std::size_t>(slot)];
  return where >= 0 ? place(where) : in_frame(~where);
}

void RowsInFile::begin(std::vector<std::int32_t> slots) {
  reclaim();
  Batch& batch = in_flight_.emplace_back();
  batch.number = ++last_begun_;
  batch.slots = std::move(slots);
  std::vector<Moved> reads;
  std::int64_t hits = 0;
  for (const std::int32_t slot : batch.slots) {
    const std::int32_t where = where_[static_cast<std::size_t>(slot)];
    if (where >= 0) {
      place_used_[static_cast<std::size_t>(where)] = batch.number;
      ++hits;
      continue;
    }
    std::int32_t& number = frame_of(~where);
    if (number < 0) {
      number = free_frame();
      Frame& frame = frames_[static_cast<std::size_t>(number)];
      frame.span = span_of(~where);
      reads.push_back({frame.span, frame.memory});
    }
    Frame& frame = frames_[static_cast<std::size_t>(number)];
    if (frame.used_until != batch.number) batch.frames.push_back(number);
    frame.used_until = batch.number;
  }
  std::ranges::sort(reads, {}, &Moved::span);
  hits_ += hits;
  misses_ += static_cast<std::int64_t>(batch.slots.size()) - hits;
  reads_ += static_cast<std::int64_t>(reads.size());
  batch.spans = static_cast<std::int64_t>(reads.size());
  on_worker([this, reads = std::move(reads), done = batch.spans_read] { read_spans(reads, *done); });
  batch.read = worker_.record();
  if (places_ == 0) return;
  on_worker([this, slots = batch.slots] { counts_.add(slots); });
  if (batch.number % refresh_every_ == 0 && !choice_) choose();
}

/// The choice counts from the end of a batch on that is known now, so that figures are the same in each run.
void RowsInFile::choose() {
  choice_ = Choice{};
  choice_->from = last_begun_ + std::max(1, refresh_every_ / 4);
  choice_->rows = std::make_shared<RowSet>();
  on_worker([this, rows = choice_->rows] {
    *rows = counts_.most_read(places_, *chosen_);
    chosen_ = rows;
  });
  choice_->made = worker_.record();
}

void RowsInFile::read_spans(const std::vector<Moved>& spans, Count& done) {
  for (const Moved& one : spans) ring_->want(part_of(one.span));
  for (const Moved& one : spans) {
    const std::span<std::byte> here = ring_->take();
    std::memcpy(one.memory, here.data(), here.size());
    ring_->put_back(false);
    bytes_read_ += static_cast<std::int64_t>(here.size());
    done.fetch_add(1, std::memory_order_relaxed);
  }
}

bool RowsInFile::is_read() {
  const Event& read = in_flight_.front().read;
  if (!read.done()) return false;
  if (const auto error = read.error()) std::rethrow_exception(error);
  return true;
}

void RowsInFile::needed() {
  const Batch& batch = in_flight_.front();
  reads_hidden_ += batch.read.done() ? batch.spans : batch.spans_read->load(std::memory_order_relaxed);
}

std::int32_t RowsInFile::free_frame() {
  if (free_.empty()) {
    const std::size_t bytes = record_.span_bytes();
    Buffer& memory = frame_memory_.emplace_back(
        Buffer::on_host(DataType::u8, static_cast<std::int64_t>(frames_at_once * bytes), Contents::any));
    for (std::size_t i = frames_at_once; i > 0; --i) {
      free_.push_back(static_cast<std::int32_t>(frames_.size() + i - 1));
    }
    for (std::size_t i = 0; i < frames_at_once; ++i)
      frames_.push_back({.memory = memory.view().bytes() + i * bytes});
    memory_ += static_cast<std::int64_t>(memory.size_bytes());
  }
  const std::int32_t frame = free_.back();
  free_.pop_back();
  return frame;
}

void RowsInFile::free_if_unused(std::int32_t number) {
  Frame& frame = frames_[static_cast<std::size_t>(number)];
  if (frame.span < 0 || frame.tasks > 0 || frame.changed || frame.used_until > last_ended_) return;
  frame_of_[static_cast<std::size_t>(frame.span)] = -1;
  frame.span = -1;
  free_.push_back(number);
}

/// Frames whose writes are over.
void RowsInFile::reclaim() {
  while (!pending_.empty() && pending_.front().written.done()) {
    for (const std::int32_t frame : pending_.front().frames) {
      --frames_[static_cast<std::size_t>(frame)].tasks;
      free_if_unused(frame);
    }
    pending_.pop_front();
  }
}

bool RowsInFile::may_enter(std::int32_t slot) const {
  if (places_ == 0) return false;
  return static_cast<std::int64_t>(slot_of_.size()) < places_ || (!all_stay_ && hot_->has(slot));
}

/// One that no row has, or that of a row which is not among those that are read most and which no batch uses: the one that ends does.
std::optional<std::int32_t> RowsInFile::free_place() {
  if (static_cast<std::int64_t>(slot_of_.size()) < places_) {
    slot_of_.push_back(-1);
    home_.push_back(-1);
    place_used_.push_back(0);
    place_changed_.push_back(0);
    ++cached_;
    return static_cast<std::int32_t>(slot_of_.size()) - 1;
  }
  for (std::size_t looked = 0; looked < slot_of_.size(); ++looked) {
    const std::size_t here = hand_;
    hand_ = hand_ + 1 < slot_of_.size() ? hand_ + 1 : 0;
    if (place_used_[here] <= last_ended_ && !hot_->has(slot_of_[here]))
      return static_cast<std::int32_t>(here);
  }
  all_stay_ = true;
  return std::nullopt;
}

/// A row of the batch that ends comes from a frame into a place of the cache. A row that was there goes to its home, if that holds it, or else to
/// the position that the other leaves, whose frame no task of the worker touches: the batch uses it.
void RowsInFile::enter(std::int32_t slot, std::int32_t number, bool changed) {
  const auto n = static_cast<std::size_t>(number);
  const std::int32_t position = ~where_[static_cast<std::size_t>(slot)];
  Frame& frame = frames_[static_cast<std::size_t>(frame_of(position))];
  std::byte* const record = in_frame(position);
  std::byte* const here = place(number);
  const std::int32_t before = slot_of_[n];
  bool at_home = !changed && !frame.changed;
  if (before >= 0) ++evictions_;
  if (before >= 0 && place_changed_[n] != 0) {
    std::swap_ranges(here, here + record_.bytes(), record);
    where_[static_cast<std::size_t>(before)] = ~position;
    frame.changed = true;
    at_home = false;
  } else {
    std::memcpy(here, record, record_.bytes());
    if (before >= 0) where_[static_cast<std::size_t>(before)] = ~home_[n];
    home_[n] = position;
  }
  where_[static_cast<std::size_t>(slot)] = number;
  slot_of_[n] = slot;
  place_used_[n] = frame.used_until;
  place_changed_[n] = at_home ? 0 : 1;
}

void RowsInFile::end(bool changed) {
  in_flight_.front().read.wait();
  const Batch batch = std::move(in_flight_.front());
  in_flight_.pop_front();
  reclaim();
  if (choice_ && batch.number >= choice_->from) {
    choice_->made.wait();
    hot_ = choice_->rows;
    choice_.reset();
  }
  all_stay_ = false;
  for (const std::int32_t slot : batch.slots) {
    const std::int32_t where = where_[static_cast<std::size_t>(slot)];
    if (where >= 0) {
      if (changed) place_changed_[static_cast<std::size_t>(where)] = 1;
      continue;
    }
    if (const auto place = may_enter(slot) ? free_place() : std::nullopt) {
      enter(slot, *place, changed);
    } else if (changed) {
      frames_[static_cast<std::size_t>(frame_of(~where))].changed = true;
    }
  }
  last_ended_ = batch.number;  // only now: until here its rows and frames stay where they are
  std::vector<Moved> writes;
  std::vector<std::int32_t> written;
  for (const std::int32_t number : batch.frames) {
    Frame& frame = frames_[static_cast<std::size_t>(number)];
    if (frame.changed && frame.used_until <= last_ended_) {
      writes.push_back({frame.span, frame.memory});
      frame.changed = false;
      ++frame.tasks;
      written.push_back(number);
    }
    free_if_unused(number);
  }
  if (writes.empty()) return;
  std::ranges::sort(writes, {}, &Moved::span);
  on_worker([this, writes = std::move(writes)] { write_spans(writes); });
  pending_.push_back({worker_.record(), std::move(written)});
}

void RowsInFile::write_spans(const std::vector<Moved>& spans) {
  for (const Moved& one : spans) {
    const std::span<std::byte> there = ring_->take_unread(part_of(one.span));
    std::memcpy(there.data(), one.memory, there.size());
    ring_->put_back(true);
    bytes_written_ += static_cast<std::int64_t>(there.size());
  }
}

void RowsInFile::visit(std::int64_t first, std::int64_t count, bool changes, const Visitor& visitor) {
  if (changes && !in_flight_.empty())
    throw Error(ErrorKind::internal, "rows of a file are changed while batches use them");
  constexpr std::int64_t at_once = 1 << 16;  // bounds the list of positions
  worker_.synchronize();
  reclaim();
  on_worker([&, this] {
    for (std::int64_t from = first; from < first + count; from += at_once)
      visit_on_worker(from, std::min(from + at_once, first + count), changes, visitor);
    ring_->settle();
  });
  worker_.synchronize();
}

/// What memory has, and then each span of the file once that has others of the rows.
void RowsInFile::visit_on_worker(std::int64_t first, std::int64_t end, bool changes, const Visitor& visitor) {
  struct InFile {
    std::int32_t position;
    std::int32_t slot;
  };
  std::vector<InFile> others;
  for (auto slot = static_cast<std::int32_t>(first); slot < end; ++slot) {
    const std::int32_t where = where_[static_cast<std::size_t>(slot)];
    if (where < 0 && frame_of(~where) < 0) {
      others.push_back({~where, slot});
      continue;
    }
    if (where >= 0 && changes) place_changed_[static_cast<std::size_t>(where)] = 1;
    visitor(slot, record_.parts(memory_of(slot)));
  }
  std::ranges::sort(others, {}, &InFile::position);
  const auto begins_span = [&](std::size_t i) {
    return i == 0 || span_of(others[i].position) != span_of(others[i - 1].position);
  };
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (begins_span(i)) ring_->want(part_of(span_of(others[i].position)));
  }
  for (std::size_t i = 0; i < others.size();) {
    std::byte* const memory = ring_->take().data();
    do {
      visitor(others[i].slot, record_.parts(memory + at_in_span(others[i].position)));
      ++i;
    } while (i < others.size() && !begins_span(i));
    ring_->put_back(changes);
  }
}

embedding::FileFigures RowsInFile::figures() const {
  const auto bytes = static_cast<std::int64_t>(ring_->file().bytes());
  return {.hits = hits_,
          .misses = misses_,
          .reads = reads_,
          .reads_hidden = reads_hidden_,
          .bytes_read = bytes_read_,
          .bytes_written = bytes_written_,
          .stall_seconds = static_cast<double>(stalled_.load()) * 1e-9,
          .evictions = evictions_,
          .rows_in_memory = cached_,
          .memory_bytes = memory_,
          .file_bytes = bytes};
}

}  // namespace weft::detail
