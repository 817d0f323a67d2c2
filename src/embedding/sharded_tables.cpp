// A look-up: count rows by owner (all_to_all), send slots, the owners copy rows, rows come back, pool.
// A step: sum gradients by row in the order of samples, send the sums, and the owners add up those of all ranks and update.
//
// Bytes to another rank, for each row that is wanted from it: 4 for the slot, its columns x 4 back, and its columns x 4 of gradient; and 8 for each
// table in the counts. Where the batch is cut elsewhere than at powers of two, 4 a row and 4 a sum more (send_parts).

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "core/base/fnv.hpp"
#include "embedding/checks.hpp"
#include "embedding/sharded_tables_state.hpp"
#include "gradient/plan/plan_agreement.hpp"
#include "weft/core/error.hpp"

namespace weft::embedding {
std::string words(const Rule& rule) {
  if (const auto* const adagrad = std::get_if<RowAdaGrad>(&rule))
    return text("RowAdaGrad, epsilon ", adagrad->epsilon);
  if (const auto* const adamw = std::get_if<LazyAdamW>(&rule))
    return text("LazyAdamW", adamw->exact ? "" : " without the steps of rows that were not used", ", beta1 ",
                adamw->beta1, ", beta2 ", adamw->beta2, ", epsilon ", adamw->epsilon, ", weight decay ",
                adamw->weight_decay);
  return "RowSgd";
}

namespace {

using detail::BatchExchange;
using detail::HeldRows;
using detail::PartOf;
using detail::RowPlaces;
using detail::SampleRange;
using detail::WantedRows;

/// splitmix64 (Steele, Lea, Flood 2014): a number for each element, whichever rank asks.
float drawn(std::uint64_t seed, std::uint64_t table, std::uint64_t element) {
  std::uint64_t z =
      seed * 0x9e3779b97f4a7c15ULL + table * 0xd1342543de82ef95ULL + (element + 1) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  z ^= z >> 31U;
  return static_cast<float>(z >> 40U) * 0x1p-24F;  // [0, 1)
}

/// Those of all ranks are the same, or every rank throws.
void agree(Communicator& comm, std::span<const Table> tables, const RowPlacement& placement, const Rule& rule,
           std::uint64_t seed) {
  std::vector<std::string> lines;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const Table& table = tables[t];
    constexpr std::size_t most_shown = 60;
    std::string owners;
    for (const int owner : placement.tables[t].owners) owners += text(owner, " ");
    lines.push_back(text(table.name, ", ", table.rows, " rows of ", table.columns,
                         table.pooling == Pooling::sum ? ", sum" : ", mean", ", blocks of ",
                         placement.tables[t].block_rows, " rows",
                         table.file.directory.empty() ? std::string()
                                                      : text(" in files, ", table.file.rows_in_memory,
                                                             " rows in memory, refreshed every ",
                                                             table.file.refresh_every, " batches,"),
                         " on ranks ", std::string_view(owners).substr(0, most_shown),
                         owners.size() > most_shown ? "..." : ""));
    if (owners.size() > most_shown)
      lines.back() += text(" (all of them: ", detail::Fnv().add(owners).value(), ")");
  }
  detail::agree_on(comm, lines,
                   {"ranks have different embedding tables", "give each rank the same tables and placement",
                    "ShardedTables", "table"});
  detail::agree_on(comm,
                   text(words(rule), ", learning rate ",
                        std::visit([](const auto& one) { return one.learning_rate; }, rule), ", seed ", seed),
                   {"ranks train embedding tables differently", "use the same TablesOptions on every rank",
                    "ShardedTables"});
}

}  // namespace

ShardedTables::State::State(Communicator comm, std::vector<Table> tables, TablesOptions options)
    : comm_(std::move(comm)),
      tables_(std::move(tables)),
      ranks_(comm_.size()),
      rank_(comm_.rank()),
      rule_(options.rule),
      wire_(options.wire ? *options.wire : comm_.progress_stream()),
      counters_(detail::shared_counters(comm_)) {
  detail::check(tables_);
  detail::check(options.rule);
  placement_ = options.placement ? std::move(*options.placement) : plan_placement(tables_, ranks_);
  detail::check(placement_, tables_, ranks_);
  agree(comm_, tables_, placement_, options.rule, options.seed);
  any_file_ = std::ranges::any_of(tables_, [](const Table& table) { return !table.file.directory.empty(); });
  if (any_file_) file_worker_ = Stream::queued();
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    columns_.push_back(tables_[t].columns);
    places_.emplace_back(tables_[t], placement_.tables[t], ranks_);
  }
  try {
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      held_.emplace_back(tables_[t], places_[t].rows_of(rank_), options.rule, rank_, file_worker_);
      fill(t, options);
    }
  } catch (const Error& error) {  // the others would wait for this rank
    comm_.give_up(error);
    throw;
  }
}

void ShardedTables::State::fill(std::size_t t, const TablesOptions& options) {
  const auto bound = static_cast<float>(1 / std::sqrt(static_cast<double>(tables_[t].rows)));
  const std::vector<RowPlaces::Block> blocks = places_[t].blocks_of(rank_);
  auto block = blocks.begin();
  held_[t].fill([&](std::int64_t slot, std::span<float> values) {  // slots ascend, as blocks do
    while (slot >= block->slot + block->count) ++block;
    const std::int64_t row = block->first + slot - block->slot;
    if (options.initial) return options.initial(static_cast<int>(t), row, values);
    for (std::size_t c = 0; c < values.size(); ++c)
      values[c] =
          bound * (2 * drawn(options.seed, t, static_cast<std::uint64_t>(row) * values.size() + c) - 1);
  });
}

ShardedTables::State::~State() {
  try {
    wire_.synchronize();
  } catch (...) {  // its owner has heard of it, or ends by an error of its own
  }
}

std::int64_t ShardedTables::State::bytes() const {
  std::int64_t sum = 0;
  for (const HeldRows& held : held_) sum += held.bytes();
  return sum;
}

ShardedTables::State::Batch ShardedTables::State::unused_batch() {
  for (const Batch& one : batches_) {
    if (one != looked_up_ && std::ranges::find(requested_, one) == requested_.end() && one->done.done())
      return one;
  }
  batches_.push_back(std::make_shared<BatchExchange>());
  return batches_.back();
}

void ShardedTables::State::request(std::span<const Bags> bags) {
  const auto turn = users_.enter("request");
  if (bags.size() != tables_.size())
    throw Error(ErrorKind::usage, text("bags of ", bags.size(), " tables, and there are ", tables_.size()),
                "give those of each table, in order", {rank_, "ShardedTables::request", 0});
  const Batch batch = unused_batch();
  batch->wanted.resize(tables_.size());
  batch->offsets.resize(tables_.size());
  const auto width = static_cast<std::int64_t>(tables_.size()) + 1;
  batch->counts_out = batch->counts_memory[0].of(comm_, DataType::i64, ranks_ * width);
  batch->counts_in = batch->counts_memory[1].of(comm_, DataType::i64, ranks_ * width);
  const auto counts = batch->counts_out->as<std::int64_t>();
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    if (bags[t].samples() != bags[0].samples())
      throw Error(ErrorKind::usage,
                  text("table ", tables_[t].name, " has bags of ", bags[t].samples(), " samples, and table ",
                       tables_[0].name, " of ", bags[0].samples()),
                  "a sample has a bag in every table; it may be empty", {rank_, "ShardedTables::request", 0});
    WantedRows& wanted = batch->wanted[t];
    try {
      want_rows(tables_[t], bags[t], places_[t], ranks_, sort_, wanted);
    } catch (const Error& error) {
      throw error.in({rank_, "ShardedTables::request", 0});
    }
    batch->offsets[t].assign(bags[t].offsets.begin(), bags[t].offsets.end());
    for (int rank = 0; rank < ranks_; ++rank)
      counts[static_cast<std::size_t>(rank * width) + 1 + t] =
          static_cast<std::int64_t>(wanted.of_owner(rank).size());
    traffic_.indices += static_cast<std::int64_t>(bags[t].indices.size());
    traffic_.rows_read += static_cast<std::int64_t>(wanted.slots.size());
    traffic_.rows_asked += static_cast<std::int64_t>(wanted.slots.size() - wanted.of_owner(rank_).size());
  }
  for (int rank = 0; rank < ranks_; ++rank)
    counts[static_cast<std::size_t>(rank * width)] = bags[0].samples();
  batch->counted = comm_.all_to_all(batch->counts_out->view().slice(0, ranks_ * width),
                                    batch->counts_in->view().slice(0, ranks_ * width), wire_);
  traffic_.bytes_sent += (ranks_ - 1) * width * static_cast<std::int64_t>(sizeof(std::int64_t));
  if (any_file_) {  // owners read files while the batch before this one computes
    batch->counted.wait();
    send_slots(*batch);
    wire_.run([this, batch] { begin_reading(*batch); });
    wire_.record().wait();
  }
  requested_.push_back(batch);
}

/// Says to each rank which of its rows are wanted.
void ShardedTables::State::send_slots(BatchExchange& batch) {
  lay_out(batch);
  const detail::RowLayout& wanted = batch.wanted_layout;
  const detail::RowLayout& asked = batch.asked_layout;
  batch.slots_out = batch.slots_memory[0].of(comm_, DataType::i32, wanted.all_rows());
  batch.slots_in = batch.slots_memory[1].of(comm_, DataType::i32, asked.all_rows());
  for (int rank = 0; rank < ranks_; ++rank) {
    for (std::size_t t = 0; t < tables_.size(); ++t)
      std::ranges::copy(batch.wanted[t].of_owner(rank),
                        batch.slots_out->as<std::int32_t>().data() + wanted.first_row(rank, t));
  }
  traffic_.bytes_sent += detail::exchange_parts(
      comm_, batch.slots_out->view(),
      [&](int rank) {
        return PartOf{wanted.first_row(rank, 0), wanted.rows_of(rank)};
      },
      batch.slots_in->view(),
      [&](int rank) {
        return PartOf{asked.first_row(rank, 0), asked.rows_of(rank)};
      },
      wire_);
}

/// What there is of each rank and table, once all have said so.
void ShardedTables::State::lay_out(BatchExchange& batch) {
  const std::size_t width = tables_.size() + 1;
  std::vector<std::int64_t> wanted;
  std::vector<std::int64_t> asked;
  batch.samples.clear();
  const auto sent = batch.counts_out->as<std::int64_t>();
  const auto received = batch.counts_in->as<std::int64_t>();
  std::int64_t all = 0;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks_); ++rank) {
    const std::int64_t samples = received[rank * width];
    batch.samples.push_back({all, samples, 0});
    all += samples;
    for (std::size_t t = 1; t < width; ++t) {
      wanted.push_back(sent[rank * width + t]);
      asked.push_back(received[rank * width + t]);
    }
  }
  if (all > std::numeric_limits<std::int32_t>::max())
    throw Error(ErrorKind::usage, text("a batch of ", all, " samples on all ranks"),
                text(std::numeric_limits<std::int32_t>::max(), " are the most"),
                {rank_, "ShardedTables::look_up", 0});
  for (SampleRange& one : batch.samples) one.all = all;
  batch.wanted_layout.lay_out(ranks_, columns_, wanted);
  batch.asked_layout.lay_out(ranks_, columns_, asked);
}

void ShardedTables::State::check_memory(const BatchExchange& batch, const char* what, std::size_t table,
                                        const ConstView& memory) const {
  const auto samples = static_cast<std::int64_t>(batch.offsets[table].size()) - 1;
  const std::int64_t count = samples * columns_[table];
  if (memory.count() == count && memory.dtype() == DataType::f32 && memory.device().is_host()) return;
  throw Error(ErrorKind::usage,
              text(what, " of table ", tables_[table].name, " has ", memory.count(), " ", memory.dtype(),
                   " on ", memory.device()),
              text("it takes ", samples, " samples x ", columns_[table], " columns of f32 on the host"),
              {rank_, "ShardedTables", 0});
}

void ShardedTables::State::look_up(std::span<const View> pooled, const Stream& compute) {
  const auto turn = users_.enter("look_up");
  if (requested_.empty())
    throw Error(ErrorKind::usage, "look_up() without a request()",
                "request the batch first, or give its bags to look_up()",
                {rank_, "ShardedTables::look_up", 0});
  const Batch batch = requested_.front();
  if (pooled.size() != tables_.size())
    throw Error(ErrorKind::usage,
                text("memory for ", pooled.size(), " tables, and there are ", tables_.size()),
                "give one view for each table", {rank_, "ShardedTables::look_up", 0});
  for (std::size_t t = 0; t < tables_.size(); ++t) check_memory(*batch, "the output", t, pooled[t]);
  batch->counted.wait();
  requested_.pop_front();
  Stream on_wire = wire_;
  if (any_file_) {
    if (looked_up_ != nullptr) on_wire.run([this] { end_reading(false); });  // it gets no step
    wait_for_files();
  } else {
    send_slots(*batch);
  }
  const detail::RowLayout& wanted = batch->wanted_layout;
  const detail::RowLayout& asked = batch->asked_layout;
  const auto out = rows_out_.of(comm_, DataType::f32, asked.all_numbers());
  const auto in = rows_in_.of(comm_, DataType::f32, wanted.all_numbers());
  on_wire.wait(compute.record());
  on_wire.run([this, batch, out] { copy_rows(*batch, *out); });
  traffic_.bytes_sent += detail::exchange_parts(
      comm_, out->view(),
      [&](int rank) {
        return PartOf{asked.first_number(rank, 0), asked.numbers_of(rank)};
      },
      in->view(),
      [&](int rank) {
        return PartOf{wanted.first_number(rank, 0), wanted.numbers_of(rank)};
      },
      wire_);
  on_wire.run([this, batch, in, views = std::vector<View>(pooled.begin(), pooled.end())] {
    pool(*batch, *in, views);
  });
  batch->done = wire_.record();
  Stream(compute).wait(batch->done);
  looked_up_ = batch;
}

/// The rows that other ranks want, and those that this rank wants of itself, with all steps in them.
void ShardedTables::State::copy_rows(BatchExchange& batch, Buffer& rows) {
  float* const to = rows.as<float>().data();
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto slots = batch.asked_slots(rank, t, rank_);
      held_[t].bring_up_to_date(slots, rule_);
      if (rank != rank_) held_[t].gather(slots, to + batch.asked_layout.first_number(rank, t));
    }
  }
}

void ShardedTables::State::pool(const BatchExchange& batch, const Buffer& arrived,
                                std::span<const View> pooled) {
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const WantedRows& wanted = batch.wanted[t];
    rows_of_table_.clear();
    for (int rank = 0; rank < ranks_; ++rank) {
      const float* next = arrived.as<float>().data() + batch.wanted_layout.first_number(rank, t);
      for (const std::int32_t slot : wanted.of_owner(rank)) {
        rows_of_table_.push_back(rank == rank_ ? held_[t].row(slot) : next);
        next += columns_[t];
      }
    }
    detail::pool(Bags{{}, batch.offsets[t]}, tables_[t].pooling, rows_of_table_, wanted.places, columns_[t],
                 pooled[t].as<float>().data());
  }
}

std::vector<float> ShardedTables::State::row(int table, std::int64_t row) {
  const auto turn = users_.enter("row");
  if (table < 0 || static_cast<std::size_t>(table) >= tables_.size() || row < 0 ||
      row >= tables_[static_cast<std::size_t>(table)].rows)
    throw Error(ErrorKind::usage, text("row ", row, " of table ", table),
                text("there are ", tables_.size(), " tables; rows count from 0"),
                {rank_, "ShardedTables::row", 0});
  wire_.synchronize();
  const auto t = static_cast<std::size_t>(table);
  const auto [owner, slot] = places_[t].of(row);
  std::vector<float> values(static_cast<std::size_t>(columns_[t]));
  if (owner == rank_) values = held_[t].up_to_date(slot, rule_);
  comm_.broadcast(View(std::span(values)), owner, wire_).wait();
  return values;
}

ShardedTables::ShardedTables(Communicator comm, std::vector<Table> tables, TablesOptions options)
    : state_(std::make_unique<State>(std::move(comm), std::move(tables), std::move(options))) {}
ShardedTables::ShardedTables(ShardedTables&&) noexcept = default;
ShardedTables& ShardedTables::operator=(ShardedTables&&) noexcept = default;
ShardedTables::~ShardedTables() = default;

void ShardedTables::request(std::span<const Bags> bags) {
  state_->request(bags);
}
void ShardedTables::look_up(std::span<const View> pooled, const Stream& compute) {
  state_->look_up(pooled, compute);
}
void ShardedTables::look_up(std::span<const Bags> bags, std::span<const View> pooled, const Stream& compute) {
  state_->request(bags);
  state_->look_up(pooled, compute);
}
void ShardedTables::step(std::span<const ConstView> gradients, const Stream& compute,
                         std::optional<double> learning_rate, double scale) {
  state_->step(gradients, compute, learning_rate, scale);
}
const std::vector<Table>& ShardedTables::tables() const {
  return state_->tables_;
}
const RowPlacement& ShardedTables::placement() const {
  return state_->placement_;
}
std::int64_t ShardedTables::steps() const {
  return state_->steps();
}
FileFigures ShardedTables::file_figures() const {
  return state_->file_figures();
}
TablesTraffic ShardedTables::traffic() const {
  return state_->traffic_;
}
std::int64_t ShardedTables::bytes() const {
  return state_->bytes();
}
std::vector<float> ShardedTables::row(int table, std::int64_t row) {
  return state_->row(table, row);
}
checkpoint::State ShardedTables::state() {
  return state_->state();
}
void ShardedTables::load_state(const checkpoint::Values& values, const checkpoint::Reader& read) {
  state_->load_state(values, read);
}

}  // namespace weft::embedding
