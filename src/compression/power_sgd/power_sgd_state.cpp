// Saves, loads and checks the state of PowerSGD.
//
// Residuals are saved as floats, however they are stored. keep_residual() with factors of rank 0 converts
// them: given a zero matrix and a residual it writes the residual as floats, and given these floats as the
// matrix it writes them as a stored residual.

#include <algorithm>
#include <cmath>
#include <span>

#include "collectives/diagnosis/agree.hpp"
#include "compression/hooks/saved_hook.hpp"
#include "compression/power_sgd/power_sgd_tensors.hpp"
#include "core/base/fnv.hpp"
#include "gradient/plan/shape_text.hpp"
#include "weft/core/copy.hpp"

namespace weft::detail {
namespace {

/// A copy of a residual in host memory.
class OnHost {
 public:
  OnHost(View values, View scales, const Stream& stream)
      : values_(values.size_bytes()),
        scales_(static_cast<std::size_t>(scales.count())),
        of_values_(values),
        of_scales_(scales),
        stream_(stream) {}

  Residual residual() { return {values_.data(), scales_.empty() ? nullptr : scales_.data()}; }
  void fetch() {
    copy(View(std::span(values_)), of_values_, stream_);
    if (!scales_.empty()) copy(View(std::span(scales_)), of_scales_, stream_);
    stream_.synchronize();
  }
  void put() {
    copy(of_values_, ConstView(std::span(values_)), stream_);
    if (!scales_.empty()) copy(of_scales_, ConstView(std::span(scales_)), stream_);
    stream_.synchronize();
  }

 private:
  std::vector<std::uint8_t> values_;
  std::vector<float> scales_;
  View of_values_;
  View of_scales_;
  Stream stream_;
};

[[noreturn]] void refuse(const std::string& name, const std::string& problem) {
  throw Error(ErrorKind::usage, text("a PowerSGD state of another model: ", name, " ", problem),
              "load the state of a run with the same parameters and PowerSgdOptions");
}

constexpr const char* left_bases = "gradient hook/left bases";

std::string basis_name(const std::string& parameter) {
  return "gradient hook/basis/" + parameter;
}

bool all_finite(const std::vector<float>& values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

void expect_fits(const PowerSgdState::Tensor& saved, const PowerSgdTensors::Tensor& tensor,
                 const std::vector<std::int64_t>& shape, bool left) {
  if (saved.shape.empty() || saved.shape != shape)
    refuse(saved.name, text("is ", saved.shape.empty() ? "nothing" : shape_text(saved.shape), " there and ",
                            shape_text(shape), " here"));
  if (saved.rank != tensor.rank)
    refuse(saved.name, text("has rank ", saved.rank, " there and ", tensor.rank, " here"));
  const auto basis =
      static_cast<std::size_t>(tensor.rank * (left ? tensor.shape.rows : tensor.shape.columns));
  if (saved.basis.size() != basis)
    refuse(saved.name, text("has a basis of ", saved.basis.size(), " elements, not ", basis));
  const auto elements = static_cast<std::size_t>(tensor.shape.elements());
  if (!saved.residual.empty() && saved.residual.size() != elements)
    refuse(saved.name, text("has a residual of ", saved.residual.size(), " elements, not ", elements));
  if (!all_finite(saved.basis) || !all_finite(saved.residual))
    refuse(saved.name, "has NaN or infinite values");
}

}  // namespace

std::vector<float> PowerSgdTensors::read_basis(const Tensor& tensor, int place, Side side) {
  const std::int64_t length = side == Side::left ? tensor.shape.rows : tensor.shape.columns;
  std::vector<float> values(static_cast<std::size_t>(tensor.rank * length));
  copy(View(std::span(values)), basis_view(tensor, place, tensor.rank * length), stream_);
  stream_.synchronize();
  return values;
}

void PowerSgdTensors::write_basis(const Tensor& tensor, int place, const std::vector<float>& values) {
  copy(basis_view(tensor, place, static_cast<std::int64_t>(values.size())), ConstView(std::span(values)),
       stream_);
  stream_.synchronize();
}

std::vector<float> PowerSgdTensors::read_residual(const Tensor& tensor, int place) {
  if (options_.residual == KeptAs::nothing) return {};
  OnHost kept(values_view(tensor, place), scales_view(tensor, place), stream_);
  kept.fetch();
  std::vector<float> values(static_cast<std::size_t>(tensor.shape.elements()));
  std::vector<float> sums(values.size());
  const Matrix matrix{tensor.shape.rows, tensor.shape.columns, sums.data(), kept.residual(), {values.data()}};
  keep_residual(matrix, {});
  return values;
}

void PowerSgdTensors::write_residual(const Tensor& tensor, int place, const std::vector<float>& values) {
  if (options_.residual == KeptAs::nothing) return;
  std::vector<float> gradient = values;
  gradient.resize(static_cast<std::size_t>(tensor.shape.elements()));  // a state without residual: zeros
  OnHost kept(values_view(tensor, place), scales_view(tensor, place), stream_);
  const Matrix matrix{tensor.shape.rows, tensor.shape.columns, gradient.data(), {}, kept.residual()};
  keep_residual(matrix, {});
  kept.put();
}

void expect_of_this_model(const PowerSgdState& state, const PowerSgdTensors& tensors,
                          const ParamLayout& layout) {
  for (const auto& tensor : tensors.all()) {
    const std::string& name = layout.name(tensor.id);
    const auto saved = std::ranges::find(state.tensors, name, &PowerSgdState::Tensor::name);
    if (saved == state.tensors.end()) refuse(name, "is compressed here and not there");
    expect_fits(*saved, tensor, layout.shape(tensor.id), state.left_bases);
  }
  for (const auto& saved : state.tensors) {
    const auto has_name = [&](const auto& tensor) { return layout.name(tensor.id) == saved.name; };
    if (std::ranges::none_of(tensors.all(), has_name)) refuse(saved.name, "is compressed there and not here");
  }
  if (state.steps < 0) refuse("its number of steps,", text(state.steps, ", is negative"));
}

void expect_taken_by_all(const PowerSgdState& state, const Communicator& comm,
                         const std::function<void()>& expect_fits) {
  const auto what_all_have = [&] {
    expect_fits();
    Fnv hash;
    hash.add(state.steps).add(state.left_bases ? 1 : 0);
    for (const auto& tensor : state.tensors) {
      hash.add(tensor.name)
          .add(std::string_view(reinterpret_cast<const char*>(tensor.basis.data()),
                                tensor.basis.size() * sizeof(float)));
    }
    return text(hash.value());
  };
  const auto hashes = agree(comm, "load_state", what_all_have, "load the PowerSGD state");
  const auto other = std::ranges::find_if(hashes, [&](const std::string& one) { return one != hashes[0]; });
  if (other == hashes.end()) return;
  throw Error(
      ErrorKind::mismatch,
      text("ranks 0 and ", other - hashes.begin(), " load PowerSGD states of different runs or steps"),
      "load the states that the ranks of one run saved together", {comm.rank(), "load_state", 0});
}

checkpoint::State saved_state(PowerSgdState state, int rank, int ranks) {
  checkpoint::State saved{{},
                          {{hook_steps, state.steps},
                           {hook_ranks, std::int64_t{ranks}},
                           {left_bases, std::int64_t{state.left_bases ? 1 : 0}}}};
  const auto add = [&](std::string name, std::vector<std::int64_t> shape, std::vector<float> values) {
    const std::int64_t count = std::ssize(values);
    saved.pieces.push_back(kept_piece(std::move(name), std::move(shape),
                                      std::make_shared<const std::vector<float>>(std::move(values)), 0,
                                      count));
  };
  for (PowerSgdState::Tensor& one : state.tensors) {
    const std::int64_t elements = std::ssize(one.basis);  // before it moves
    if (rank == 0) add(basis_name(one.name), {elements}, std::move(one.basis));
    if (!one.residual.empty()) add(residual_name(rank, one.name), one.shape, std::move(one.residual));
  }
  return saved;
}

PowerSgdState read_saved_state(const checkpoint::Values& values, const checkpoint::Reader& read,
                               const PowerSgdTensors& tensors, const ParamLayout& layout,
                               const Communicator& comm) {
  const SavedResiduals residuals{static_cast<int>(saved_number(values, hook_ranks)), comm.size(),
                                 comm.rank()};
  PowerSgdState state{saved_number(values, hook_steps), saved_number(values, left_bases) != 0, {}};
  for (const auto& tensor : tensors.all()) {
    PowerSgdState::Tensor one{layout.name(tensor.id), layout.shape(tensor.id), tensor.rank, {}, {}};
    const std::int64_t length = state.left_bases ? tensor.shape.rows : tensor.shape.columns;
    one.basis.resize(static_cast<std::size_t>(tensor.rank * length));
    const checkpoint::Wanted basis{
        basis_name(one.name), {std::ssize(one.basis)}, 0, View(std::span(one.basis))};
    read({&basis, 1});
    if (tensors.has_residuals()) {
      one.residual.resize(static_cast<std::size_t>(tensor.shape.elements()));
      residuals.read(read, one.name, one.shape, one.residual);
    }
    state.tensors.push_back(std::move(one));
  }
  return state;
}

}  // namespace weft::detail
