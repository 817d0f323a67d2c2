// Kubeflow Trainer: what its plugins look for in a runtime, and what they refuse.

#include <algorithm>
#include <array>

#include "weft-launch/manifest/rules/rules.hpp"
#include "weft/core/text.hpp"

namespace weft::report::manifest {
namespace {

const char* const step = "trainer.kubeflow.org/trainjob-ancestor-step";

void runtime_rules(const Job& job, Remarks& remarks) {
  const Value& policy = job.spec()["mlPolicy"];
  const Value& library = policy["mpi"]["mpiImplementation"];
  if (library && !library.is("OpenMPI"))
    remarks.critical("trainer-mpi", library.line,
                     text("Trainer's policy mpi takes OpenMPI alone, not ", library.text),
                     "mpiImplementation: OpenMPI");
  const Value& replicated = job.spec()["template"]["spec"]["replicatedJobs"];
  const bool has_step = std::ranges::any_of(replicated.items, [](const Value& one) {
    return one["template"]["metadata"]["labels"][step].is("trainer");
  });
  if (!has_step && replicated)
    remarks.warn("trainer-step", replicated.line,
                 text("no job has the label ", step, ": trainer; what a TrainJob says reaches none of them"),
                 "give it to the job that trains, at template.metadata.labels");
  for (const Value& one : replicated.items) {
    if (!one["template"]["metadata"]["labels"][step].is("trainer")) continue;
    const Value& containers = one["template"]["spec"]["template"]["spec"]["containers"];
    if (std::ranges::none_of(containers.items,
                             [](const Value& container) { return container["name"].is("node"); }))
      remarks.critical("trainer-container", line_of({&containers.at(0)["name"], &containers}),
                       "Trainer looks for a container called node, and there is none", "name: node");
  }
  static constexpr std::array<std::string_view, 4> own{
      "OMPI_MCA_orte_keep_fqdn_hostnames", "OMPI_MCA_orte_default_hostfile", "OMPI_MCA_plm_rsh_args",
      "OMPI_MCA_orte_set_default_slots"};
  for (const Role& role : job.roles) {
    for (const Container& container : role.containers) {
      for (const Value& entry : container["env"].items) {
        if (std::ranges::find(own, entry["name"].text) != own.end() && policy["mpi"].line != 0)
          remarks.critical("trainer-variable", entry["name"].line,
                           text("Trainer sets ", entry["name"].text, " itself, and refuses another value"),
                           "leave it out");
      }
    }
  }
}

void train_job_rules(const Job& job, Remarks& remarks) {
  for (const char* gone : {"podTemplateOverrides", "podSpecOverrides"}) {
    if (const Value& found = job.spec()[gone]; found.line != 0)
      remarks.critical("trainer-overrides", found.line, text(gone, " is of an earlier version"),
                       "runtimePatches");
  }
  for (const char* gone : {"modelConfig", "datasetConfig", "trainingRuntimeRef"}) {
    if (const Value& found = job.spec()[gone]; found.line != 0)
      remarks.critical("trainer-overrides", found.line, text(gone, " is of an earlier version"),
                       "initializer, or runtimeRef");
  }
  const Value& reference = job.spec()["runtimeRef"];
  if (!reference["name"])
    remarks.critical("trainer-runtime", line_of({&reference, &job.spec()}), "the TrainJob names no runtime",
                     "runtimeRef: {name: weft}");
}

/// The runtime that a TrainJob names, where it stands beside it.
const Value* runtime_of(const Job& job, const std::vector<Value>& documents) {
  const Value& reference = job.spec()["runtimeRef"];
  const std::string kind = reference["kind"] ? reference["kind"].text : "ClusterTrainingRuntime";
  const auto found = std::ranges::find_if(documents, [&](const Value& one) {
    return one["kind"].is(kind) && one["metadata"]["name"].is(reference["name"].text);
  });
  return found == documents.end() ? nullptr : &*found;
}

/// The pod's container called node, in the job that trains.
const Value& trainer_container(const Value& runtime) {
  static const Value absent{};
  for (const Value& one : runtime["spec"]["template"]["spec"]["replicatedJobs"].items) {
    if (!one["template"]["metadata"]["labels"][step].is("trainer")) continue;
    for (const Value& container : one["template"]["spec"]["template"]["spec"]["containers"].items) {
      if (container["name"].is("node")) return container;
    }
  }
  return absent;
}

const Value& gpus_of(const Value& resources) {
  for (const char* kind : {"limits", "requests"}) {
    for (const char* name : {"nvidia.com/gpu", "amd.com/gpu"}) {
      if (const Value& found = resources[kind][name]) return found;
    }
  }
  return resources["no such key"];
}

/// What the TrainJob does not say, its runtime does.
void train_job_processes(const Job& job, const Value* runtime, Remarks& remarks) {
  static const Value absent{};
  const Value& trainer = job.spec()["trainer"];
  const Value& policy = runtime == nullptr ? absent : (*runtime)["spec"]["mlPolicy"];
  const Value& own_gpus = gpus_of(trainer["resourcesPerNode"]);
  const Value& gpus = trainer["resourcesPerNode"] || runtime == nullptr
                          ? own_gpus
                          : gpus_of(trainer_container(*runtime)["resources"]);
  const Value* processes = &trainer["numProcPerNode"];
  for (const char* library : {"torch", "mpi"}) {
    if (!*processes) processes = &policy[library]["numProcPerNode"];
  }
  if (gpus.number().value_or(0) > 0 && processes->number() && *processes->number() != *gpus.number())
    remarks.warn("ranks-mismatch",
                 line_of({&trainer["numProcPerNode"], &own_gpus, &trainer, &job.spec()["runtimeRef"]}),
                 text(*processes->number(), " processes a node on ", gpus.text, " GPUs"),
                 text("numProcPerNode: ", gpus.text));
}

void reserved_variables(const Job& job, const Value* runtime, Remarks& remarks) {
  static constexpr std::array<std::string_view, 5> of_torch{
      "PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"};
  if (runtime != nullptr && (*runtime)["spec"]["mlPolicy"]["torch"].line == 0) return;
  for (const Value& entry : job.spec()["trainer"]["env"].items) {
    if (std::ranges::find(of_torch, entry["name"].text) != of_torch.end())
      remarks.critical("trainer-variable", entry["name"].line,
                       text("Trainer sets ", entry["name"].text, " itself, and refuses another value"),
                       "leave it out: numNodes and numProcPerNode say it");
  }
}

}  // namespace

void trainer_rules(const Job& job, const std::vector<Value>& documents, Remarks& remarks) {
  if (job.kind == Job::Kind::runtime) runtime_rules(job, remarks);
  if (job.kind != Job::Kind::train_job) return;
  train_job_rules(job, remarks);
  const Value* runtime = runtime_of(job, documents);
  train_job_processes(job, runtime, remarks);
  reserved_variables(job, runtime, remarks);
}

}  // namespace weft::report::manifest
