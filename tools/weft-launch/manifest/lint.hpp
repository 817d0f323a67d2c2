#pragma once
// What is wrong with the manifest of a job for Kubernetes, before it is applied: Job, JobSet, MPIJob, PyTorchJob and its like, Trainer's
// TrainJob and its runtimes, jobs of Volcano, LeaderWorkerSet, and RayJob, RayCluster and RayService. An API server checks fields one by one; this looks at what they do together, to ranks that are to meet. Pure.
//
//   const Lint result = lint({{"service.yaml", service}, {"job.yaml", job}});
//   return exit_status(result.findings);
//
// Critical: the job is refused or cannot run. Warning: it fails, hangs or is slow in the way that the finding says. Notice: advice that does
// not hold on every cluster.
// WRONG: a template of Helm or a kustomization.yaml; render it first (kubectl kustomize DIR | weft-launch lint -).

#include <string>
#include <vector>

#include "common/findings/finding.hpp"

namespace weft::report::manifest {

struct Input {
  std::string file;  ///< its name, for findings
  std::string content;
};

struct Lint {
  std::vector<Finding> findings{};  ///< by file and line
  std::vector<std::string> jobs{};  ///< "JobSet weft"
  /// "Deployment web": kinds that have pods, or may have, and no rules; their form alone is looked at.
  std::vector<std::string> not_checked{};
  std::size_t objects = 0;
};

/// Looks at files that are applied together. @throws Error (usage) for one that is not YAML, or has no object of Kubernetes in it
Lint lint(const std::vector<Input>& inputs);

}  // namespace weft::report::manifest
