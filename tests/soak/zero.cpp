// Trainings in 16 and 32 bits, by a seed, in which gradients overflow and are clipped at random: under a
// stage of ZeRO, with buckets, bucket rings, prefetch, wires and parameter groups drawn too, beside plain data
// parallelism.
// Loss scale, skipped steps, norms and parameters must be bitwise the same.
//
//   soak_zero SEED STEPS    trains until each of both has taken STEPS steps; ends with 0 when no training
//   differs

#include <cstdio>
#include <cstdlib>

#include "support/draw.hpp"
#include "support/zero_training.hpp"

namespace {

using namespace weft;
using test::Draw;
using test::ZeroTraining;

constexpr int longest = 500;

/// Three groups, one of which may be frozen. Parameter 3, whose gradients overflow, is trained.
void draw_groups(ZeroTraining& job, Draw& draw) {
  std::vector<zero::ParamGroup> groups{
      {.name = "own"},
      {.name = "fast", .rate_factor = draw.one_of({0.0, 0.5, 3.0}), .weight_decay = 0.0},
      {.name = "other", .frozen = draw.once_in(2)}};
  if (!groups[2].frozen) groups[2].beta1 = draw.one_of({0.0, 0.5});
  for (int i = 0; i < ZeroTraining::parameters; ++i)
    groups[i == 3 ? 0U : static_cast<std::size_t>(draw.below(3))].params.push_back(ParamId{i});
  job.stepping.groups = zero::ParamGroups(ZeroTraining::layout(job.dtype), groups);
  job.sharding.frozen = job.stepping.groups->frozen();
  job.before_step = [](int step, zero::ShardedOptimizer& optimizer) {
    if (step % 5 == 0) optimizer.set_rate_factor("fast", 1.0 / (1 + step));
  };
}

ZeroTraining drawn(std::uint64_t seed, int steps) {
  Draw draw(seed);
  ZeroTraining job{.ranks = 2 + draw.below(3), .steps = steps, .seed = seed};
  job.dtype = draw.one_of({DataType::f32, DataType::bf16, DataType::f16});
  job.stepping.clip_norm = draw.one_of({3.0, 20.0, 1000.0});
  job.stepping.loss_scale = zero::LossScalerOptions{.initial = draw.one_of({256.0, 4096.0, 65536.0}),
                                                    .minimum = 0x1p-20,
                                                    .growth_interval = 3 + draw.below(10),
                                                    .hysteresis = 1 + draw.below(3)};
  job.overflow_once_in = 8 + draw.below(30);
  if (job.dtype == DataType::bf16 && draw.once_in(2)) job.stepping.master = zero::Master::split;
  if (draw.once_in(2)) draw_groups(job, draw);
  return job;
}

ZeroTraining shared_out(ZeroTraining job) {
  Draw draw(job.seed + 1);
  job.sharding.stage = 1 + draw.below(3);
  job.sharding.bucket_bytes = draw.one_of<std::size_t>({1, 2000, 6000, 1 << 20});
  job.sharding.prefetch_bytes = draw.one_of<std::size_t>({0, 8000, 1 << 20});
  job.sharding.whole_below = draw.one_of({0, 0, 600});
  if (job.sharding.stage > 1 && draw.once_in(2))
    job.sharding.bucket_ring_bytes = draw.one_of<std::size_t>({1, 5000, 1 << 20});
  job.queued = draw.once_in(3);
  return job;
}

std::string trial(const ZeroTraining& job, int& skipped) {
  const ZeroTraining::Result plain = [&] {
    ZeroTraining whole = job;
    whole.sharding.stage = 0;
    return whole.run();
  }();
  skipped += static_cast<int>(plain.skipped.size());
  const ZeroTraining other = shared_out(job);
  const ZeroTraining::Result sharded = other.run();
  if (plain == sharded) return "";
  const char* what = plain.skipped != sharded.skipped         ? "skipped steps"
                     : plain.loss_scale != sharded.loss_scale ? "the loss scale"
                     : plain.norms != sharded.norms           ? "norms"
                                                              : "parameters";
  return text(what, " of stage ", other.sharding.stage, " on ", job.ranks, " ranks in ", job.dtype,
              " differ");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: soak_zero SEED STEPS\n");
    return 42;
  }
  std::uint64_t seed = std::strtoull(argv[1], nullptr, 10);
  const int count = std::atoi(argv[2]);
  int steps = 0;
  int trainings = 0;
  int skipped = 0;
  int failed = 0;
  for (; steps < count; ++trainings, seed += 2) {
    const ZeroTraining job = drawn(seed, std::min(count - steps, longest));
    std::string found;
    try {
      found = trial(job, skipped);
    } catch (const std::exception& error) {
      found = error.what();
    }
    if (!found.empty()) {
      ++failed;
      std::printf("FAILED: %s; again with SEED=%llu tests/soak.sh zero %d\n", found.c_str(),
                  static_cast<unsigned long long>(seed), job.steps);
    }
    steps += job.steps;
  }
  std::printf("%d steps in %d trainings, %d of them skipped, %d trainings failed\n", steps, trainings,
              skipped, failed);
  return failed > 0 || skipped == 0 ? 1 : 0;
}
