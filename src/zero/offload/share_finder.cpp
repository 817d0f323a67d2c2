#include "zero/offload/share_finder.hpp"

#include <algorithm>
#include <array>

#include "core/memory/host_memory.hpp"
#include "weft/core/copy.hpp"

namespace weft::detail {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

template <class Work>
double least_seconds(Stream stream, const Work& work) {
  double least = 0;
  for (int i = 0; i < 4; ++i) {  // the first trial finds cold memory
    const auto begin = Clock::now();
    work(stream);
    stream.synchronize();
    const double here = std::max(seconds(Clock::now() - begin), 1e-9);
    least = i == 0 ? here : std::min(least, here);
  }
  return least;
}

double slowest_way(const OffloadRates& rates) {
  return std::min({rates.down, rates.host, rates.up, rates.file});
}

/// A tile of gradient, parameters and state in one memory.
struct Scratch {
  Buffer gradient;
  Buffer parameters;
  StateArrays arrays;

  Scratch(const StateKind& kind, std::int64_t elements, const StateArrays::Allocate& allocate)
      : gradient(allocate(kind.dtype, elements)),
        parameters(allocate(kind.dtype, elements)),
        arrays(StateArrays::make(kind, elements, allocate)) {}
  double update_seconds(const StateKind& kind, const StepFactors& factors, const Stream& stream) {
    const StepSlice slice = arrays.views(0, gradient.count()).step(kind, gradient.view(), parameters.view());
    return least_seconds(stream, [&](const Stream& on) { fused_step(slice, factors, on); });
  }
};

}  // namespace

double exposed_seconds(const OffloadRates& rates, double bytes, double hidden_seconds, double share) {
  const double beside = share * bytes / slowest_way(rates);
  return (1 - share) * bytes / rates.device + std::max(0.0, beside - hidden_seconds);
}

// As long as the host's update is hidden, every byte on the host saves time of the device. Beyond that it
// costs the time of the host instead, which is more unless the host is the faster one.
double best_share(const OffloadRates& rates, double bytes, double hidden_seconds) {
  if (slowest_way(rates) >= rates.device) return 1;
  return std::min(1.0, hidden_seconds * slowest_way(rates) / bytes);
}

OffloadRates measured_rates(Device device, const StateKind& kind, const StepFactors& factors,
                            std::size_t tile_bytes) {
  const auto elements =
      static_cast<std::int64_t>(std::max(tile_bytes, Buffer::alignment) / size_of(kind.dtype));
  Scratch there(kind, elements,
                [&](DataType dtype, std::int64_t count) { return Buffer::on(device, dtype, count); });
  Scratch here(kind, elements,
               [&](DataType dtype, std::int64_t count) { return pinned(device, dtype, count); });
  const Stream on_device(device);
  const double bytes = static_cast<double>(here.parameters.size_bytes());
  const auto copied = [&](View to, ConstView from) {
    return bytes / least_seconds(on_device, [&](const Stream& stream) { copy(to, from, stream); });
  };
  return {.device = bytes / there.update_seconds(kind, factors, on_device),
          .down = copied(here.gradient.view(), there.gradient.view()),
          .host = bytes / here.update_seconds(kind, factors, Stream()),
          .up = copied(there.parameters.view(), here.parameters.view())};
}

void ShareFinder::bucket_reduced() {
  if (!first_reduced_) first_reduced_ = Clock::now();
}

void ShareFinder::begin_step(const Stream& compute, double exposed, bool hides_behind_backward) {
  Stream(compute).synchronize();
  if (steps_ > 0) {
    const auto until = hides_behind_backward ? Clock::now() : first_reduced_.value_or(ended_);
    const double hidden = std::max(0.0, seconds(until - ended_) - (exposed - exposed_));
    hidden_seconds_ = std::min(hidden, hidden_seconds_.value_or(hidden));
  }
  first_reduced_.reset();
}

void ShareFinder::end_step(double exposed) {
  ++steps_;
  exposed_ = exposed;
  ended_ = Clock::now();
}

double ShareFinder::share(Communicator comm, const StateKind& kind, const StepFactors& factors,
                          std::size_t bytes, double file_rate) const {
  const OffloadRates mine = measured_rates(comm.device(), kind, factors, tile_bytes_);
  std::array<double, 6> all{mine.device, mine.down, mine.host, mine.up, file_rate, *hidden_seconds_};
  Stream stream;
  comm.all_reduce(View(std::span(all)), ReduceOp::min, stream).wait();
  return best_share({all[0], all[1], all[2], all[3], all[4]}, static_cast<double>(bytes), all[5]);
}

}  // namespace weft::detail
