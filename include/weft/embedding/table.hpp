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

/// f32, in the memory of the host.
struct Table {
  std::string name;       ///< in messages and checkpoints; no two tables have one
  std::int64_t rows = 0;  ///< 1 or more
  int columns = 0;        ///< 1 or more
  Pooling pooling = Pooling::sum;
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
