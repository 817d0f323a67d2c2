#include "measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "weft/core/error.hpp"

namespace weft::bench {
namespace {

// Inputs and expected results are small whole numbers whose reductions are exact in every order, so that
// every implementation has to give the same bits.

// Rows differ between ranks and along the buffer, with a period that no power of two shares.
template <class T>
Accumulate<T> value(int rank, std::int64_t i, ReduceOp op) {
  const std::int64_t mixed =
      (i % 1021 + 7 * static_cast<std::int64_t>(rank)) % (op == ReduceOp::prod ? 2 : 5);
  return static_cast<Accumulate<T>>(mixed + 1);
}

template <class T>
T reduced(std::int64_t i, int ranks, ReduceOp op) {
  using A = Accumulate<T>;
  A result = value<T>(0, i, op);
  for (int rank = 1; rank < ranks; ++rank) {
    const A next = value<T>(rank, i, op);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::avg:
        result = static_cast<A>(result + next);
        break;
      case ReduceOp::prod:
        result = static_cast<A>(result * next);
        break;
      case ReduceOp::min:
        result = next < result ? next : result;
        break;
      case ReduceOp::max:
        result = next > result ? next : result;
        break;
      case ReduceOp::band:
      case ReduceOp::bor:
      case ReduceOp::bxor:
        if constexpr (std::is_integral_v<A>)
          result = static_cast<A>(op == ReduceOp::band  ? result & next
                                  : op == ReduceOp::bor ? result | next
                                                        : result ^ next);
        break;
    }
  }
  if (op == ReduceOp::avg) result = static_cast<A>(result / static_cast<A>(ranks));
  return static_cast<T>(result);
}

template <class T>
T expected(const Case& which, std::int64_t i) {
  const Source from = row_of(which.op).source(which, i);
  if (from.rank == Source::all_ranks) return reduced<T>(from.element, which.ranks, which.redop);
  return static_cast<T>(value<T>(from.rank, from.element, which.redop));
}

/// Writes this rank's input of `in_count()` elements.
void fill(const Case& which, std::byte* input) {
  dispatch(which.dtype, [&]<class T>(std::type_identity<T>) {
    T* elements = reinterpret_cast<T*>(input);
    for (std::int64_t i = 0; i < which.in_count(); ++i)
      elements[i] = static_cast<T>(value<T>(which.rank, i, which.redop));
  });
}

/// Counts the elements of this rank's output that differ from the expected ones.
std::int64_t wrong(const Case& which, const std::byte* output) {
  if (!which.writes(which.rank)) return 0;
  return dispatch(which.dtype, [&]<class T>(std::type_identity<T>) {
    const T* elements = reinterpret_cast<const T*>(output);
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < which.out_count(); ++i) {
      const T right = expected<T>(which, i);
      if (std::memcmp(&elements[i], &right, sizeof(T)) != 0) ++count;
    }
    return count;
  });
}

using Clock = std::chrono::steady_clock;

class Duel {
 public:
  Duel(Communicator& comm, const Case& which, const std::vector<Contestant*>& contestants)
      : comm_(comm), which_(which), contestants_(contestants) {}

  /// Elements that are wrong after one run on fresh data, of all ranks.
  std::int64_t check(Contestant& one) {
    prepare(one);
    comm_.barrier(stream_).wait();
    one.run(which_, 1);
    std::int64_t count = wrong(which_, one.result(which_));
    comm_.all_reduce(View(std::span(&count, 1)), ReduceOp::sum, stream_).wait();
    return count;
  }

  /// Payload between nodes of one operation, of all ranks.
  std::int64_t network_bytes(Contestant& one) {
    const std::uint64_t before = comm_.network_bytes();
    one.run(which_, 1);
    auto sent = static_cast<std::int64_t>(comm_.network_bytes() - before);
    comm_.all_reduce(View(std::span(&sent, 1)), ReduceOp::sum, stream_).wait();
    return sent;
  }

  std::vector<Timing> time(const Effort& effort) {
    std::vector<int> batches;
    for (Contestant* const one : contestants_) batches.push_back(batch_of(*one, effort));
    std::vector<double> samples(contestants_.size() * static_cast<std::size_t>(effort.iterations));
    for (std::size_t turn = 0; turn < static_cast<std::size_t>(effort.iterations); ++turn) {
      for (std::size_t i = 0; i < contestants_.size(); ++i) {
        const std::size_t who = (i + turn) % contestants_.size();
        samples[who * static_cast<std::size_t>(effort.iterations) + turn] =
            sample(*contestants_[who], batches[who]);
      }
    }
    comm_.all_reduce(View(std::span(samples)), ReduceOp::max, stream_).wait();
    std::vector<Timing> result;
    for (std::size_t who = 0; who < contestants_.size(); ++who) {
      const auto begin = samples.begin() + static_cast<std::ptrdiff_t>(who) * effort.iterations;
      result.push_back(summary({begin, begin + effort.iterations}));
    }
    return result;
  }

 private:
  void prepare(Contestant& one) {
    Memory& memory = one.memory();
    if (!which_.in_place || which_.out_count() > which_.in_count())
      std::memset(memory.output(which_), 0, bytes(which_.out_count()));
    if (!which_.reads(which_.rank)) {
      std::memset(memory.input(which_), 0, bytes(which_.in_count()));
    } else {
      fill(which_, memory.input(which_));
    }
  }
  std::size_t bytes(std::int64_t count) const {
    return static_cast<std::size_t>(count) * size_of(which_.dtype);
  }

  /// Seconds of one of `batch` operations. Another one runs first, so that the caches hold this contestant's
  /// data.
  double sample(Contestant& one, int batch) {
    comm_.barrier(stream_).wait();
    one.run(which_, 1);
    const auto begin = Clock::now();
    one.run(which_, batch);
    return std::chrono::duration<double>(Clock::now() - begin).count() / batch;
  }

  /// As many operations as take about 0.1 ms, the same number on every rank.
  int batch_of(Contestant& one, const Effort& effort) {
    for (int i = 0; i < effort.warmup; ++i) one.run(which_, 1);
    double seconds = std::min(sample(one, 1), sample(one, 2));
    comm_.all_reduce(View(std::span(&seconds, 1)), ReduceOp::max, stream_).wait();
    return static_cast<int>(std::clamp(1e-4 / seconds, 1.0, 1000.0));
  }

  static Timing summary(std::vector<double> samples) {
    std::ranges::sort(samples);
    const auto at = [&](double share) {
      return samples[static_cast<std::size_t>(std::ceil(share * static_cast<double>(samples.size()))) - 1];
    };
    return {at(0.5), at(0.99)};
  }

  Communicator& comm_;
  const Case& which_;
  const std::vector<Contestant*>& contestants_;
  Stream stream_;
};

}  // namespace

Result measure(Communicator& comm, const Case& which, const std::vector<std::unique_ptr<Contestant>>& all,
               const Effort& effort) {
  std::vector<Contestant*> contestants;
  for (const auto& one : all) {
    if (one->carries(which)) contestants.push_back(one.get());
  }
  Duel duel(comm, which, contestants);
  Result result{.which = which, .time = {}, .against = {}};
  for (Contestant* const one : contestants) {
    const std::int64_t count = duel.check(*one);
    if (count == 0) continue;
    if (one == contestants.front()) {
      result.wrong += count;
    } else {
      throw Error(ErrorKind::internal,
                  text(one->name(), " gave ", count, " wrong elements in ", name(which.op), " of ",
                       which.bytes(), " bytes"),
                  "there is nothing to compare with");
    }
  }
  const std::vector<Timing> times = duel.time(effort);
  result.time = times.front();
  for (std::size_t i = 1; i < times.size(); ++i) {
    result.against.push_back(
        {contestants[i]->name(), times[i], times[i].median_seconds / times.front().median_seconds});
  }
  result.network_bytes = duel.network_bytes(*contestants.front());
  result.wrong += duel.check(*contestants.front());  // results must still be right after all repetitions
  return result;
}

}  // namespace weft::bench
