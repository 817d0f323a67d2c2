#pragma once
// The jobs of a manifest: whatever its kind, a job has roles, and a role a number of pods of one template. Views of read_yaml()'s values, which
// must live longer.
//
//   for (const Job& job : jobs_of(documents))
//     for (const Role& role : job.roles)
//       for (const Container& container : role.containers) look_at(container.words);

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft-launch/manifest/value.hpp"

namespace weft::report::manifest {

struct Word {
  std::string text;
  int line = 0;
};

struct Container {
  const Value* value = nullptr;
  std::vector<Word> words{};  ///< command and args; what a shell is given with -c is cut into words
  bool in_shell = false;

  const Value& operator[](std::string_view key) const { return (*value)[key]; }
  /// The entry of `env` with this name; null where there is none.
  const Value& variable(std::string_view name) const;
  /// The word after `option`, or what follows option=. Only up to `end`, if that word is there.
  std::optional<Word> option(std::string_view option) const;
  /// The first of several spellings.
  std::optional<Word> any_option(std::initializer_list<const char*> names) const;
  /// Index of the first word that is a program of this name, with or without a folder.
  std::optional<std::size_t> program(std::string_view name) const;
  /// How much of a resource it may use: limits, else requests. None where neither says.
  const Value& resource(std::string_view name) const;
  long gpus() const;
  /// The resource that gpus() read; null where it asks for none.
  const Value& gpu_resource() const;
  bool is_weft() const;  ///< runs a program of weft, or has a WEFT_ variable
  bool runs_sshd() const;
};

struct Role {
  std::string name{};  ///< "Worker", "node"
  const Value* owner =
      nullptr;  ///< what holds `template` and the numbers: a Job's spec, an entry of mpiReplicaSpecs
  const Value* metadata = nullptr;
  const Value* pod = nullptr;  ///< the pod's spec
  long pods = 1;
  bool is_launcher = false;
  std::vector<Container> containers{};

  /// The first name of a resource that carries RDMA, or null.
  const Value& rdma() const;
  long gpus() const;
};

struct Job {
  /// operator_job: PyTorchJob and its like, of Kubeflow's training operator. ray: RayJob, RayCluster, RayService. leader_worker: one group of a
  /// LeaderWorkerSet.
  enum class Kind { job, job_set, mpi_job, runtime, train_job, operator_job, volcano, leader_worker, ray };
  const Value* document = nullptr;
  Kind kind = Kind::job;
  std::string name{};
  std::vector<Role> roles{};

  const Value& spec() const { return (*document)["spec"]; }
  bool is_weft() const;
  long nodes() const;  ///< pods with ranks
  /// Null where there is none of this name.
  const Role* role_named(std::string_view role) const;
  /// Its pods are those of a Job of Kubernetes, whose fields (backoffLimit, podFailurePolicy, completions) count.
  bool has_batch_jobs() const { return kind == Kind::job || kind == Kind::job_set || kind == Kind::runtime; }
  /// An MPIJob before v2beta1: the training operator serves v1, and mpirun reaches workers through kubectl exec, not through ssh.
  bool is_mpi_over_exec() const;
};

/// A role of `pods` pods of this template. `owner` holds the numbers.
Role role_of(std::string name, const Value& owner, const Value& pod_template, long pods);

/// The number, or another where it is none.
long number_or(const Value& value, long otherwise);

std::vector<Job> jobs_of(const std::vector<Value>& documents);

/// Bytes of "64Gi", "1.5G", "1000"; none where it is no quantity.
std::optional<double> quantity(const Value& value);

/// Whether a resource's name is one that carries RDMA: rdma/ib, nvidia.com/rdma_roce, vpc.amazonaws.com/efa.
bool is_rdma(std::string_view resource);

}  // namespace weft::report::manifest
