// auto_hook: measures, chooses, and then passes every bucket on to the hook that was chosen.
//
// Phases, each of which lasts until its steps count: observing (one step to warm up, then four recorded),
// agreeing (an all_reduce(max) of figures runs beside the step; at its end every rank chooses), comparing (an
// all_gather of the choices' hashes; at its end all ranks begin with the chosen hook, or all throw). Nothing
// blocks in between.

#include "weft/compression/auto_hook.hpp"

#include <algorithm>
#include <utility>

#include "compression/auto/choosing_hook.hpp"
#include "compression/auto/measured_speed.hpp"
#include "compression/auto/step_forecast.hpp"
#include "compression/auto/step_measurements.hpp"
#include "compression/power_sgd/low_rank_jobs.hpp"
#include "weft/compression/codec_hook.hpp"
#include "weft/compression/power_sgd.hpp"
#include "weft/core/log.hpp"

namespace weft {
namespace {

/// The phases before gradients travel by the chosen codec, and after.
enum class Phase : std::uint8_t {
  observing,
  agreeing,   ///< ranks exchange figures; the slowest rank's are used
  comparing,  ///< ranks exchange what they chose from them
};

static_assert(AutoHook::steps_before == 1 + detail::BucketTimes::counted + 2);

class ChoosingHook final : public AutoHook {
 public:
  ChoosingHook(AutoOptions options, detail::ProfileObserver observer)
      : options_(options), observer_(std::move(observer)) {}

  std::string name() const override {
    return text("auto of rank ", options_.rank, ", gain ", options_.least_gain, ", start ",
                options_.start_step);
  }
  // 1 is enough for every candidate: bf16 has no blocks, and PowerSGD takes any buckets. It is slower for
  // parameters that lie in two buckets.
  std::int64_t granularity() const override { return inner_ ? inner_->granularity() : 1; }
  bool settled() const override { return inner_ && inner_->settled(); }
  void planned(const BucketPlan& plan, GradientSpace gradients, Communicator& comm) override;
  void reduce(const Bucket& bucket, View gradient, Communicator& comm, const Stream& compute,
              const Stream& wire) override;
  void reduce_scatter(const Bucket& bucket, View gradient, View mine, Communicator& comm,
                      const Stream& compute, const Stream& wire) override;
  const std::optional<CodecChoice>& choice() const override { return choice_; }
  const std::optional<StepProfile>& profile() const override { return profile_; }

 private:
  std::size_t number(const Bucket& bucket) const;
  void begin_step(Communicator& comm, const Stream& wire);
  void exchange(Communicator& comm, const Stream& wire);
  void next_phase(Communicator& comm);
  void observe(const Bucket& bucket, Communicator& comm, const Stream& compute, const Stream& wire);
  void choose(Communicator& comm);
  void expect_equal_choices(const Communicator& comm) const;
  void begin_chosen(Communicator& comm);

  AutoOptions options_;
  detail::ProfileObserver observer_;
  std::optional<BucketPlan> plan_;
  GradientSpace gradients_;
  std::shared_ptr<detail::NonFiniteGuard> guard_;
  detail::StepMeasurements mine_;
  std::optional<detail::BucketTimes> times_;
  Buffer bad_;      // by bucket: counts of NaN and Inf in sharded means
  Buffer figures_;  // this rank's figures, and then the maximum over ranks; on the host
  Buffer hashes_;   // this rank's hash, and then those of all ranks; on the host
  Stream on_host_;  // carries both where the wire is a device's
  Event exchanged_;

  Phase phase_ = Phase::observing;
  std::int64_t steps_ = 0;  // number of steps that counted
  std::optional<StepProfile> profile_;
  std::optional<CodecChoice> pending_choice_;  // the choice until it is compared
  std::optional<CodecChoice> choice_;          // the choice from then on
  std::shared_ptr<CommHook> inner_;
};

void ChoosingHook::planned(const BucketPlan& plan, GradientSpace gradients, Communicator& comm) {
  if (gradients.dtype() != DataType::f32) {
    throw Error(ErrorKind::usage, text("auto of gradients of ", gradients.dtype()),
                "codecs are for f32: pass the hook through cast_hook(DataType::f32, hook)");
  }
  const void* before = gradients_.memory().data();
  if (before != nullptr && before != gradients.memory().data())
    throw Error(ErrorKind::usage, "one auto hook for two reducers", "make a hook for each");
  plan_ = plan;
  gradients_ = gradients;
  if (inner_) return inner_->planned(plan, gradients, comm);
  if (!guard_) guard_ = std::make_shared<detail::NonFiniteGuard>(gradients.device());
  if (guard_->finish_step()) ++steps_;
  exchanged_.wait();
  if (mine_.link.empty()) {
    // measure_link ends on all ranks together, so that they also measure codecs at the same time.
    mine_.link = detail::measure_link(comm, plan.layout());
    mine_.profile.coding = detail::measure_coding(plan.layout(), options_.rank, comm);
  }
  phase_ = Phase::observing;
  times_.emplace(plan.buckets().size(), gradients.device());
  bad_ = comm.allocate(DataType::i64, 2 * std::ssize(plan.buckets()));
  const std::int64_t numbers = detail::numbers_of(plan.buckets().size(), mine_.link.size());
  figures_ = Buffer::on_host(DataType::f64, 2 * numbers);
  hashes_ = Buffer::on_host(DataType::i64, 1 + comm.size());
}

std::size_t ChoosingHook::number(const Bucket& bucket) const {
  const auto found = std::ranges::find(plan_->buckets(), bucket.begin, &Bucket::begin);
  return static_cast<std::size_t>(found - plan_->buckets().begin());
}

void ChoosingHook::reduce(const Bucket& bucket, View gradient, Communicator& comm, const Stream& compute,
                          const Stream& wire) {
  if (!inner_) observe(bucket, comm, compute, wire);
  if (inner_) return inner_->reduce(bucket, gradient, comm, compute, wire);
  comm.all_reduce(gradient, ReduceOp::avg, wire);
  times_->arrived(number(bucket), wire);
  detail::check_finite(gradient, guard_, wire);
  guard_->submitted(wire);
}

void ChoosingHook::reduce_scatter(const Bucket& bucket, View gradient, View mine, Communicator& comm,
                                  const Stream& compute, const Stream& wire) {
  mine_.profile.sharded = true;
  if (!inner_) observe(bucket, comm, compute, wire);
  if (inner_) return inner_->reduce_scatter(bucket, gradient, mine, comm, compute, wire);
  comm.reduce_scatter(gradient, mine, ReduceOp::avg, wire);
  times_->arrived(number(bucket), wire);
  const View counts = bad_.view().slice(2 * static_cast<std::int64_t>(number(bucket)), 2);
  detail::agree_on_non_finite(counts, mine, comm, guard_, wire);
  guard_->submitted(wire);
}

// Called before each bucket. The first bucket may begin the step in which gradients travel as chosen: then
// there is nothing to observe.
void ChoosingHook::observe(const Bucket& bucket, Communicator& comm, const Stream& compute,
                           const Stream& wire) {
  const std::size_t number = this->number(bucket);
  if (number == 0) begin_step(comm, wire);
  if (inner_) return;
  times_->ready(number, compute, wire);
}

void ChoosingHook::begin_step(Communicator& comm, const Stream& wire) {
  const bool counts = guard_->finish_step();
  times_->end_step(counts, Deadline::in(comm.timeout()));
  exchanged_.wait();
  if (counts) {
    ++steps_;
    next_phase(comm);
  }
  if (inner_) return;
  times_->begin_step();
  mine_.profile.beside = !wire.is_inline();
  exchange(comm, wire.device().is_host() ? wire : on_host_);
}

// The results are read when the step has ended. If that step does not count, they are posted again.
void ChoosingHook::exchange(Communicator& comm, const Stream& wire) {
  if (phase_ == Phase::observing) return;
  if (phase_ == Phase::agreeing) {
    const std::int64_t half = figures_.count() / 2;
    comm.all_reduce(figures_.view().slice(0, half), figures_.view().slice(half, half), ReduceOp::max, wire);
  } else {
    comm.all_gather(hashes_.view().slice(0, 1), hashes_.view().slice(1, comm.size()), wire);
  }
  exchanged_ = wire.record();
}

// Called when a step that counts has ended.
void ChoosingHook::next_phase(Communicator& comm) {
  switch (phase_) {
    case Phase::observing:
      if (!times_->enough()) return;
      mine_.profile.ready_seconds = times_->ready_seconds();
      mine_.profile.step_seconds = times_->step_seconds();
      mine_.took_seconds = times_->took_seconds();
      std::ranges::copy(detail::to_numbers(mine_), figures_.as<double>().begin());
      phase_ = Phase::agreeing;
      return;
    case Phase::agreeing:
      choose(comm);
      phase_ = Phase::comparing;
      return;
    case Phase::comparing:
      expect_equal_choices(comm);
      begin_chosen(comm);
      return;
  }
}

void ChoosingHook::choose(Communicator& comm) {
  const auto numbers = figures_.as<const double>();
  profile_ = detail::from_numbers(numbers.subspan(numbers.size() / 2), mine_, *plan_);
  if (observer_) observer_(comm.rank(), *profile_);
  pending_choice_ = choose_codecs(*plan_, *profile_, options_);
  hashes_.as<std::int64_t>().front() = static_cast<std::int64_t>(pending_choice_->hash());
}

// All ranks see the same hashes, so all continue or all throw.
void ChoosingHook::expect_equal_choices(const Communicator& comm) const {
  const auto all = hashes_.as<const std::int64_t>().subspan(1);
  const auto other = std::ranges::find_if(all, [&](std::int64_t one) { return one != all.front(); });
  if (other == all.end()) return;
  throw Error(ErrorKind::mismatch,
              text("ranks 0 and ", other - all.begin(),
                   " chose other codecs from the same figures; this one ", pending_choice_->chosen),
              "run the same build of weft on every rank, or name a codec (hook_named)",
              {comm.rank(), "auto_hook", static_cast<std::uint64_t>(steps_)});
}

void ChoosingHook::begin_chosen(Communicator& comm) {
  choice_ = std::exchange(pending_choice_, std::nullopt);
  if (choice_->chosen == "none") {
    inner_ = all_reduce_hook();
  } else if (choice_->chosen == "bf16") {
    inner_ = codec_hook(bf16_codec(), {.residual = KeptAs::nothing});
  } else {
    inner_ = power_sgd({.rank = options_.rank,
                        .start_step = std::max<std::int64_t>(0, options_.start_step - steps_),
                        .whole = choice_->whole()});
  }
  inner_->planned(*plan_, gradients_, comm);
  if (comm.rank() == 0) log::info("auto chooses " + choice_->in_words());
}

}  // namespace

std::shared_ptr<AutoHook> detail::choosing_hook(AutoOptions options, ProfileObserver observer) {
  check(options);
  return std::make_shared<ChoosingHook>(options, std::move(observer));
}

std::shared_ptr<AutoHook> auto_hook(AutoOptions options) {
  return detail::choosing_hook(options, nullptr);
}

}  // namespace weft
