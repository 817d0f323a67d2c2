#include "collectives/diagnosis/counters.hpp"

#include <algorithm>
#include <limits>

#include "weft/core/error.hpp"
#include "weft/core/version.hpp"

namespace weft {

std::vector<MetricFamily> Meter::read() const {
  return counters_->read();
}
int Meter::rank() const {
  return counters_->rank();
}
void Meter::step(double seconds) const {
  counters_->step_given(seconds);
}
void Meter::account_every(int steps) const {
  constexpr int most = 127;
  if (steps < 0 || steps > most)
    throw Error(ErrorKind::usage, text("accounts of every ", steps, " steps"),
                text("give a number from 0 (none) to ", most, ", for reducers keep no more"),
                {rank(), "account_every", 0});
  counters_->account_every = steps;
}

namespace detail {
namespace {

using Kind = MetricFamily::Kind;

constexpr std::string_view operation_name(std::size_t kind) {
  return kind + 1 < OperationLog::kinds ? collective_names[kind] : "send_receive";
}
constexpr std::array<std::string_view, 3> lane_names{"host", "device", "group"};

MetricFamily metric(std::string_view name, Kind kind, std::string_view help) {
  return {.name = name, .help = help, .kind = kind};
}
MetricFamily metric_of(std::string_view name, Kind kind, double value, std::string_view help) {
  MetricFamily result = metric(name, kind, help);
  result.samples.push_back({value});
  return result;
}
/// Without a sample where it is NaN.
MetricFamily metric_if_known(std::string_view name, double value, std::string_view help) {
  MetricFamily result = metric(name, Kind::gauge, help);
  if (!std::isnan(value)) result.samples.push_back({value});
  return result;
}

/// What operation logs say.
struct Operations {
  MetricFamily issued =
      metric("weft_operations_total", Kind::counter, "Operations that this rank has issued, by kind.");
  MetricFamily bytes = metric("weft_wire_bytes_total", Kind::counter,
                              "Payload bytes that this rank has sent to others, by kind of operation.");
  MetricFamily last = metric("weft_operation_number", Kind::gauge,
                             "Number of the newest operation that this rank has issued on a lane of a "
                             "communicator. A rank whose number stays behind holds up the others.");
  double under_way = 0;
  double oldest = 0;  // seconds

  void add(const OperationLog::Totals& totals) {
    for (std::size_t kind = 0; kind < OperationLog::kinds; ++kind) {
      const MetricFamily::Label op{"op", std::string(operation_name(kind))};
      issued.samples.push_back({static_cast<double>(totals.operations[kind]), {op}});
      bytes.samples.push_back({static_cast<double>(totals.bytes[kind]), {op}});
    }
  }
  void add(const OperationLog& log, std::int64_t now) {
    const auto progress = log.progress();
    for (std::size_t lane = 0; lane < progress.size(); ++lane) {
      const OperationLog::Progress& one = progress[lane];
      if (one.issued == 0) continue;
      last.samples.push_back(
          {static_cast<double>(one.issued),
           {{"communicator", log.communicator()}, {"lane", std::string(lane_names[lane])}}});
      under_way += static_cast<double>(one.under_way);
      if (one.oldest_since != 0)
        oldest = std::max(oldest, static_cast<double>(now - one.oldest_since) * 1e-9);
    }
  }
};

}  // namespace

void StepTimes::add(double seconds) {
  const auto bucket = std::ranges::lower_bound(uppers, seconds) - uppers.begin();
  counts_[static_cast<std::size_t>(bucket)].add();
  sum_.add(seconds);
}

std::vector<MetricFamily::Bucket> StepTimes::buckets() const {
  std::vector<MetricFamily::Bucket> result;
  std::uint64_t so_far = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    so_far += static_cast<std::uint64_t>(counts_[i].value());
    result.push_back({i < uppers.size() ? uppers[i] : std::numeric_limits<double>::infinity(), so_far});
  }
  return result;
}

Counters::Counters(int rank, int size, std::string backend)
    : rank_(rank), size_(size), backend_(std::move(backend)) {}

void Counters::add(std::shared_ptr<const OperationLog> log) {
  const std::lock_guard lock(logs_mutex_);
  logs_.push_back(std::move(log));
}

void Counters::end(const OperationLog& log) noexcept {
  const std::lock_guard lock(logs_mutex_);
  ended_ += log.totals();
  std::erase_if(logs_, [&log](const auto& one) { return one.get() == &log; });
}

void Counters::step_finished(const void* who, Clock::time_point began) {
  const void* none = nullptr;
  if (counts_steps_.compare_exchange_strong(none, who)) {
    last_finished_ = began.time_since_epoch().count();
  } else if (none != who) {
    return;
  }
  const auto now = Clock::now();
  const Clock::time_point since(Clock::duration(last_finished_.exchange(now.time_since_epoch().count())));
  finished_.add(std::chrono::duration<double>(now - since).count());
}

void Counters::leave(const void* who) noexcept {
  counts_steps_.compare_exchange_strong(who, nullptr);
}

void Counters::step_given(double seconds) {
  steps_are_given_ = true;
  given_.add(seconds);
}

std::vector<MetricFamily> Counters::read() const {
  // A part is added after the whole that it belongs to and read before it: however much is added meanwhile, no
  // reader sees a part that is more than its whole.
  const double gradients_sent = gradient_wire_bytes.value();
  const double overlapped = overlap.value();
  const double waited_for_late = late_wait.value();
  const double was_late = late.value();
  const double pipeline_waited = pipeline_waits.value();

  Operations operations;
  {
    const std::int64_t now = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
    const std::lock_guard lock(logs_mutex_);
    OperationLog::Totals totals = ended_;
    for (const auto& log : logs_) {
      totals += log->totals();
      operations.add(*log, now);
    }
    operations.add(totals);
  }
  const StepTimes& steps = steps_are_given_ ? given_ : finished_;
  MetricFamily times = metric_of("weft_step_seconds", Kind::histogram, steps.sum(),
                                 "How long steps of training took, from one to the next.");
  times.buckets = steps.buckets();
  const auto count = static_cast<double>(times.buckets.back().count);
  MetricFamily info = metric("weft_info", Kind::gauge,
                             "1, with the version, what carries data, and how many ranks the job has.");
  info.samples.push_back(
      {1, {{"version", WEFT_VERSION}, {"backend", backend_}, {"size", std::to_string(size_)}}});

  std::vector<MetricFamily> all{std::move(info), std::move(times)};
  const auto counter = [&all](std::string_view name, double sum, std::string_view help) {
    all.push_back(metric_of(name, Kind::counter, sum, help));
  };
  all.push_back(metric_of("weft_steps_total", Kind::counter, count, "Steps of training."));
  MetricFamily exposed = metric("weft_exposed_seconds_total", Kind::counter,
                                "Time that the compute stream waited for communication, by what it waited "
                                "for.");
  exposed.samples = {{gradients_exposed.value(), {{"wait", "gradients"}}},
                     {parameters_exposed.value(), {{"wait", "parameters"}}}};
  all.push_back(std::move(exposed));
  counter("weft_offload_stall_seconds_total", offload_stalls.value(),
          "Part of the exposed time in which an update on the host was not yet done.");

  all.push_back(std::move(operations.issued));
  all.push_back(std::move(operations.bytes));
  all.push_back(std::move(operations.last));
  all.push_back(metric_of("weft_operations_under_way", Kind::gauge, operations.under_way,
                          "Operations that were issued and are not over."));
  all.push_back(metric_of("weft_oldest_operation_seconds", Kind::gauge, operations.oldest,
                          "How long the oldest operation that is under way has taken; 0 where none is."));

  counter("weft_gradient_raw_bytes_total", gradient_raw_bytes.value(),
          "Bytes that this rank would have sent for gradients without compression.");
  counter("weft_gradient_wire_bytes_total", gradients_sent, "Bytes that this rank has sent for gradients.");

  counter("weft_accounted_steps_total", accounted_steps.value(),
          "Steps whose times all ranks have compared: accounted steps.");
  counter("weft_accounted_seconds_total", accounted.value(),
          "Time of accounted steps, from their beginning to their last gradient.");
  counter("weft_link_busy_seconds_total", link_busy.value(),
          "Time of accounted steps in which gradients that all ranks had ready were on their way.");
  counter("weft_overlap_seconds_total", overlapped,
          "Part of the time that the link was busy in which the compute stream did not wait.");
  counter("weft_late_wait_seconds_total", waited_for_late,
          "Time of accounted steps in which this rank waited for gradients that another had not ready.");
  counter("weft_arrival_skew_seconds_total", skew.value(),
          "The longest time between the first and the last rank to have a bucket ready, of each accounted "
          "step.");
  counter("weft_late_seconds_total", was_late,
          "The longest time that this rank was later than all others with a bucket, of each accounted step.");

  counter("weft_table_hits_total", table_hits.value(),
          "Rows of tables in files that a batch needed and that were in memory.");
  counter("weft_table_misses_total", table_misses.value(),
          "Rows of tables in files that a batch needed and that were not in memory.");
  counter("weft_table_read_bytes_total", table_read_bytes.value(),
          "Bytes that were read from files of tables.");
  counter("weft_table_written_bytes_total", table_written_bytes.value(),
          "Bytes that were written to files of tables.");
  counter("weft_table_stall_seconds_total", table_stalls.value(),
          "Time for which look-ups waited for files of tables.");

  counter("weft_pipeline_steps_total", pipeline_steps.value(), "Steps of this rank's pipelines.");
  counter("weft_pipeline_seconds_total", pipeline.value(), "Time of the steps of this rank's pipelines.");
  counter("weft_pipeline_wait_seconds_total", pipeline_waited,
          "Time of these in which the device waited for another device: the bubble.");

  counter("weft_skipped_steps_total", skipped_steps.value(),
          "Steps that changed nothing because gradients were NaN or infinite.");
  all.push_back(metric_if_known("weft_loss_scale", loss_scale, "The factor that losses are multiplied by."));
  all.push_back(metric_if_known("weft_gradient_norm", gradient_norm,
                                "L2 norm of the last step's mean gradients, before clipping."));
  return all;
}

}  // namespace detail
}  // namespace weft
