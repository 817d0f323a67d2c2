#pragma once
// The rules of lint.hpp, by what they look at. Each adds what it finds, with the line that is to be changed.

#include <string>
#include <vector>

#include "common/findings/finding.hpp"
#include "weft-launch/manifest/jobs.hpp"
#include "weft-launch/manifest/value.hpp"

namespace weft::report::manifest {

/// Where rules put what they find.
class Remarks {
 public:
  explicit Remarks(std::string file) : file_(std::move(file)) {}

  /// The object looked at, whose line stands for what is not there at all.
  void about(const Value& object) { line_ = object.line; }

  void add(Severity severity, std::string cause, int line, std::string verdict, std::string fix) {
    findings_.push_back({.cause = std::move(cause),
                         .severity = severity,
                         .confidence = 1,
                         .verdict = std::move(verdict),
                         .evidence = {{file_, line == 0 ? line_ : line, {}}},
                         .fix = std::move(fix)});
  }
  void critical(std::string cause, int line, std::string verdict, std::string fix) {
    add(Severity::critical, std::move(cause), line, std::move(verdict), std::move(fix));
  }
  void warn(std::string cause, int line, std::string verdict, std::string fix) {
    add(Severity::warning, std::move(cause), line, std::move(verdict), std::move(fix));
  }
  /// Advice that does not hold everywhere.
  void notice(std::string cause, int line, std::string verdict, std::string fix) {
    add(Severity::notice, std::move(cause), line, std::move(verdict), std::move(fix));
  }
  std::vector<Finding> findings() && { return std::move(findings_); }

 private:
  std::string file_;
  int line_ = 1;
  std::vector<Finding> findings_;
};

/// The line of what there is first of several; 0 where there is none of them.
inline int line_of(std::initializer_list<const Value*> values) {
  for (const Value* value : values) {
    if (value->line != 0) return value->line;
  }
  return 0;
}

/// Keys that stand twice; numbers where Kubernetes wants text, and what is no number where it wants one.
void form_rules(const Value& document, Remarks& remarks);
/// Memory, devices and processors of a pod.
void resource_rules(const Job& job, const Role& role, Remarks& remarks);
/// How a pod starts and ends: process 1, hooks, grace, sidecars, the host's network.
void life_rules(const Job& job, const Role& role, Remarks& remarks);
/// What podFailurePolicy does with exit codes.
void policy_rules(const Job& job, const Role& role, Remarks& remarks);
/// MPIJob, and Trainer's policy `mpi`: mpirun's words.
void mpi_rules(const Job& job, Remarks& remarks);
/// Job, JobSet and TrainJob: how ranks find each other, and whether all of them come.
void meeting_rules(const Job& job, const std::vector<Value>& documents, Remarks& remarks);
/// Processes that are started on a node, against its GPUs.
void process_rules(const Job& job, const Role& role, Remarks& remarks);
/// Kubeflow Trainer's own; a TrainJob is judged with the runtime that it names, where that is among the documents.
void trainer_rules(const Job& job, const std::vector<Value>& documents, Remarks& remarks);
/// PyTorchJob and the other kinds of Kubeflow's training operator.
void operator_rules(const Job& job, Remarks& remarks);
/// Jobs of Volcano: gangs, and what its plug-ins add.
void volcano_rules(const Job& job, Remarks& remarks);
void leader_worker_rules(const Job& job, Remarks& remarks);
/// RayJob, RayCluster and RayService of KubeRay.
void ray_rules(const Job& job, Remarks& remarks);
/// A training on NCCL that nobody watches.
void watch_rules(const Job& job, Remarks& remarks);
/// Variables of weft, and its token.
void weft_rules(const Job& job, const Role& role, Remarks& remarks);

}  // namespace weft::report::manifest
