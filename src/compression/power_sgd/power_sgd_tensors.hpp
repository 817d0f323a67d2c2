#pragma once
// What PowerSGD keeps, by parameter: the basis that a step starts from, and the residual. Twice: what is read
// and what is written change places when a step counts.

#include <optional>
#include <vector>

#include "compression/power_sgd/low_rank_jobs.hpp"
#include "weft/collectives/communicator.hpp"
#include "weft/compression/power_sgd.hpp"
#include "weft/core/buffer.hpp"

namespace weft::detail {

/// A parameter's matrix: its first dimension is rows, the others are columns.
struct MatrixShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  std::int64_t elements() const { return rows * columns; }
  std::int64_t factor_elements(int rank) const { return rank * (rows + columns); }
};
MatrixShape matrix_shape(const ParamLayout& layout, ParamId id);
/// Whether that makes it smaller by as much as the options ask for.
bool is_compressible(const MatrixShape& shape, const PowerSgdOptions& options);

class PowerSgdTensors {
 public:
  /// @throws Error (usage) unless gradients are f32, the options' rank can serve one of the parameters, and
  /// those that are to travel whole are some of them
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
  /// Null where a parameter is not compressed.
  const Tensor* find(ParamId id) const;

  /// @param place 0 or 1
  float* basis(const Tensor& tensor, int place);
  Residual residual(const Tensor& tensor, int place);
  /// Right bases, new ones: what training, or a step without a warm start, begins with.
  void draw_bases(int place, std::int64_t step, const Stream& stream);

  /// Of what is drawn for a tensor in a step.
  static std::uint64_t seed(const Tensor& tensor, std::int64_t step);

  // State, in the coordinates of the parameter. Nothing else may be using it; these wait for the device.
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

/// @throws Error (usage) naming the first parameter that does not fit, and how
void expect_of_this_model(const PowerSgdState& state, const PowerSgdTensors& tensors,
                          const ParamLayout& layout);
/// Collective. @throws Error on all ranks: `refusal` where there is one, (mismatch) when another rank has one
/// or other bases or steps
void expect_taken_by_all(const PowerSgdState& state, const std::optional<Error>& refusal, Communicator& comm);

}  // namespace weft::detail
