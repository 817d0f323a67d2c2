// Which objects are jobs, and what the roles of each kind are.

#include <array>

#include "weft-launch/manifest/jobs.hpp"

namespace weft::report::manifest {
namespace {

void add_mpi_roles(Job& job) {
  for (const char* name : {"Launcher", "Worker"}) {
    const Value& replica = job.spec()["mpiReplicaSpecs"][name];
    if (!replica) continue;
    job.roles.push_back(role_of(name, replica, replica["template"], number_or(replica["replicas"], 1)));
    job.roles.back().is_launcher = job.roles.back().name == "Launcher";
  }
}

void add_replicated_jobs(Job& job, const Value& spec, long nodes) {
  for (const Value& replicated : spec["replicatedJobs"].items) {
    const Value& inner = replicated["template"]["spec"];
    const long pods = number_or(inner["parallelism"], nodes) * number_or(replicated["replicas"], 1);
    job.roles.push_back(role_of(replicated["name"].text, inner, inner["template"], pods));
    job.roles.back().is_launcher = job.roles.back().name == "launcher";
  }
}

void add_operator_roles(Job& job, std::string_view replicas) {
  for (const Member& member : job.spec()[replicas].members)
    job.roles.push_back(
        role_of(member.key, member.value, member.value["template"], number_or(member.value["replicas"], 1)));
}

/// A task that runs mpirun has no rank of its own.
void add_volcano_roles(Job& job) {
  for (const Value& task : job.spec()["tasks"].items) {
    Role role = role_of(task["name"].text, task, task["template"], number_or(task["replicas"], 1));
    for (const Container& container : role.containers)
      role.is_launcher |= container.program("mpirun") || container.program("mpiexec");
    job.roles.push_back(std::move(role));
  }
}

/// The pods of one group: a leader, and size - 1 workers.
void add_leader_worker_roles(Job& job) {
  const Value& group = job.spec()["leaderWorkerTemplate"];
  const Value& leader = group["leaderTemplate"] ? group["leaderTemplate"] : group["workerTemplate"];
  const long size = number_or(group["size"], 1);
  job.roles.push_back(role_of("leader", group, leader, 1));
  if (size > 1) job.roles.push_back(role_of("worker", group, group["workerTemplate"], size - 1));
}

void add_ray_roles(Job& job, const Value& cluster) {
  const Value& head = cluster["headGroupSpec"];
  if (head) job.roles.push_back(role_of("head", head, head["template"], 1));
  for (const Value& group : cluster["workerGroupSpecs"].items) {
    const long pods =
        number_or(group["replicas"], number_or(group["minReplicas"], 0)) * number_or(group["numOfHosts"], 1);
    if (pods > 0) job.roles.push_back(role_of(group["groupName"].text, group, group["template"], pods));
  }
}

struct OperatorKind {
  std::string_view kind;
  std::string_view replicas;
};
constexpr std::array operator_kinds{
    OperatorKind{"PyTorchJob", "pytorchReplicaSpecs"}, OperatorKind{"TFJob", "tfReplicaSpecs"},
    OperatorKind{"XGBoostJob", "xgbReplicaSpecs"}, OperatorKind{"PaddleJob", "paddleReplicaSpecs"},
    OperatorKind{"JAXJob", "jaxReplicaSpecs"}};

/// Others may have a kind of the same name.
bool is_of(const Value& document, std::string_view kind, std::string_view group) {
  return document["kind"].is(kind) && document["apiVersion"].text.starts_with(group);
}

bool read_ray(Job& job) {
  const Value& document = *job.document;
  for (const auto& [kind, key] :
       {std::pair{"RayJob", "rayClusterSpec"}, {"RayService", "rayClusterConfig"}, {"RayCluster", ""}}) {
    if (!is_of(document, kind, "ray.io/")) continue;
    job.kind = Job::Kind::ray;
    add_ray_roles(job, *key == '\0' ? job.spec() : job.spec()[key]);
    return true;
  }
  return false;
}

bool read_operator_job(Job& job) {
  for (const OperatorKind& one : operator_kinds) {
    if (!is_of(*job.document, one.kind, "kubeflow.org/")) continue;
    job.kind = Job::Kind::operator_job;
    add_operator_roles(job, one.replicas);
    return true;
  }
  return false;
}

bool read_trainer(Job& job) {
  const std::string& kind = (*job.document)["kind"].text;
  const Value& spec = job.spec();
  if (kind == "TrainJob") {
    job.kind = Job::Kind::train_job;
    return true;
  }
  if (kind != "ClusterTrainingRuntime" && kind != "TrainingRuntime") return false;
  job.kind = Job::Kind::runtime;
  add_replicated_jobs(job, spec["template"]["spec"], number_or(spec["mlPolicy"]["numNodes"], 1));
  return true;
}

/// Whether the object is a job: its kind and its roles.
bool read_job(Job& job) {
  const Value& document = *job.document;
  const Value& spec = job.spec();
  if (is_of(document, "MPIJob", "kubeflow.org/")) {
    job.kind = Job::Kind::mpi_job;
    add_mpi_roles(job);
  } else if (document["kind"].is("JobSet")) {
    job.kind = Job::Kind::job_set;
    add_replicated_jobs(job, spec, 1);
  } else if (is_of(document, "Job", "batch/")) {
    job.roles.push_back(role_of("Job", spec, spec["template"], number_or(spec["parallelism"], 1)));
  } else if (is_of(document, "Job", "batch.volcano.sh/")) {
    job.kind = Job::Kind::volcano;
    add_volcano_roles(job);
  } else if (is_of(document, "LeaderWorkerSet", "leaderworkerset.x-k8s.io/")) {
    job.kind = Job::Kind::leader_worker;
    add_leader_worker_roles(job);
  } else {
    return read_trainer(job) || read_operator_job(job) || read_ray(job);
  }
  return true;
}

}  // namespace

std::vector<Job> jobs_of(const std::vector<Value>& documents) {
  std::vector<Job> jobs;
  for (const Value& document : documents) {
    Job job{&document, Job::Kind::job, document["metadata"]["name"].text};
    if (read_job(job)) jobs.push_back(std::move(job));
  }
  return jobs;
}

}  // namespace weft::report::manifest
