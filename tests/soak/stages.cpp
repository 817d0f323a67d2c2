// gpt-ref trained on 2 ranks under every stage of ZeRO, with other buckets, wires and prefetches, and with
// PowerSGD, and with optimizer state in memory and files of the host: parameters must be bitwise those of
// plain data parallelism.
//
//   soak_stages STEPS [MODEL [PATH]]    ends with 0 when none differs; PATH is the text

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "weft-scaling/gpt/trainer/trainer.hpp"

namespace {

using namespace weft;

struct Variant {
  const char* name;
  zero::ShardedOptions sharding{};
  bool queued = false;
  bool power_sgd = false;
  zero::Offload offload{};
};

using Bytes = std::size_t;

std::vector<Variant> variants() {
  const auto with = [](int stage, std::optional<Bytes> bucket, std::optional<Bytes> prefetch) {
    zero::ShardedOptions options{.stage = stage};
    options.bucket_bytes = bucket;
    options.prefetch_bytes = prefetch;
    return options;
  };
  const std::string folder = std::filesystem::temp_directory_path();
  return {{"stage 0", with(0, 1 << 20, {})},
          {"stage 0, 25 MiB, thread", with(0, 25 << 20, {}), true},
          {"stage 1", with(1, {}, {})},
          {"stage 1, 4 MiB, thread", with(1, 4 << 20, {}), true},
          {"stage 2", with(2, {}, {})},
          {"stage 2, 1 byte, thread", with(2, 1, {}), true},
          {"stage 3", with(3, {}, {})},
          {"stage 3, no prefetch", with(3, {}, 0)},
          {"stage 3, 4 MiB, all ahead, thread", with(3, 4 << 20, 1 << 30), true},
          {"stage 1, offload", with(1, {}, {}), false, false, {.share = 1}},
          {"stage 3, offload of a third, thread", with(3, {}, {}), true, false, {.share = 0.33}},
          {"stage 0, offload to a file", with(0, {}, {}), false, false, {.share = 1, .directory = folder}},
          {"stage 2, offload, half to a file",
           with(2, {}, {}),
           true,
           false,
           {.share = 0.8, .directory = folder, .file_share = 0.5}},
          {"stage 0, PowerSGD", with(0, 1 << 20, {}), false, true},
          {"stage 2, PowerSGD", with(2, {}, {}), false, true},
          {"stage 3, PowerSGD, thread", with(3, {}, {}), true, true}};
}

std::vector<float> train(const Variant& variant, const examples::ModelSpec& spec, const examples::Text& text,
                         std::int64_t steps) {
  std::vector<float> result;
  std::mutex mutex;
  run_as_threads(2, [&](Communicator comm) {
    zero::ShardedOptions sharding = variant.sharding;
    if (variant.queued) sharding.wire = Stream::queued();
    if (variant.power_sgd) sharding.hook = power_sgd({.rank = 4, .start_step = steps / 4});
    examples::Trainer<float> trainer(comm, spec, text,
                                     {.share = {comm.rank(), comm.size()},
                                      .steps = steps,
                                      .sharding = sharding,
                                      .stepping = {.offload = variant.offload}});
    for (std::int64_t step = 0; step < steps; ++step) trainer.step();
    std::vector<float> mine = trainer.parameters();
    const std::lock_guard lock(mutex);
    if (!result.empty() && result != mine)
      throw Error(ErrorKind::internal, "ranks hold different parameters");
    result = std::move(mine);
  });
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    std::fprintf(stderr, "usage: soak_stages STEPS [MODEL [PATH]]\n");
    return 42;
  }
  const std::int64_t steps = std::atoll(argv[1]);
  const examples::ModelSpec& spec = examples::model_spec(argc > 2 ? argv[2] : "gpt-ref");
  const examples::Text text =
      examples::Text::read(argc > 3 ? argv[3] : "/usr/share/common-licenses", spec.sequence_bytes());
  int failed = 0;
  std::vector<float> reference[2];  // without PowerSGD, and with
  for (const Variant& variant : variants()) {
    std::vector<float>& plain = reference[variant.power_sgd ? 1 : 0];
    std::vector<float> trained = train(variant, spec, text, steps);
    if (plain.empty()) plain = trained;
    const bool equal = plain == trained;
    failed += equal ? 0 : 1;
    std::printf("%-36s %s\n", variant.name, equal ? "the same bits" : "DIFFERS");
    std::fflush(stdout);
  }
  if (reference[0] == reference[1]) {
    std::printf("FAILED: PowerSGD changed nothing\n");
    ++failed;
  }
  std::printf("%lld steps of %s, %d failed\n", static_cast<long long>(steps), spec.name.c_str(), failed);
  return failed > 0 ? 1 : 0;
}
