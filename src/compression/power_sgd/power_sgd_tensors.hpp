#pragma once
// The state of PowerSGD by parameter: the basis that a step starts from, and the residual. Both are stored
// twice: a step reads one copy and writes the other, and the two are swapped if the step counts.
//
// power_sgd_tensors.cpp chooses what is compressed and lays it out; power_sgd_state.cpp saves, loads and
// checks.

#include <functional>
#include <vector>

#include "compression/power_sgd/low_rank_jobs.hpp"
#include "weft/collectives/communicator.hpp"
#include "weft/compression/power_sgd.hpp"
#include "weft/core/buffer.hpp"

namespace weft::detail {

/// A parameter as a matrix: its first dimension is the rows, all others together are the columns.
struct MatrixShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  std::int64_t elements() const { return rows * columns; }
  std::int64_t factor_elements(int rank) const { return rank * (rows + columns); }
};
MatrixShape matrix_shape(const ParamLayout& layout, ParamId id);
/// Whether the factors are smaller than the matrix by more than options.min_rate.
bool is_compressible(const MatrixShape& shape, const PowerSgdOptions& options);

class PowerSgdTensors {
 public:
  /// @throws Error (usage) unless gradients are f32 and the options compress at least one parameter, and for
  /// names in options.whole that the layout lacks
  PowerSgdTensors(const ParamLayout& layout, const PowerSgdOptions& options, Device device);

  struct Tensor {
    ParamId id{};
    std::int64_t offset = 0;  ///< in the flat space
    MatrixShape shape;
    int rank = 0;
    std::uint64_t seed = 0;
    std::int64_t basis_at = 0;     ///< in the buffer of all bases
    std::int64_t residual_at = 0;  ///< in elements, among all residuals
    std::int64_t scales_at = 0;
  };
  const std::vector<Tensor>& all() const { return tensors_; }
  bool has_residuals() const { return options_.residual != KeptAs::nothing; }
  /// Null if the parameter is not compressed.
  const Tensor* find(ParamId id) const;

  /// @param place 0 or 1
  float* basis(const Tensor& tensor, int place);
  Residual residual(const Tensor& tensor, int place);
  /// Writes new random right bases: training begins with them, and each step without a warm start.
  void draw_bases(int place, std::int64_t step, const Stream& stream);

  /// Seed of the random vectors of a tensor in a step.
  static std::uint64_t seed(const Tensor& tensor, std::int64_t step);

  // The state in the parameter's shape, for saving and loading. They wait for the device; no step may be
  // running.
  std::vector<float> read_basis(const Tensor& tensor, int place, Side side);
  void write_basis(const Tensor& tensor, int place, const std::vector<float>& values);
  std::vector<float> read_residual(const Tensor& tensor, int place);
  void write_residual(const Tensor& tensor, int place, const std::vector<float>& values);

 private:
  void expect_known(const std::vector<std::string>& whole, const ParamLayout& layout) const;
  void expect_any(const ParamLayout& layout) const;
  View basis_view(const Tensor& tensor, int place, std::int64_t count);
  View values_view(const Tensor& tensor, int place);
  View scales_view(const Tensor& tensor, int place);

  PowerSgdOptions options_;
  std::vector<Tensor> tensors_;  // by parameter
  Buffer bases_[2];              // f32
  Buffer residuals_[2];          // 16-bit integers or floats
  Buffer scales_[2];             // f32
  Stream stream_;                // for state
};

/// Checks that a state belongs to this model.
/// @throws Error (usage) naming the first parameter that does not fit, and how
void expect_of_this_model(const PowerSgdState& state, const PowerSgdTensors& tensors,
                          const ParamLayout& layout);
/// Collective: checks that all ranks can load their states, and that they belong together.
/// @param expect_fits throws this rank's reason not to load
/// @throws Error on all ranks: that of the first rank that has one; (mismatch) if bases or steps differ
void expect_taken_by_all(const PowerSgdState& state, const Communicator& comm,
                         const std::function<void()>& expect_fits);

/// CommHook::saved_state() of a state: rank 0 has the bases.
checkpoint::State saved_state(PowerSgdState state, int rank, int ranks);
/// A state that any number of ranks saved, for a rank of `comm`. @throws what `read` throws
PowerSgdState read_saved_state(const checkpoint::Values& values, const checkpoint::Reader& read,
                               const PowerSgdTensors& tensors, const ParamLayout& layout,
                               const Communicator& comm);

}  // namespace weft::detail
