#pragma once
// Embedding tables: what one is, what a batch reads of it, and the rule by which its rows are trained.
//
// A table has many rows of a few columns each, and a sample reads some of them: its *bag*. The rows of a bag are summed, or averaged, into
// one row for the sample (torch.nn.EmbeddingBag). A batch reads a small part of the rows, so only those travel and are trained
// (sharded_tables.hpp).
//
//   const Table country{.name = "country", .rows = 250, .columns = 64};
//   const std::vector<std::int64_t> indices{7, 12, 12, 3}, offsets{0, 3, 4};     // sample 0: 7, 12 and 12; sample 1: 3
//   const Bags bags{indices, offsets};
//
// WRONG: offsets{0, 3} for two samples. They begin with 0 and end with the number of indices, one more than there are samples.

#include <cstdint>
#include <span>
#include <string>
#include <variant>

namespace weft::embedding {

/// How the rows of a bag become the row of a sample. That of an empty bag is 0.
enum class Pooling : std::uint8_t {
  sum,
  mean,  ///< the sum over the number of indices
};

/// Rows in a file, of which those that are read often also lie in memory: a cache. Each rank has a file of its own, with its rows and their state.
/// The file has no name, so that nothing stays behind and no other table's can be taken for it, and its space is reserved at the start. It is
/// read and written by io_uring, past the page cache where the filesystem can do that: this needs WEFT_URING and Linux 5.11. Parameters are
/// bitwise those of a table in memory.
struct RowFile {
  std::string directory{};  ///< a folder on a local disk, where ranks may have different ones; empty: no file
  std::int64_t rows_in_memory =
      0;  ///< of the whole table; a rank's cache has its share. The rows of a batch lie in memory besides
  int refresh_every = 64;  ///< after so many batches, which rows were read most often is found out again
};

/// f32, in the memory of the host, or in a file.
struct Table {
  std::string name;       ///< in messages and checkpoints; no two tables have one
  std::int64_t rows = 0;  ///< 1 or more
  int columns = 0;        ///< 1 or more
  Pooling pooling = Pooling::sum;
  RowFile file{};
};

/// What a rank's files and caches have done so far. A *read* row is one that a batch needs here, once for all ranks that ask for it.
struct FileFigures {
  std::int64_t hits = 0;            ///< rows that the cache had when the batch was known
  std::int64_t misses = 0;          ///< and others
  std::int64_t reads = 0;           ///< blocks of the file that batches needed
  std::int64_t reads_hidden = 0;    ///< of these, those that were in memory when the batch was looked up
  std::int64_t bytes_read = 0;      ///< from files
  std::int64_t bytes_written = 0;   ///< to files
  double stall_seconds = 0;         ///< for which look-ups waited for files
  std::int64_t evictions = 0;       ///< rows that left the cache
  std::int64_t rows_in_memory = 0;  ///< now, in caches
  std::int64_t memory_bytes = 0;    ///< of caches, of blocks that batches need, and of lists of rows
  std::int64_t file_bytes = 0;

  double hit_rate() const {
    return hits + misses == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(hits + misses);
  }
};

/// What a rank's part of the batch reads of one table.
struct Bags {
  std::span<const std::int64_t> indices;  ///< of rows; one may come several times, also in one bag
  std::span<const std::int64_t> offsets;  ///< samples + 1; sample i has indices [offsets[i], offsets[i + 1])

  std::int64_t samples() const { return offsets.empty() ? 0 : static_cast<std::int64_t>(offsets.size()) - 1; }
};

/// row -= learning_rate * gradient
struct RowSgd {
  double learning_rate = 0.01;  ///< finite, 0 or more, here and below
};

/// One number of state a row (Naumov et al.: Deep Learning Recommendation Model, 2019; FBGEMM's exact row-wise AdaGrad):
///   h += mean over columns of gradient^2;  row -= learning_rate / (sqrt(h) + epsilon) * gradient
struct RowAdaGrad {
  double learning_rate = 0.01;
  double epsilon = 1e-8;  ///< above 0
};

/// AdamW (zero/optimizer.hpp) whose state moves when a row is used. State: two numbers an element, and the last step of each row.
struct LazyAdamW {
  double learning_rate = 1e-3;
  double beta1 = 0.9;          ///< in [0, 1)
  double beta2 = 0.999;        ///< in [0, 1)
  double epsilon = 1e-8;       ///< above 0
  double weight_decay = 0.01;  ///< finite, 0 or more
  /// A row that was not used for k steps first gets what these steps would have done to it, with a gradient of 0: bitwise what AdamW on the
  /// whole table gives. Price: these k steps of the row. False: they are left out, as torch.optim.SparseAdam does.
  bool exact = true;
};

using Rule = std::variant<RowSgd, RowAdaGrad, LazyAdamW>;

}  // namespace weft::embedding
