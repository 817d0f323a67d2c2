// Processes that a launcher starts on a node, against the GPUs of its container: fewer leave GPUs idle, more share one, which NCCL refuses.

#include <algorithm>
#include <array>
#include <cstdlib>

#include "weft-launch/manifest/rules/rules.hpp"
#include "weft/core/text.hpp"

namespace weft::report::manifest {
namespace {

std::optional<long> number_of(const std::optional<Word>& word) {
  const bool is_number = word && !word->text.empty() && word->text.size() < 9 &&
                         word->text.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? std::optional(std::atol(word->text.c_str())) : std::nullopt;
}

bool has_word(const Container& container, std::string_view word) {
  return std::ranges::any_of(container.words, [&](const Word& one) { return one.text == word; });
}

/// torchrun, and what it was called before.
bool is_torchrun(const Container& container) {
  return container.program("torchrun") || has_word(container, "torch.distributed.run") ||
         has_word(container, "torch.distributed.launch");
}

void compare(std::string_view option, const Word& word, long processes, long gpus, Remarks& remarks) {
  if (processes > 0 && processes != gpus)
    remarks.warn(
        "ranks-mismatch", word.line,
        text(processes, processes == 1 ? " rank on " : " ranks on ", gpus, gpus == 1 ? " GPU" : " GPUs"),
        text(option, ' ', gpus));
}

void launcher_options(const Container& container, Remarks& remarks) {
  const auto look = [&](std::initializer_list<const char*> options) {
    for (const char* option : options) {
      const auto word = container.option(option);
      if (const auto processes = number_of(word))
        compare(option, *word, *processes, container.gpus(), remarks);
    }
  };
  if (container.program("weft-launch")) look({"-n"});
  if (container.program("weft-launch") || is_torchrun(container))
    look({"--nproc_per_node", "--nproc-per-node"});
  if (container.program("deepspeed")) look({"--num_gpus"});
}

/// accelerate counts the processes of all machines.
void accelerate_options(const Job& job, const Container& container, Remarks& remarks) {
  const auto all = container.option("--num_processes");
  const auto processes = number_of(all);
  if (!container.program("accelerate") || !processes) return;
  const long nodes = number_of(container.option("--num_machines")).value_or(1);
  const long gpus = nodes * container.gpus();
  if (*processes == gpus || job.kind == Job::Kind::ray) return;
  remarks.warn(
      "ranks-mismatch", all->line,
      text("accelerate starts ", *processes, " processes on ", nodes, nodes == 1 ? " machine" : " machines",
           ", which have ", gpus, gpus == 1 ? " GPU" : " GPUs"),
      text("--num_processes ", gpus, ", or --num_machines ", job.nodes()));
}

void variables(const Container& container, Remarks& remarks) {
  for (const char* name : {"PET_NPROC_PER_NODE", "NPROC_PER_NODE"}) {
    const Value& value = container.variable(name)["value"];
    const Word word{value.text, value.line};
    if (const auto processes = number_of(word)) compare(name, word, *processes, container.gpus(), remarks);
  }
}

/// Servers that cut a model over GPUs: vLLM and SGLang. More parts than GPUs never start.
void parts_of_model(const Job& job, const Container& container, Remarks& remarks) {
  const auto tensor =
      container.any_option({"--tensor-parallel-size", "--tensor_parallel_size", "-tp", "--tp", "--tp-size"});
  const auto parts = number_of(tensor);
  const bool is_known = std::ranges::any_of(container.words, [](const Word& word) {
    return word.text.find("vllm") != std::string::npos || word.text.find("sglang") != std::string::npos;
  });
  if (!parts || !is_known || job.kind == Job::Kind::ray) return;
  const auto pipeline = container.any_option(
      {"--pipeline-parallel-size", "--pipeline_parallel_size", "-pp", "--pp", "--pp-size"});
  const long all = *parts * number_of(pipeline).value_or(1);
  const bool is_alone = job.kind == Job::Kind::job || job.nodes() == 1;
  long gpus = 0;
  for (const Role& role : job.roles) gpus += role.gpus() * (is_alone ? 1 : role.pods);
  if (gpus > 0 && all > gpus)
    remarks.warn("ranks-mismatch", tensor->line,
                 text("the model is cut into ", all, " parts, and the pods have ", gpus,
                      gpus == 1 ? " GPU" : " GPUs", " together"),
                 text("sizes whose product is ", gpus, ", or more pods"));
}

/// The field of a PyTorchJob that torchrun's agents take.
void operator_field(const Job& job, const Container& container, Remarks& remarks) {
  for (const Value* value : {&job.spec()["nprocPerNode"], &job.spec()["elasticPolicy"]["nProcPerNode"]}) {
    const Word word{value->text, value->line};
    const auto processes = number_of(word);
    if (*value && processes && !number_of(container.any_option({"--nproc_per_node", "--nproc-per-node"})))
      compare("nprocPerNode:", word, *processes, container.gpus(), remarks);
  }
}

}  // namespace

void process_rules(const Job& job, const Role& role, Remarks& remarks) {
  if (job.kind == Job::Kind::runtime) return;  // the TrainJob says how many GPUs there are
  for (const Container& container : role.containers) {
    if (container.gpus() == 0) continue;
    launcher_options(container, remarks);
    accelerate_options(job, container, remarks);
    variables(container, remarks);
    parts_of_model(job, container, remarks);
    if (job.kind == Job::Kind::operator_job) operator_field(job, container, remarks);
  }
}

}  // namespace weft::report::manifest
