#pragma once
// Embedding tables that lie in parts on all ranks, for batches that read a few of their rows.
//
// Each rank has its own part of the batch. look_up() gets the rows that it reads from the ranks that keep them, and pools them; step() sends
// the gradients of these rows back, and the ranks that keep them update them. What travels is proportional to the batch, not to the tables:
// an index of 4 bytes and a row for each row that a rank reads, however often its samples name it, and a row of gradients.
//
// The gradient of a row is the sum over the samples of the batch of all ranks, in one order: that of a binary tree over the samples, whose
// leaves without the row are left out. Rows are bitwise the same for any number of ranks, any placement and any cut of the batch, as long as
// ranks hold it in the order of their numbers. Where the cut is at powers of two each rank sends one sum a row; elsewhere a rank sends a row's
// sums of several subtrees, at most two for each doubling of its samples.
//
// Collective: every rank makes the same calls with bags for all tables in one order, also with no samples. One thread at a time. The calls
// run in the order of `compute`: what they read and write stays alive and untouched until `compute` has passed them. look_up()
// waits on the host until the other ranks have requested their batch; step() waits for them where a row's gradient is several sums. request()
// does not wait, so a batch that is known early is requested early. Memory of the host.
//
// Tables in files (Table::file): request() waits for the other ranks' request of the same batch, and begins to read its rows from the
// file. Requested before the step() of the batch before it, the next batch's rows come while that one computes.
//
//   ShardedTables tables(comm, {{"user", 10'000'000, 64}, {"item", 2'000'000, 64}}, {.rule = RowAdaGrad{.learning_rate = 0.02}});
//   for (const Batch& batch : data) {
//     tables.look_up(batch.bags, pooled, compute);           // pooled[t]: samples x columns
//     ... forward, backward: gradients[t], of the loss by pooled[t]
//     tables.step(gradients, compute);
//   }
//
// A look_up() that no step() follows trains nothing: evaluation. WRONG: look_up(a), look_up(b), step(), to train both: the step trains the rows of b.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "weft/checkpoint/piece.hpp"
#include "weft/collectives/communicator.hpp"
#include "weft/core/stream.hpp"
#include "weft/embedding/placement.hpp"
#include "weft/embedding/table.hpp"

namespace weft::embedding {

/// Fills a row, the same on whichever rank it lies.
using InitialRow = std::function<void(int table, std::int64_t row, std::span<float> values)>;

struct TablesOptions {
  Rule rule = RowAdaGrad{};
  std::optional<RowPlacement> placement{};  ///< plan_placement() without counts unless it is given
  /// Unless it is given: even between -1/sqrt(rows) and 1/sqrt(rows), as DLRM begins, by `seed`, table and row.
  InitialRow initial{};
  std::uint64_t seed = 1;
  std::optional<Stream> wire{};  ///< carries rows; Communicator::progress_stream() unless it is given
};

/// What this rank has done so far.
struct TablesTraffic {
  std::int64_t indices = 0;     ///< in its bags
  std::int64_t rows_read = 0;   ///< different ones in each look-up
  std::int64_t rows_asked = 0;  ///< of these, from other ranks
  std::int64_t bytes_sent = 0;  ///< to other ranks: indices, rows, gradients and what describes them
};

class ShardedTables {
 public:
  /// Collective. @throws Error (usage) for tables, a placement or a rule that make no sense; (mismatch) where ranks have different ones
  ShardedTables(Communicator comm, std::vector<Table> tables, TablesOptions options = {});
  ShardedTables(ShardedTables&&) noexcept;
  ShardedTables& operator=(ShardedTables&&) noexcept;
  /// Waits for what is under way.
  ~ShardedTables();

  /// Says what a batch will read, before its look_up(): sorts its indices, and tells the others how many rows it wants. Batches are looked up in
  /// the order of their requests. `bags` are read during the call. @param bags one for each table, all of as many samples
  /// @throws Error (usage) that names table, sample and index of a row that is not there
  void request(std::span<const Bags> bags);
  /// Of the oldest request: pooled[t] gets samples x columns f32. The rows are those after the last step().
  void look_up(std::span<const View> pooled, const Stream& compute);
  /// request() and look_up().
  void look_up(std::span<const Bags> bags, std::span<const View> pooled, const Stream& compute);
  /// Trains the rows of the last look_up(). @param gradients like `pooled`, of the loss that is summed over all samples; a loss that each rank
  /// averages over its own samples gives gradients that are too large by the number of ranks: see `scale`
  /// @param learning_rate the rule's own unless it is given @param scale what gradients are multiplied by, such as 1.0 / comm.size()
  void step(std::span<const ConstView> gradients, const Stream& compute,
            std::optional<double> learning_rate = std::nullopt, double scale = 1);

  const std::vector<Table>& tables() const;
  const RowPlacement& placement() const;
  std::int64_t steps() const;
  TablesTraffic traffic() const;
  /// Of all this rank's tables in files. Reading and writing goes on behind the program, so bytes may still grow.
  FileFigures file_figures() const;
  /// Bytes of rows and of their state on this rank, in memory or in files.
  std::int64_t bytes() const;
  /// Copies one row, on each rank. Collective: all ranks name the same. @throws Error (usage) for a row that is not there
  std::vector<float> row(int table, std::int64_t row);

  /// Pieces: this rank's blocks of rows ("NAME"), and of state ("NAME/sum": h of RowAdaGrad; "NAME/exp_avg", "NAME/exp_avg_sq",
  /// "NAME/step" of LazyAdamW). Any number of ranks and any placement loads them. Valid until the next look_up(); those of tables in files are
  /// read from the files as they are saved, and are valid until the next call of any function that is not const.
  checkpoint::State state();
  /// Goes on from what state() gave, on whichever ranks. @throws Error (usage) for values of other tables or another rule
  template <class Checkpoint>
  void load_state(const Checkpoint& from) {
    load_state(from.values(), [&from](std::span<const checkpoint::Wanted> wanted) { from.read(wanted); });
  }
  void load_state(const checkpoint::Values& values, const checkpoint::Reader& read);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::embedding
