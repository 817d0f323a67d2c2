// One rank of a job in any layout of nodes: gpt-tiny trained under plain data parallelism, every stage of ZeRO, offload, 16-bit gradients and
// PowerSGD, over one communicator of all ranks. Parameters must be bitwise those of data parallelism with the same gradients' compression.
//
//   soak_layouts STEPS [PATH]    started as a rank; ends with 0 when none differs. PATH is the text

#include <cstdio>
#include <cstdlib>
#include <map>

#include "weft-scaling/gpt/trainer/trainer.hpp"

namespace {

using namespace weft;

struct Variant {
  const char* name;
  int stage;
  std::string compression{};  ///< "", "bf16", "fp16" or "powersgd"
  double offloaded = 0;
  bool queued = false;
};

const std::vector<Variant> variants{{"ddp", 0},
                                    {"zero1", 1},
                                    {"zero2", 2},
                                    {"zero3", 3},
                                    {"zero1+offload", 1, "", 1},
                                    {"zero3+offload of a third, thread", 3, "", 0.33, true},
                                    {"ddp+bf16", 0, "bf16"},
                                    {"zero2+bf16", 2, "bf16"},
                                    {"ddp+fp16", 0, "fp16"},
                                    {"zero3+fp16, thread", 3, "fp16", 0, true},
                                    {"ddp+powersgd", 0, "powersgd"},
                                    {"zero1+powersgd", 1, "powersgd"},
                                    {"zero2+powersgd, offload", 2, "powersgd", 1},
                                    {"zero3+powersgd, thread", 3, "powersgd", 0, true}};

std::shared_ptr<CommHook> hook_of(const std::string& compression, std::int64_t steps) {
  if (compression == "bf16") return cast_hook(DataType::bf16);
  if (compression == "fp16") return cast_hook(DataType::f16);
  if (compression == "powersgd") return power_sgd({.rank = 4, .start_step = steps / 3});
  return nullptr;
}

std::vector<float> train(Communicator comm, const Variant& variant, const examples::ModelSpec& spec,
                         const examples::Text& text, std::int64_t steps) {
  zero::ShardedOptions sharding{.stage = variant.stage, .hook = hook_of(variant.compression, steps)};
  if (variant.queued) sharding.wire = Stream::queued();
  examples::Trainer<float> trainer(comm, spec, text,
                                   {.share = {comm.rank(), comm.size()},
                                    .steps = steps,
                                    .sharding = sharding,
                                    .stepping = {.offload = {.share = variant.offloaded}}});
  for (std::int64_t step = 0; step < steps; ++step) trainer.step();
  return trainer.parameters();
}

/// Whether every rank says so.
bool all_say(Communicator& comm, bool here) {
  Buffer vote = Buffer::on_host(DataType::i32, 1);
  vote.as<std::int32_t>()[0] = here ? 1 : 0;
  Stream stream;
  comm.all_reduce(vote.view(), ReduceOp::min, stream).wait();
  return vote.as<std::int32_t>()[0] == 1;
}

/// Whether rank 0 holds the same.
bool is_everywhere(Communicator& comm, const std::vector<float>& mine) {
  std::vector<float> first = mine;
  Stream stream;
  comm.broadcast(View(std::span(first)), 0, stream).wait();
  return all_say(comm, first == mine);
}

int run(std::int64_t steps, const std::string& path) {
  Communicator comm = connect(World::from_environment());
  const examples::ModelSpec& spec = examples::model_spec("gpt-tiny");
  const examples::Text text = examples::Text::read(path, spec.sequence_bytes());
  int failed = 0;
  std::map<std::string, std::vector<float>> references;
  const auto report = [&](const char* name, const char* what) {
    ++failed;
    if (comm.rank() == 0) std::printf("FAILED: %s %s\n", name, what);
  };
  for (const Variant& variant : variants) {
    const std::vector<float> trained = train(comm, variant, spec, text, steps);
    if (!is_everywhere(comm, trained)) report(variant.name, "ends with other bits on another rank");
    const auto& plain = references.try_emplace(variant.compression, trained).first->second;
    if (!all_say(comm, plain == trained)) report(variant.name, "ends with other bits than ddp");
  }
  if (comm.rank() == 0) {
    for (const auto& [compression, trained] : references) {
      if (comm.size() > 1 && !compression.empty() && trained == references.at(""))
        report(compression.c_str(), "changed nothing");
    }
    std::printf("%zu trainings over %s, %d failed\n", variants.size(), comm.backend().c_str(), failed);
  }
  return failed > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: soak_layouts STEPS [PATH]\n");
    return 42;
  }
  try {
    return run(std::atoll(argv[1]), argc > 2 ? argv[2] : "/usr/share/common-licenses");
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return exit_code(error.kind());
  }
}
