// Kubeflow Trainer: what its plugins look for in a runtime, and what they refuse.

#include <algorithm>
#include <array>

#include "report/manifest/rules/rules.hpp"
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

}  // namespace

void trainer_rules(const Job& job, Remarks& remarks) {
  if (job.kind == Job::Kind::runtime) runtime_rules(job, remarks);
  if (job.kind == Job::Kind::train_job) train_job_rules(job, remarks);
}

}  // namespace weft::report::manifest
