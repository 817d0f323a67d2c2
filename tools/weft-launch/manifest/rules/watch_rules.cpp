// Whether anybody hears it when a training on NCCL hangs: its own time-out comes after 10 minutes and names nobody.

#include <algorithm>
#include <array>

#include "weft-launch/manifest/rules/rules.hpp"

namespace weft::report::manifest {
namespace {

bool is_one(const std::string& word, std::string_view program) {
  return word == program || word.ends_with("/" + std::string(program));
}

/// weft-report watch, weft-launch --watch, or a loop round NCCL's own client.
bool watches(const std::string& words) {
  return words.find("weft-report watch") != std::string::npos || words.find("ncclras") != std::string::npos;
}

bool has_watch(const Role& role) {
  for (const char* key : {"containers", "initContainers"}) {
    for (const Value& container : (*role.pod)[key].items) {
      std::string words;
      for (const char* part : {"command", "args"}) {
        for (const Value& word : container[part].items) {
          words += (words.empty() ? "" : " ") + word.text;
          if (word.text == "--watch") return true;
        }
      }
      if (watches(words)) return true;
    }
  }
  return false;
}

/// A program that starts ranks, or a variable that only NCCL reads.
bool is_of_nccl(const Container& container) {
  static constexpr std::array<std::string_view, 5> launchers{"torchrun", "weft-launch", "accelerate",
                                                             "deepspeed", "mpirun"};
  for (const Word& word : container.words) {
    if (std::ranges::any_of(launchers, [&](std::string_view one) { return is_one(word.text, one); }))
      return true;
  }
  return std::ranges::any_of(container["env"].items, [](const Value& entry) {
    const std::string& name = entry["name"].text;
    return name.starts_with("NCCL_") || name.starts_with("TORCH_NCCL_");
  });
}

}  // namespace

void watch_rules(const Job& job, Remarks& remarks) {
  if (job.kind == Job::Kind::leader_worker || job.kind == Job::Kind::ray)
    return;  // they serve, or are told later what to do
  if (std::ranges::any_of(job.roles, has_watch)) return;
  long gpus = 0;
  bool is_nccl = false;
  const Value* first = nullptr;
  for (const Role& role : job.roles) {
    for (const Container& container : role.containers) {
      is_nccl = is_nccl || is_of_nccl(container);
      if (container.gpus() == 0 || !container.resource("nvidia.com/gpu")) continue;
      gpus += container.gpus() * role.pods;
      if (first == nullptr) first = container.value;
    }
  }
  if (gpus < 2 || !is_nccl) return;
  remarks.notice(
      "watch-missing", line_of({&(*first)["name"], first}),
      "nobody hears it when a rank hangs: NCCL's and PyTorch's own time-outs come after 10 minutes and more, "
      "and do not say whose "
      "fault it is",
      "weft-launch --watch, or weft-report watch in a second container beside rank 0 (docs/live.md)");
}

}  // namespace weft::report::manifest
