#pragma once
// Which rank orthogonalizes which matrix: a plain value, from the layout and the number of ranks alone, so that it
// is the same for every stage and bucket size.
//
// Matrices are dealt out by the cost of their products, the largest first, each to the rank that has least (Graham
// 1969, LPT: at most 4/3 of the best). Equal costs keep the order of the layout, and equal ranks the lowest.

#include <cstdint>
#include <vector>

#include "weft/gradient/param_layout.hpp"

namespace weft::detail {

/// Whether Muon takes it unless its group says otherwise: two dimensions or more, and a name of neither an embedding
/// nor an output head, as zero::Muon says.
bool is_hidden_matrix(const ParamLayout& layout, ParamId id);
std::vector<ParamId> hidden_matrices(const ParamLayout& layout);

/// Floating-point operations of one step of Newton and Schulz: 3 m^2 n + m^3, where m is the shorter side.
double product_cost(std::int64_t rows, std::int64_t columns);

class MatrixOwners {
 public:
  struct Matrix {
    ParamId id{};
    std::int64_t rows = 0;     ///< the first dimension
    std::int64_t columns = 0;  ///< all others
    int owner = 0;
    std::int64_t at = 0;  ///< its place in its owner's buffer, in elements; begins on a cache line

    std::int64_t count() const { return rows * columns; }
  };

  MatrixOwners() = default;
  /// @param ids of the layout, ascending, each with two dimensions or more
  MatrixOwners(const ParamLayout& layout, const std::vector<ParamId>& ids, int ranks);

  /// By ParamId, ascending.
  const std::vector<Matrix>& matrices() const { return matrices_; }
  /// The cost of each rank's products, of one step of Newton and Schulz.
  const std::vector<double>& costs() const { return costs_; }
  /// Elements of the layout's type that every rank has room for: as many as the rank with most owns.
  std::int64_t owned_elements() const { return owned_elements_; }
  /// f32 elements of workspace for the largest matrix: what orthogonalize() needs and, for 16-bit matrices, an f32 copy.
  std::int64_t workspace_elements() const { return workspace_elements_; }

 private:
  std::vector<Matrix> matrices_;
  std::vector<double> costs_;
  std::int64_t owned_elements_ = 0;
  std::int64_t workspace_elements_ = 0;
};

}  // namespace weft::detail
