// Muon: orthogonalized updates of matrices, and AdamW for the rest.
//
// First pass: AdamW's step of what is no matrix; the momentum of matrices, and their Nesterov update, which is
// written over the gradient. Between the passes:
//   1. each rank sends its ranges of every matrix to the matrix's owner (MatrixOwners); in stage 0 the owner has all
//   2. the owner orthogonalizes its matrices, one after the other
//   3. the owner sends each rank its ranges, which lie where the gradient was; in stage 0 the whole matrix to all
// Second pass: SGD with decoupled decay, with that for the gradient.
//
// Bytes that a rank sends, for B bytes of matrices on N ranks: B (N - 1) / N^2 in step 1 and as much in step 3; in
// stage 0 B (N - 1) / N in step 3. All is in the order of the compute stream; the host does not wait.

#include <algorithm>
#include <numeric>

#include "core/memory/elementwise.hpp"
#include "weft/core/copy.hpp"
#include "weft/core/error.hpp"
#include "zero/tensors/matrix_owners.hpp"
#include "zero/tensors/newton_schulz.hpp"
#include "zero/tensors/whole_tensors.hpp"

namespace weft::detail {
namespace {

constexpr std::uint32_t message_tag = 4001;  // users' groups on the same communicator have others

/// The momentum of a range, whose update replaces the gradient. f64, rounded where a value is stored.
template <class Gradient>
void take_momentum(Gradient* gradient, float* kept, std::int64_t count, double momentum, double scale) {
  const double fresh = (1 - momentum) * scale;
  for (std::int64_t i = 0; i < count; ++i) {
    const double g = fresh * static_cast<double>(static_cast<float>(gradient[i]));
    const auto m = static_cast<float>(momentum * static_cast<double>(kept[i]) + g);
    kept[i] = m;
    gradient[i] = static_cast<Gradient>(static_cast<float>(g + momentum * static_cast<double>(m)));
  }
}

std::vector<ParamId> matrices_of(const WholeTensors::Place& place) {
  std::vector<ParamId> found;
  for (int i = 0; i < place.trained.parameters(); ++i) {
    if (place.groups.tensor(i).is_whole) found.push_back(ParamId{i});
  }
  return found;
}

class OwnedMatrices final : public WholeTensors {
 public:
  using Matrix = MatrixOwners::Matrix;

  explicit OwnedMatrices(const Place& place)
      : groups_(place.groups),
        trained_(place.trained),
        comm_(place.comm),
        everywhere_(place.everywhere),
        owners_(trained_, matrices_of(place), comm_.size()),
        matrix_of_(static_cast<std::size_t>(trained_.parameters()), nullptr) {
    load_blas();
    std::vector<int> numbers(matrix_of_.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    runs_ = GroupRuns(trained_, numbers);
    factors_.runs = &runs_;
    factors_.by_group.resize(numbers.size());
    for (const Matrix& matrix : owners_.matrices()) matrix_of_[index(matrix.id)] = &matrix;
    owned_ = comm_.allocate(trained_.dtype(), owners_.owned_elements());
    workspace_ = Buffer::on_host(DataType::f32, owners_.workspace_elements());
  }

  const GroupedFactors& first(const Step& step) override {
    step_ = step;
    for (int i = 0; i < trained_.parameters(); ++i) {
      const auto [rule, rate_factor, is_whole] = groups_.tensor(i);
      StepFactors& mine = factors_.by_group[static_cast<std::size_t>(i)];
      mine = {.rule = UpdateRule::none};
      if (!is_whole) mine = factors(rule, step.number, step.learning_rate * rate_factor, step.gradient_scale);
    }
    return factors_;
  }

  void add(const Part& part, const Stream& compute) override {
    Stream stream = compute;
    visit(part.begin, part.gradient.count(),
          [&](const Matrix& matrix, std::int64_t, std::int64_t at, std::int64_t count) {
            const View gradient = part.gradient.slice(at, count);
            const View kept = part.slice.first.slice(at, count);
            stream.run([gradient, kept, momentum = rule_of(matrix).momentum, scale = step_.gradient_scale] {
              auto* const to = static_cast<float*>(kept.data());
              if (gradient.dtype() == DataType::f32)
                return take_momentum(static_cast<float*>(gradient.data()), to, gradient.count(), momentum,
                                     scale);
              take_momentum(static_cast<BFloat16*>(gradient.data()), to, gradient.count(), momentum, scale);
            });
          });
  }

  const GroupedFactors& second(std::span<const Part> parts, const Stream& compute) override {
    bring_to_owners(parts, compute);
    Stream(compute).run([this] { orthogonalize_owned(); });
    bring_back(parts, compute);
    for (StepFactors& mine : factors_.by_group) mine = {.rule = UpdateRule::none};
    for (const Matrix& matrix : owners_.matrices()) {
      const double rate = step_.learning_rate * groups_.tensor(static_cast<int>(matrix.id)).rate_factor;
      factors_.by_group[index(matrix.id)] =
          matrix_factors(rule_of(matrix), rate, matrix.rows, matrix.columns);
    }
    return factors_;
  }

  std::int64_t bytes() const override {
    return static_cast<std::int64_t>(owned_.size_bytes() + workspace_.size_bytes());
  }

 private:
  const zero::Muon& rule_of(const Matrix& matrix) const {
    return std::get<zero::Muon>(groups_.tensor(static_cast<int>(matrix.id)).rule);
  }
  View owned(const Matrix& matrix, std::int64_t first, std::int64_t count) {
    return owned_.view().slice(matrix.at + first, count);
  }

  /// Calls each(matrix, first, at, count) for the ranges of matrices in [begin, begin + elements): `first` in the matrix,
  /// `at` from `begin`. Gaps are left out.
  template <class Each>
  void visit(std::int64_t begin, std::int64_t elements, const Each& each) const {
    runs_.visit(begin, begin + elements, [&](std::int64_t from, std::int64_t to, std::size_t tensor) {
      const Matrix* const matrix = matrix_of_[tensor];
      if (matrix == nullptr) return;
      const std::int64_t first = from - trained_.offset(matrix->id);
      const std::int64_t count = std::min(to - from, matrix->count() - first);
      if (count > 0) each(*matrix, first, from - begin, count);
    });
  }

  /// Calls mine(matrix, first, memory) for this rank's ranges, and others(matrix, rank, first, count) for those of other
  /// ranks, in one order on every rank, so that messages match.
  template <class Mine, class Others>
  void visit_ranks(std::span<const Part> parts, const Mine& mine, const Others& others) const {
    for (const Part& part : parts) {
      const std::int64_t elements = part.gradient.count();
      for (int rank = 0; rank < comm_.size(); ++rank) {
        if (rank == comm_.rank()) {
          visit(part.begin, elements,
                [&](const Matrix& matrix, std::int64_t first, std::int64_t at, std::int64_t count) {
                  mine(matrix, first, part.gradient.slice(at, count));
                });
        } else if (!everywhere_) {
          visit(part.begin + (rank - comm_.rank()) * elements, elements,
                [&](const Matrix& matrix, std::int64_t first, std::int64_t, std::int64_t count) {
                  others(matrix, rank, first, count);
                });
        }
      }
    }
  }

  void bring_to_owners(std::span<const Part> parts, const Stream& compute) {
    Group group(comm_);
    visit_ranks(
        parts,
        [&](const Matrix& matrix, std::int64_t first, View memory) {
          if (matrix.owner == comm_.rank()) {
            copy(owned(matrix, first, memory.count()), memory, compute);
          } else if (!everywhere_) {
            group.send(memory, matrix.owner, message_tag);
          }
        },
        [&](const Matrix& matrix, int rank, std::int64_t first, std::int64_t count) {
          if (matrix.owner == comm_.rank()) group.receive(owned(matrix, first, count), rank, message_tag);
        });
    group.start(compute);
  }

  void bring_back(std::span<const Part> parts, const Stream& compute) {
    Group group(comm_);
    visit_ranks(
        parts,
        [&](const Matrix& matrix, std::int64_t first, View memory) {
          if (matrix.owner != comm_.rank()) {
            group.receive(memory, matrix.owner, message_tag);
            return;
          }
          const View values = owned(matrix, first, memory.count());
          copy(memory, values, compute);
          for (int rank = 0; rank < comm_.size() && everywhere_; ++rank) {
            if (rank != comm_.rank()) group.send(values, rank, message_tag);
          }
        },
        [&](const Matrix& matrix, int rank, std::int64_t first, std::int64_t count) {
          if (matrix.owner == comm_.rank()) group.send(owned(matrix, first, count), rank, message_tag);
        });
    group.start(compute);
  }

  void orthogonalize_owned() {
    for (const Matrix& matrix : owners_.matrices()) {
      if (matrix.owner != comm_.rank()) continue;
      const NewtonSchulz how{rule_of(matrix).ns_steps, rule_of(matrix).bf16_products};
      const View here = owned(matrix, 0, matrix.count());
      const std::span<float> workspace = workspace_.as<float>();
      if (here.dtype() == DataType::f32) {
        orthogonalize(here.as<float>(), matrix.rows, matrix.columns, how, workspace);
        continue;
      }
      const View values = workspace_.view().slice(0, matrix.count());
      on_host::cast(values, here);
      orthogonalize(values.as<float>(), matrix.rows, matrix.columns, how,
                    workspace.subspan(static_cast<std::size_t>(matrix.count())));
      on_host::cast(here, values);
    }
  }

  const OptimizerGroups& groups_;
  const ParamLayout& trained_;
  Communicator comm_;
  bool everywhere_;
  MatrixOwners owners_;
  std::vector<const Matrix*> matrix_of_;  // by tensor; null for what AdamW updates
  GroupRuns runs_;                        // a run for each tensor
  GroupedFactors factors_;
  Step step_;
  Buffer owned_;  // this rank's matrices
  Buffer workspace_;
};

}  // namespace

std::unique_ptr<WholeTensors> owned_matrices(const WholeTensors::Place& place) {
  if (place.trained.dtype() != DataType::f32 && place.trained.dtype() != DataType::bf16)
    throw Error(ErrorKind::usage, text("Muon of parameters of ", place.trained.dtype()),
                "it is of f32 and bf16, whose range updates need on their way to the owner");
  return std::make_unique<OwnedMatrices>(place);
}

std::unique_ptr<WholeTensors> whole_tensors(const zero::Optimizer& optimizer,
                                            const WholeTensors::Place& place) {
  if (!needs_whole_tensors(optimizer)) return nullptr;
  if (!place.comm.device().is_host())
    throw Error(ErrorKind::usage, text("a rule that needs whole tensors, on ", place.comm.device()),
                "Muon, LAMB and LARS work on host memory: train on the host, or take AdamW, Adam or SGD",
                {place.comm.rank(), "ShardedOptimizer"});
  return std::holds_alternative<zero::Muon>(optimizer) ? owned_matrices(place) : trust_ratios(place);
}

}  // namespace weft::detail
