// Kinds of Kubeflow's training operator: what its webhook refuses, and jobs whose ranks do not meet.

#include <algorithm>
#include <array>

#include "weft-launch/manifest/rules/rules.hpp"
#include "weft/core/text.hpp"

namespace weft::report::manifest {
namespace {

struct Expected {
  std::string_view kind;
  std::string_view container;
  std::string_view roles;  ///< separated by spaces
};
constexpr std::array expected_of{Expected{"PyTorchJob", "pytorch", "Master Worker"},
                                 Expected{"TFJob", "tensorflow", "Chief Master PS Worker Evaluator"},
                                 Expected{"XGBoostJob", "xgboost", "Master Worker"},
                                 Expected{"PaddleJob", "paddle", "Master Worker"},
                                 Expected{"JAXJob", "jax", "Worker"}};

void replicas(const Job& job, Remarks& remarks) {
  const auto expected = std::ranges::find(expected_of, (*job.document)["kind"].text, &Expected::kind);
  if (expected == expected_of.end()) return;
  for (const Role& role : job.roles) {
    if (text(' ', expected->roles, ' ').find(text(' ', role.name, ' ')) == std::string::npos)
      remarks.critical("replica-type", role.owner->line,
                       text("a ", expected->kind, " has no ", role.name, "; the operator refuses it"),
                       text("one of ", expected->roles));
    const bool has_container = std::ranges::any_of(
        role.containers, [&](const Container& one) { return one["name"].is(expected->container); });
    const Value& containers = (*role.pod)["containers"];
    if (!has_container)
      remarks.critical(
          "operator-container", line_of({&containers.at(0)["name"], &containers, role.owner}),
          text("the operator looks for a container called ", expected->container, " in each pod"),
          text("name: ", expected->container));
    const Value& count = (*role.owner)["replicas"];
    if (role.name == "Master" && count && count.number() && !count.is("1"))
      remarks.critical("master-replicas", count.line, text("there is one Master, not ", count.text),
                       "replicas: 1, and more Workers");
  }
}

/// Fields that stand a level too high, or with other capital letters.
void places(const Job& job, Remarks& remarks) {
  static constexpr std::array<std::string_view, 6> of_policy{
      "cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds",
      "backoffLimit",   "schedulingPolicy",        "suspend"};
  static constexpr std::array<std::string_view, 6> of_elastic{"minReplicas", "maxReplicas", "maxRestarts",
                                                              "rdzvBackend", "rdzvHost",    "rdzvPort"};
  const auto wrong = [&](const Member& member, std::string_view written, std::string_view right) {
    remarks.critical("field-place", member.line,
                     text(written, " is no field of a ", (*job.document)["kind"].text),
                     text("it is ", right));
  };
  for (const Member& member : job.spec().members) {
    const std::string written = "spec." + member.key;
    if (std::ranges::find(of_policy, member.key) != of_policy.end())
      wrong(member, written, "spec.runPolicy." + member.key);
    if (std::ranges::find(of_elastic, member.key) != of_elastic.end())
      wrong(member, written, "spec.elasticPolicy." + member.key);
    if (member.key == "nProcPerNode") wrong(member, written, "spec.nprocPerNode");
  }
  for (const Member& member : job.spec()["elasticPolicy"].members) {
    if (member.key == "nprocPerNode") wrong(member, "spec.elasticPolicy.nprocPerNode", "spec.nprocPerNode");
  }
}

void processes(const Job& job, Remarks& remarks) {
  const Value& each = job.spec()["nprocPerNode"];
  const Value& old = job.spec()["elasticPolicy"]["nProcPerNode"];
  if (each.is_no_text() && each)
    remarks.critical(
        "not-text", each.line,
        text("nprocPerNode is ", each.text, " without quotes, which is no text: the API server refuses it"),
        text("write \"", each.text, "\""));
  if (each && old)
    remarks.critical("processes-twice", old.line,
                     "elasticPolicy.nProcPerNode beside nprocPerNode: the operator refuses it",
                     "leave it out");
  else if (old)
    remarks.notice("processes-twice", old.line, "elasticPolicy.nProcPerNode is deprecated",
                   "nprocPerNode: \"N\"");
}

/// torchrun's agents of an elastic job are the Workers alone: it tells them MIN:MAX of these.
void elastic(const Job& job, const Value& policy, Remarks& remarks) {
  const Role* worker = job.role_named("Worker");
  const Role* master = job.role_named("Master");
  if (worker == nullptr)
    remarks.critical("elastic-replicas", policy.line, "an elastic job has Workers, and there are none",
                     "pytorchReplicaSpecs: {Worker: ...}");
  if (master != nullptr)
    remarks.critical(
        "elastic-master", master->owner->line,
        "a Master beside elasticPolicy: the number of nodes that the agents are told leaves it out, "
        "and the rendezvous fails (RendezvousConnectionError)",
        "leave the Master out, or elasticPolicy");
  if (worker == nullptr) return;
  const Value& least = policy["minReplicas"];
  const Value& most = policy["maxReplicas"];
  if (least.number() && most.number() && *least.number() > *most.number())
    remarks.critical("elastic-replicas", least.line,
                     text("minReplicas ", least.text, " is more than maxReplicas ", most.text),
                     "the other way round");
  else if (least.number() && worker->pods < *least.number())
    remarks.warn("elastic-replicas", line_of({&(*worker->owner)["replicas"], worker->owner}),
                 text("the job starts with ", worker->pods, " Workers and waits for ", least.text),
                 text("replicas: ", least.text, " or more"));
  else if (most.number() && worker->pods > *most.number())
    remarks.warn("elastic-replicas", line_of({&(*worker->owner)["replicas"], worker->owner}),
                 text(worker->pods, " Workers, and at most ", most.text, " take part"),
                 text("replicas: ", most.text, " or fewer"));
}

bool names_a_place(const Container& container) {
  for (const char* name : {"MASTER_ADDR", "PET_MASTER_ADDR", "PET_RDZV_ENDPOINT", "WEFT_RENDEZVOUS"}) {
    if (container.variable(name)) return true;
  }
  return container["envFrom"] || std::ranges::any_of(container.words, [](const Word& word) {
           return word.text.find("master") != std::string::npos ||
                  word.text.find("rdzv") != std::string::npos ||
                  word.text.find("MASTER") != std::string::npos;
         });
}

/// Without a Master the operator sets no MASTER_ADDR.
void master_missing(const Job& job, Remarks& remarks) {
  const Role* worker = job.role_named("Worker");
  if (worker == nullptr || worker->pods < 2 || job.role_named("Master") != nullptr ||
      !(*job.document)["kind"].is("PyTorchJob") || std::ranges::any_of(worker->containers, names_a_place))
    return;
  remarks.warn(
      "no-master", worker->owner->line,
      "no Master and no elasticPolicy: the operator sets no MASTER_ADDR, and the Workers do not meet",
      "a Master with replicas: 1, or elasticPolicy");
}

}  // namespace

void operator_rules(const Job& job, Remarks& remarks) {
  if (job.kind != Job::Kind::operator_job) return;
  replicas(job, remarks);
  places(job, remarks);
  processes(job, remarks);
  if (const Value& policy = job.spec()["elasticPolicy"];
      policy.line != 0 && (*job.document)["kind"].is("PyTorchJob"))
    elastic(job, policy, remarks);
  else
    master_missing(job, remarks);
}

}  // namespace weft::report::manifest
