// The PowerSGD hook. A bucket takes these steps, all of them work of the wire stream:
//
// 1. exchange: pack the uncompressed gradients, multiply each matrix and its residual by its basis,
//    all_reduce both, check that the means are finite.
// 2. exchange_right (two-sided form only): make the mean factors orthonormal, multiply by
//    them, all_reduce, check.
// 3. take_results: write the mean gradients and the new residuals in one pass, and the bases of
//    the next step.
//
// The state is stored twice (PowerSgdTensors); finish_step() swaps the copies if the previous step counts, so
// a step with NaN changes nothing. With W whole elements in a bucket, F in its left and G in its right
// factors, a rank sends 2 (N-1)/N times W + F + G floats in the two-sided form; in the alternating form W + F
// in one step and W + G in the next.

#include "weft/compression/power_sgd.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "compression/power_sgd/power_sgd_tensors.hpp"
#include "compression/power_sgd/power_sgd_work.hpp"
#include "core/memory/elementwise.hpp"
#include "weft/core/copy.hpp"

namespace weft {
namespace {

using detail::LowRankJob;
using detail::LowRankPart;
using detail::LowRankRound;
using detail::NonFiniteGuard;
using detail::PowerSgdTensors;
using detail::PowerSgdWork;
using detail::Side;

constexpr Side other(Side side) {
  return side == Side::left ? Side::right : Side::left;
}

class PowerSgdHook final : public PowerSgd {
 public:
  explicit PowerSgdHook(const PowerSgdOptions& options) : options_(options) {}

  std::string name() const override {
    std::string name = text("PowerSGD of rank ", options_.rank, ", start ", options_.start_step, ", rate ",
                            options_.min_rate, ", warm ", options_.warm_start, ", residual ",
                            static_cast<int>(options_.residual), ", form ", static_cast<int>(options_.form),
                            ", seed ", options_.seed);
    if (!options_.whole.empty()) name += ", whole";
    for (const std::string& one : options_.whole) name += " " + one;
    return name;
  }
  // Few bytes travel: a bucket costs coding, on cores that computation needs, and two latencies. A plan by
  // bytes makes so many buckets that they take more from computation than they hide; so buckets between nodes
  // are large.
  std::optional<std::size_t> bucket_bytes(const Communicator& comm) const override {
    if (comm.topology().nodes() == 1) return std::nullopt;
    return std::size_t{8} << 20;
  }
  bool settled() const override { return compresses_; }
  void planned(const BucketPlan& plan, GradientSpace gradients, Communicator& comm) override;
  void reduce(const Bucket& bucket, View gradient, Communicator& comm, const Stream& compute,
              const Stream& wire) override;
  void reduce_scatter(const Bucket& bucket, View gradient, View mine, Communicator& comm,
                      const Stream& compute, const Stream& wire) override;
  checkpoint::State saved_state() override;
  void load_saved_state(const checkpoint::Values& values, const checkpoint::Reader& read) override;
  PowerSgdState state() override;
  void load_state(const PowerSgdState& state) override;
  std::int64_t factor_elements(ParamId id) const override;

 private:
  void finish_step();
  void begin_bucket(std::size_t number, Stream wire);
  View bad_counts(std::size_t number) {
    return bad_counts_.view().slice(2 * static_cast<std::int64_t>(number), 2);
  }
  void exchange(std::size_t number, Communicator& comm, const Stream& wire);
  void exchange_right(std::size_t number, View left, Communicator& comm, const Stream& wire);
  void take_results(std::size_t number, std::int64_t mine_begin, std::int64_t mine_end, Stream wire);
  void expect_reducer(const char* call) const;
  void expect_fitting_bases(const PowerSgdState& state) const;
  bool is_two_sided(std::int64_t step) const;

  PowerSgdOptions options_;
  std::optional<ParamLayout> layout_;
  std::optional<Communicator> comm_;
  GradientSpace gradients_;
  std::unique_ptr<PowerSgdTensors> tensors_;
  std::unique_ptr<PowerSgdWork> work_;
  Buffer bad_counts_;  // by bucket: counts of NaN and Inf in sharded means, for steps before start_step
  std::vector<LowRankRound> rounds_;  // by bucket: the last multiplication of this step
  std::vector<Event> done_;
  Event drawn_;  // without warm start: the new bases of this step are written
  std::shared_ptr<NonFiniteGuard> guard_;

  std::int64_t steps_ = 0;    // number of steps that counted
  int place_ = 0;             // the copy of the state that a step reads
  Side basis_ = Side::right;  // the side of the bases that a step starts from
  bool compresses_ = false;   // whether this step is compressed
  bool wrote_ = false;        // whether the previous step wrote state
  bool two_sided_ = true;     // whether this step makes both factors
};

void PowerSgdHook::planned(const BucketPlan& plan, GradientSpace gradients, Communicator& comm) {
  const void* before = gradients_.memory().data();
  if (before != nullptr && before != gradients.memory().data())
    throw Error(ErrorKind::usage, "one PowerSGD hook for two reducers", "make a hook for each");
  if (tensors_) finish_step();
  layout_ = plan.layout();
  comm_ = comm;
  gradients_ = gradients;
  if (!tensors_) {
    tensors_ = std::make_unique<PowerSgdTensors>(*layout_, options_, comm.device());
    guard_ = std::make_shared<NonFiniteGuard>(comm.device());
  }
  work_ = std::make_unique<PowerSgdWork>(plan, gradients, *tensors_, comm);
  bad_counts_ = comm.allocate(DataType::i64, 2 * static_cast<std::int64_t>(work_->size()));
  done_.assign(work_->size(), {});
  rounds_.assign(work_->size(), {});
}

// If the previous step counts, what it wrote is read from now on.
void PowerSgdHook::finish_step() {
  const bool wrote = std::exchange(wrote_, false);
  if (!guard_->finish_step()) return;
  ++steps_;
  if (!wrote) return;
  place_ = 1 - place_;
  basis_ = two_sided_ ? Side::right : other(basis_);
}

void PowerSgdHook::begin_bucket(std::size_t number, Stream wire) {
  if (number > 0) return wire.wait(drawn_);
  finish_step();
  drawn_ = {};
  wrote_ = compresses_ = steps_ >= options_.start_step;
  two_sided_ = is_two_sided(steps_);
  if (compresses_ && !options_.warm_start) {
    tensors_->draw_bases(place_, steps_, wire);
    drawn_ = wire.record();
    basis_ = Side::right;
  }
}

// The alternating form begins with one two-sided step. Its first bases are random; with one side only, what
// they miss would stay in the residuals, and turn the next bases away from the gradient's own directions.
bool PowerSgdHook::is_two_sided(std::int64_t step) const {
  return options_.form == LowRankForm::two_sided || !options_.warm_start || step <= options_.start_step;
}

void PowerSgdHook::reduce(const Bucket& bucket, View gradient, Communicator& comm, const Stream&,
                          const Stream& wire) {
  const std::size_t number = work_->number(bucket);
  begin_bucket(number, wire);
  if (compresses_) {
    exchange(number, comm, wire);
    take_results(number, bucket.begin, bucket.end, wire);
  } else {
    comm.all_reduce(gradient, ReduceOp::avg, wire);
    detail::check_finite(gradient, guard_, wire);
  }
  guard_->submitted(wire);
}

void PowerSgdHook::reduce_scatter(const Bucket& bucket, View gradient, View mine, Communicator& comm,
                                  const Stream&, const Stream& wire) {
  const std::size_t number = work_->number(bucket);
  begin_bucket(number, wire);
  if (compresses_) {
    exchange(number, comm, wire);
    const std::int64_t begin = bucket.begin + comm.rank() * mine.count();
    take_results(number, begin, begin + mine.count(), wire);
  } else {
    comm.reduce_scatter(gradient, mine, ReduceOp::avg, wire);
    detail::agree_on_non_finite(bad_counts(number), mine, comm, guard_, wire);
  }
  guard_->submitted(wire);
}

// Afterwards every rank has the mean factors of every matrix, and the mean of whole gradients.
void PowerSgdHook::exchange(std::size_t number, Communicator& comm, const Stream& wire) {
  const PowerSgdWork::BucketWork& work = (*work_)[number];
  const Side side = other(basis_);
  const View sums = work.factors_of_first(side);
  const View products = two_sided_ ? sums : work.mine.slice(0, sums.count());
  rounds_[number] = {side, {}, products, sums, work.sums, place_, steps_};
  const auto jobs = work_->jobs(work, rounds_[number]);
  if (work.whole_elements > 0) detail::pack(work.whole_of_first(), work.whole, wire);
  detail::multiply(jobs, wire);
  if (!two_sided_) copy(sums, products, wire);
  if (!work.first.empty()) comm.all_reduce(work.first_with(side), ReduceOp::avg, wire);
  detail::check_finite(work.whole_of_first(), guard_, wire);
  detail::check_finite(jobs, guard_, wire);
  if (two_sided_ && !jobs->empty()) {
    detail::orthonormalize(jobs, wire);
    exchange_right(number, sums, comm, wire);
  }
}

void PowerSgdHook::exchange_right(std::size_t number, View left, Communicator& comm, const Stream& wire) {
  const PowerSgdWork::BucketWork& work = (*work_)[number];
  const View products = work.mine.slice(0, work.second.count());
  rounds_[number] = {Side::right, left, products, work.second, work.sums, place_, steps_};
  const auto jobs = work_->jobs(work, rounds_[number]);
  detail::multiply(jobs, wire);
  copy(work.second, products, wire);
  comm.all_reduce(work.second, ReduceOp::avg, wire);
  detail::check_finite(jobs, guard_, wire);
}

/// @param mine_begin, mine_end the part of the flat space in which this rank needs means
void PowerSgdHook::take_results(std::size_t number, std::int64_t mine_begin, std::int64_t mine_end,
                                Stream wire) {
  const PowerSgdWork::BucketWork& work = (*work_)[number];
  RecycledVector<LowRankJob> rebuilt;
  RecycledVector<LowRankJob> kept;
  RecycledVector<LowRankPart> parts;
  for (const PowerSgdWork::Piece& piece : work.pieces) {
    const std::int64_t begin = std::max(piece.begin, mine_begin);
    const std::int64_t end = std::min(piece.end, mine_end);
    const bool wanted = begin < end;
    if (wanted && piece.bucket != number) wire.wait(done_[piece.bucket]);
    if (!piece.factor) {
      if (wanted)
        copy(gradients_.slice(begin, end - begin), piece.travels.slice(begin - piece.begin, end - begin),
             wire);
      continue;
    }
    const LowRankJob job = work_->job(*piece.factor, rounds_[piece.bucket]);
    const std::int64_t elements = job.matrix.rows * job.matrix.columns;
    if (piece.bucket == number && end - begin == elements) {
      rebuilt.push_back(job);
      continue;
    }
    if (piece.bucket == number) kept.push_back(job);
    if (wanted) parts.push_back({job, begin - piece.parameter, end - piece.parameter});
  }
  detail::rebuild(make_recycled<const RecycledVector<LowRankJob>>(std::move(rebuilt)), wire);
  detail::keep_residuals(make_recycled<const RecycledVector<LowRankJob>>(std::move(kept)), wire);
  detail::expand(std::move(parts), wire);
  if (options_.warm_start) detail::start_next(work_->jobs(work, rounds_[number]), wire);
  done_[number] = wire.record();
}

void PowerSgdHook::expect_reducer(const char* call) const {
  if (!tensors_)
    throw Error(ErrorKind::usage, text(call, " of a PowerSGD hook that no reducer has"),
                "make the GradientReducer first");
}

// A two-sided step starts from right bases.
void PowerSgdHook::expect_fitting_bases(const PowerSgdState& state) const {
  if (state.left_bases && is_two_sided(state.steps))
    throw Error(
        ErrorKind::usage,
        text("a PowerSGD state with left bases, of step ", state.steps, ", where the next step makes both"),
        "load what the alternating form saved into one with the same start_step");
}

std::int64_t PowerSgdHook::factor_elements(ParamId id) const {
  expect_reducer("factor_elements");
  const auto* tensor = tensors_->find(id);
  return tensor == nullptr ? 0 : tensor->shape.factor_elements(tensor->rank);
}

PowerSgdState PowerSgdHook::state() {
  expect_reducer("state");
  finish_step();
  PowerSgdState state{steps_, basis_ == Side::left, {}};
  for (const auto& tensor : tensors_->all()) {
    state.tensors.push_back({layout_->name(tensor.id), layout_->shape(tensor.id), tensor.rank,
                             tensors_->read_basis(tensor, place_, basis_),
                             tensors_->read_residual(tensor, place_)});
  }
  return state;
}

checkpoint::State PowerSgdHook::saved_state() {
  return detail::saved_state(state(), comm_->rank(), comm_->size());
}

void PowerSgdHook::load_saved_state(const checkpoint::Values& values, const checkpoint::Reader& read) {
  expect_reducer("load_saved_state");
  load_state(detail::read_saved_state(values, read, *tensors_, *layout_, *comm_));
}

void PowerSgdHook::load_state(const PowerSgdState& state) {
  expect_reducer("load_state");
  finish_step();
  detail::expect_taken_by_all(state, *comm_, [&] {
    detail::expect_of_this_model(state, *tensors_, *layout_);
    expect_fitting_bases(state);
  });
  steps_ = state.steps;
  basis_ = state.left_bases ? Side::left : Side::right;
  for (const auto& tensor : tensors_->all()) {
    const auto& saved =
        *std::ranges::find(state.tensors, layout_->name(tensor.id), &PowerSgdState::Tensor::name);
    tensors_->write_basis(tensor, place_, saved.basis);
    tensors_->write_residual(tensor, place_, saved.residual);
  }
}

}  // namespace

std::shared_ptr<PowerSgd> power_sgd(PowerSgdOptions options) {
  if (options.rank < 1)
    throw Error(ErrorKind::usage, text("PowerSGD of rank ", options.rank), "a rank is 1 or more");
  if (!(options.min_rate > 0) || !std::isfinite(options.min_rate))
    throw Error(ErrorKind::usage, text("PowerSGD with a min_rate of ", options.min_rate),
                "give a number above 0, such as 2");
  if (options.start_step < 0)
    throw Error(ErrorKind::usage, text("PowerSGD from step ", options.start_step), "steps count from 0");
  return std::make_shared<PowerSgdHook>(options);
}

}  // namespace weft
