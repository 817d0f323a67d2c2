#include "local_twin.hpp"

#include <numeric>

#include "support/draw.hpp"
#include "weft/compression/hook_named.hpp"

namespace weft::test {
namespace {

/// Keeps the compiler from fusing a product and a sum.
float rounded(float value) {
  volatile float kept = value;
  return kept;
}

/// The matrix is a column, drawn from `seed`, times a row, drawn from `row`, so that differences of a few steps have few ranks.
std::vector<float> drawn(std::uint64_t seed, std::uint64_t row) {
  constexpr std::size_t rows = 80, columns = 60;
  std::vector<double> left(rows), right(columns);
  for (std::size_t i = 0; i < rows; ++i) left[i] = normal(seed, i);
  for (std::size_t i = 0; i < columns; ++i) right[i] = normal(row, i);
  std::vector<float> values(local_values);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] =
        static_cast<float>(i < rows * columns ? left[i / columns] * right[i % columns] : normal(seed, i));
  return values;
}

}  // namespace

std::vector<LocalParameter> local_parameters(std::vector<float>& values) {
  float* const data = values.data();
  return {{"weight", {80, 60}, 4800, data}, {"bias", {40}, 40, data + 4800}, {"gain", {1}, 1, data + 4840}};
}

std::vector<float> initial_local_values() {
  return drawn(1, 2);
}

void inner_step(std::vector<float>& values, int rank, int step) {
  const std::vector<float> target = drawn(static_cast<std::uint64_t>(1000 + step * 10 + rank), 3);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float gradient = rounded(values[i] - target[i]);
    values[i] = rounded(values[i] - rounded(0.05F * gradient));
  }
}

std::shared_ptr<CommHook> hook_of_fragment(const std::string& hook, bool has_matrix) {
  if (hook.empty() || (hook.starts_with("powersgd") && !has_matrix)) return nullptr;
  return hook_named(hook, 0);
}

std::vector<std::vector<float>> LocalTraining::run() const {
  std::vector<std::vector<float>> result(static_cast<std::size_t>(ranks));
  run_as_threads(ranks, [&](const Communicator& comm) {
    std::vector<float>& values = result[static_cast<std::size_t>(comm.rank())];
    values = initial_local_values();
    const Stream compute = queued ? Stream::queued() : Stream();
    LocalStepsOptions options{.every = every,
                              .fragments = fragments,
                              .delay = delay,
                              .mixing = mixing,
                              .fragment_of = fragment_of,
                              .outer = outer,
                              .bad = bad};
    if (!hook.empty() && fragments == 1) options.hook = hook_named(hook, 0);
    if (fragments > 1) {
      const int of_matrix = fragment_of.empty() ? 0 : fragment_of[0];
      options.make_hook = [=, this](int one) { return hook_of_fragment(hook, one == of_matrix); };
    }
    if (queued) options.wire = Stream::queued();
    LocalSteps local(comm, local_parameters(values), options);
    const Rank rank{comm, local, values, compute};
    if (at_start) at_start(rank);
    for (int step = first_step; step < last_step; ++step) {
      Stream(compute).run([&, step] { inner_step(values, comm.rank(), step); });
      if (after_inner) {
        Stream(compute).synchronize();
        after_inner(rank, step);
      }
      const OuterStep did = local.step(compute);
      Stream(compute).synchronize();
      if (after_step) after_step(rank, step, did);
    }
    if (at_end) at_end(rank);
  });
  return result;
}

std::vector<std::vector<float>> LocalTraining::twin(int skipped) const {
  const auto all = static_cast<std::size_t>(ranks);
  std::vector<float> last = initial_local_values(), momentum(last.size());
  std::vector<std::vector<float>> values(all, last);
  int outer_steps = 0;
  for (int step = 0; step < last_step; ++step) {
    for (std::size_t rank = 0; rank < all; ++rank) inner_step(values[rank], static_cast<int>(rank), step);
    if ((step + 1) % every != 0) continue;
    for (std::size_t i = 0; i < last.size() && outer_steps != skipped; ++i) {
      float sum = rounded(last[i] - values[0][i]);
      for (std::size_t rank = 1; rank < all; ++rank) sum = rounded(sum + rounded(last[i] - values[rank][i]));
      const float mean = rounded(sum / static_cast<float>(ranks));
      if (const auto* const rule = std::get_if<OuterNesterov>(&outer)) {
        const auto factor = static_cast<float>(rule->momentum);
        momentum[i] = rounded(rounded(factor * momentum[i]) + mean);
        const float move = rounded(rounded(factor * momentum[i]) + mean);
        last[i] = rounded(last[i] + rounded(move * static_cast<float>(-rule->learning_rate)));
      } else {
        last[i] = ranks == 1 ? values[0][i] : rounded(last[i] - mean);
      }
    }
    ++outer_steps;
    for (std::vector<float>& one : values) one = last;
  }
  return values;
}

std::vector<std::vector<float>> LocalTraining::streaming_twin(const std::vector<int>& fragment_of_parameter,
                                                              int skipped) const {
  const auto all = static_cast<std::size_t>(ranks);
  std::vector<float> last = initial_local_values(), momentum(last.size()), mean(last.size());
  std::vector<std::vector<float>> values(all, last);
  const auto parameter = [](std::size_t i) -> std::size_t { return i < 4800 ? 0 : i < 4840 ? 1 : 2; };
  int taken = 0;
  const auto take_in = [&](int fragment) {
    const bool is_skipped = taken++ == skipped;
    for (std::size_t i = 0; i < last.size(); ++i) {
      if (fragment_of_parameter[parameter(i)] != fragment) continue;
      if (is_skipped) {
        for (std::vector<float>& one : values) one[i] = last[i];
        continue;
      }
      if (const auto* const rule = std::get_if<OuterNesterov>(&outer)) {
        const auto factor = static_cast<float>(rule->momentum);
        momentum[i] = rounded(rounded(factor * momentum[i]) + mean[i]);
        const float move = rounded(rounded(factor * momentum[i]) + mean[i]);
        last[i] = rounded(last[i] + rounded(move * static_cast<float>(-rule->learning_rate)));
      } else {
        last[i] = ranks == 1 && delay == 0 ? values[0][i] : rounded(last[i] - mean[i]);
        if (ranks == 1 && delay == 0) continue;
      }
      const auto own = static_cast<float>(mixing), others = static_cast<float>(1 - mixing);
      for (std::vector<float>& one : values)
        one[i] = mixing == 0 ? last[i] : rounded(rounded(own * one[i]) + rounded(others * last[i]));
    }
  };
  for (int step = 1; step <= last_step; ++step) {
    for (std::size_t rank = 0; rank < all; ++rank) inner_step(values[rank], static_cast<int>(rank), step - 1);
    for (int fragment = 0; fragment < fragments; ++fragment) {
      const int first = (fragment + 1) * every / fragments;  // sent after this step, and every `every` steps
      if (delay > 0 && step - delay >= first && (step - delay - first) % every == 0) take_in(fragment);
      if (step < first || (step - first) % every != 0) continue;
      for (std::size_t i = 0; i < last.size(); ++i) {
        if (fragment_of_parameter[parameter(i)] != fragment) continue;
        float sum = rounded(last[i] - values[0][i]);
        for (std::size_t rank = 1; rank < all; ++rank)
          sum = rounded(sum + rounded(last[i] - values[rank][i]));
        mean[i] = rounded(sum / static_cast<float>(ranks));
      }
      if (delay == 0) take_in(fragment);
    }
  }
  return values;
}

}  // namespace weft::test
