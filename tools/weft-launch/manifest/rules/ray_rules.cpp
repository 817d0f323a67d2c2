// KubeRay: what its controllers refuse, and GPUs that Ray is told of beside those that a pod has.

#include <algorithm>

#include "weft-launch/manifest/rules/rules.hpp"
#include "weft/core/text.hpp"

namespace weft::report::manifest {
namespace {

const Value& cluster_of(const Job& job) {
  const Value& kind = (*job.document)["kind"];
  if (kind.is("RayJob")) return job.spec()["rayClusterSpec"];
  return kind.is("RayService") ? job.spec()["rayClusterConfig"] : job.spec();
}

void ray_job(const Value& spec, Remarks& remarks) {
  const Value& shuts = spec["shutdownAfterJobFinishes"];
  const Value& selector = spec["clusterSelector"];
  if (!spec["rayClusterSpec"] && !selector)
    remarks.critical("ray-cluster", spec.line, "the RayJob has neither rayClusterSpec nor clusterSelector",
                     "rayClusterSpec: {headGroupSpec: ..., workerGroupSpecs: [...]}");
  const Value& mode = spec["submissionMode"];
  if (!spec["entrypoint"] && !mode.is("InteractiveMode") && !spec["submitterPodTemplate"])
    remarks.critical("ray-entrypoint", spec.line, "the RayJob has no entrypoint: nothing is submitted",
                     "entrypoint: python train.py, or submissionMode: InteractiveMode");
  const Value& keeps = spec["ttlSecondsAfterFinished"];
  if (keeps && !keeps.is("0") && !shuts.is_true())
    remarks.critical("ray-shutdown", keeps.line,
                     "ttlSecondsAfterFinished without shutdownAfterJobFinishes: KubeRay refuses it",
                     "shutdownAfterJobFinishes: true");
  if (spec["suspend"].is_true() && !shuts.is_true())
    remarks.critical(
        "ray-shutdown", spec["suspend"].line,
        "a RayJob that is suspended, as Kueue does it, needs shutdownAfterJobFinishes: KubeRay refuses it",
        "shutdownAfterJobFinishes: true");
  const Value& again = spec["backoffLimit"];
  if (again && !again.is("0") && (selector || mode.is("InteractiveMode")))
    remarks.critical(
        "ray-again", again.line,
        text("backoffLimit with ", selector ? "clusterSelector" : "InteractiveMode", ": KubeRay refuses it"),
        "leave it out");
}

void group_numbers(const Value& group, Remarks& remarks) {
  const Value& least = group["minReplicas"];
  const Value& most = group["maxReplicas"];
  const Value& now = group["replicas"];
  const std::string& name = group["groupName"].text;
  if (least.number() && most.number() && *least.number() > *most.number()) {
    remarks.critical(
        "ray-replicas", least.line,
        text("group ", name, ": minReplicas ", least.text, " is more than maxReplicas ", most.text),
        "the other way round");
    return;
  }
  if (!now.number()) return;
  const bool is_below = least.number() && *now.number() < *least.number();
  const bool is_above = most.number() && *now.number() > *most.number();
  if (is_below || is_above)
    remarks.warn("ray-replicas", now.line,
                 text("group ", name, ": replicas ", now.text, " is ",
                      is_below ? "below minReplicas " : "above maxReplicas ",
                      is_below ? least.text : most.text, ", which KubeRay takes instead"),
                 text("replicas: ", is_below ? least.text : most.text));
}

/// Ray schedules by what ray start says, whatever the container may use.
void group_gpus(const Value& group, const Role* role, Remarks& remarks) {
  const Value& said = group["rayStartParams"]["num-gpus"];
  if (role == nullptr || role->containers.empty() || !said.number()) return;
  const long gpus = role->containers.front().gpus();
  if (*said.number() > gpus)
    remarks.add(gpus > 0 ? Severity::warning : Severity::notice, "ranks-mismatch", said.line,
                text("Ray is told of ", said.text, *said.number() == 1 ? " GPU" : " GPUs",
                     ", and the container has ", gpus),
                text("nvidia.com/gpu: ", said.text, " in its limits, or num-gpus: \"", gpus, '"'));
}

}  // namespace

void ray_rules(const Job& job, Remarks& remarks) {
  if (job.kind != Job::Kind::ray) return;
  if ((*job.document)["kind"].is("RayJob")) ray_job(job.spec(), remarks);
  const Value& cluster = cluster_of(job);
  const auto role_of_group = [&](const Value& owner) -> const Role* {
    const auto found = std::ranges::find(job.roles, &owner, &Role::owner);
    return found == job.roles.end() ? nullptr : &*found;
  };
  if (cluster && !cluster["headGroupSpec"])
    remarks.critical("ray-cluster", cluster.line, "the cluster has no headGroupSpec",
                     "headGroupSpec: {template: ...}");
  group_gpus(cluster["headGroupSpec"], role_of_group(cluster["headGroupSpec"]), remarks);
  for (const Value& group : cluster["workerGroupSpecs"].items) {
    group_numbers(group, remarks);
    group_gpus(group, role_of_group(group), remarks);
  }
}

}  // namespace weft::report::manifest
