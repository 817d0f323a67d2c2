// How a pod starts and ends. Kubernetes signals process 1 of each container alone, and SIGKILL follows after the grace period.

#include <algorithm>
#include <array>
#include <cstdlib>

#include "weft-launch/manifest/rules/rules.hpp"
#include "weft/core/text.hpp"

namespace weft::report::manifest {
namespace {

const char* const inject = "sidecar.istio.io/inject";

struct SpotNodes {
  std::string_view label;
  std::string_view value;
  long seconds;
  std::string_view who;
};

/// The notice that each cloud gives before it takes a spot node; on GKE 15 s of its 30 are for the system's pods.
constexpr std::array spot_nodes{SpotNodes{"cloud.google.com/gke-spot", "true", 25, "GKE"},
                                SpotNodes{"cloud.google.com/gke-preemptible", "true", 25, "GKE"},
                                SpotNodes{"eks.amazonaws.com/capacityType", "SPOT", 120, "AWS"},
                                SpotNodes{"karpenter.sh/capacity-type", "spot", 120, "AWS"},
                                SpotNodes{"kubernetes.azure.com/scalesetpriority", "spot", 30, "Azure"}};

void sidecar_rules(const Job& job, const Role& role, Remarks& remarks) {
  const Value& metadata = *role.metadata;
  const Value& label = metadata["labels"][inject];
  const Value& annotation = metadata["annotations"][inject];
  for (const Value* one : {&label, &annotation}) {
    if (one->is("true") || one->is("enabled"))
      remarks.warn(
          "istio-sidecar", one->line,
          "Istio's proxy in a pod of ranks takes their connections, and keeps a finished pod running",
          text(inject, ": \"false\""));
  }
  const Value& at_job = (*job.document)["metadata"]["annotations"][inject];
  if (at_job && !label && !annotation)
    remarks.warn("istio-sidecar", at_job.line, text(inject, " is read from pods, and stands at the job"),
                 "move it to template.metadata.annotations");
}

/// Seconds that a preStop hook sleeps at least: `sleep: {seconds: 60}` and the command sleep 60.
long seconds_of_hook(const Value& hook) {
  if (const auto seconds = hook["sleep"]["seconds"].number()) return *seconds;
  const Value& command = hook["exec"]["command"];
  if (command.at(0).is("sleep") || command.at(0).is("/bin/sleep")) return command.at(1).number().value_or(0);
  const std::string& script = command.at(2).text;
  const std::size_t at = script.find("sleep ");
  return at == std::string::npos ? 0 : std::atol(script.c_str() + at + 6);
}

void grace_rules(const Role& role, Remarks& remarks) {
  const Value& grace = (*role.pod)["terminationGracePeriodSeconds"];
  const long seconds = grace.number().value_or(30);
  // Other programs on GPUs may have nothing to save: benchmarks end so on purpose.
  const bool is_weft = std::ranges::any_of(role.containers, &Container::is_weft);
  if (grace && seconds < 5 && (is_weft || role.gpus() > 0))
    remarks.add(is_weft ? Severity::warning : Severity::notice, "grace-short", grace.line,
                text("ranks have ", seconds, " s to save after the notice"),
                "terminationGracePeriodSeconds: 60 or more");
  for (const SpotNodes& one : spot_nodes) {
    if ((*role.pod)["nodeSelector"][one.label].is(one.value) && seconds > one.seconds && grace)
      remarks.warn(
          "grace-long", grace.line,
          text("spot nodes of ", one.who, " go after ", one.seconds, " s, whatever the ", seconds, " s here"),
          text("terminationGracePeriodSeconds: ", one.seconds, " or less, and checkpoints that take less"));
  }
  for (const Container& container : role.containers) {
    const Value& hook = container["lifecycle"]["preStop"];
    const long sleeps = seconds_of_hook(hook);
    if (sleeps >= seconds && sleeps > 0)
      remarks.warn("grace-short", hook.line,
                   text("preStop sleeps ", sleeps, " s of the ", seconds,
                        " s that the pod has: SIGKILL comes before SIGTERM"),
                   "a terminationGracePeriodSeconds above what preStop takes");
  }
}

/// Ranks that are not process 1 hear nothing of SIGTERM.
void notice_rules(const Job& job, const Role& role, Remarks& remarks) {
  for (const Container& container : role.containers) {
    if (container["lifecycle"]["preStop"]) continue;
    const Value& grace = (*role.pod)["terminationGracePeriodSeconds"];
    const bool is_worker = job.kind == Job::Kind::mpi_job && !job.is_mpi_over_exec() && !role.is_launcher;
    if (container.runs_sshd() || (is_worker && container.words.empty())) {
      remarks.add(grace ? Severity::warning : Severity::notice, "no-notice",
                  line_of({&grace, &container["name"], container.value}),
                  "process 1 is sshd, and gets SIGTERM alone: the ranks hear nothing before SIGKILL",
                  "a preStop hook that sends SIGUSR1 to the ranks (launchers/kubernetes/notice.sh)");
      continue;
    }
    const bool has_more =
        std::ranges::find(container.words, std::string(";"), &Word::text) != container.words.end();
    const auto launch = container.program("weft-launch");
    const bool is_exec = launch && *launch > 0 && container.words[*launch - 1].text == "exec";
    if (container.in_shell && has_more && launch && !is_exec)
      remarks.warn(
          "shell-first", container.words[*launch].line,
          "process 1 is a shell, which keeps SIGTERM to itself: the ranks hear nothing before SIGKILL",
          "exec weft-launch as the script's last command, or a preStop hook");
  }
}

void restart_rules(const Job& job, const Role& role, Remarks& remarks) {
  const Value& policy = (*role.pod)["restartPolicy"];
  if (job.kind == Job::Kind::mpi_job || job.kind == Job::Kind::operator_job) {
    const Value& own = (*role.owner)["restartPolicy"];
    if (job.kind == Job::Kind::mpi_job && !role.is_launcher && (own.is("OnFailure") || own.is("Always")))
      remarks.warn("worker-restarts", own.line,
                   text("a worker with restartPolicy ", own.text,
                        " starts again in its place, and mpirun does not take it in"),
                   "restartPolicy: Never");
    if (policy && own && !policy.is(own.text))
      remarks.warn("restart-policy", policy.line,
                   "the operator takes restartPolicy from the replica, not from the pod",
                   "set it beside replicas");
    return;
  }
  if (job.has_batch_jobs() && policy.is("Always"))
    remarks.critical("restart-policy", policy.line, "a job's pods cannot have restartPolicy Always",
                     "restartPolicy: Never");
  if (!policy && job.kind == Job::Kind::job)
    remarks.critical("restart-policy", role.pod->line,
                     "the pod has no restartPolicy, and Always, the default, is not for jobs",
                     "restartPolicy: Never");
}

void host_network_rules(const Job& job, const Role& role, Remarks& remarks) {
  const Value& host = (*role.pod)["hostNetwork"];
  if (!host.is_true()) return;
  if (job.kind != Job::Kind::mpi_job && job.nodes() > 1 &&
      !(*role.pod)["dnsPolicy"].is("ClusterFirstWithHostNet"))
    remarks.warn("host-network", host.line,
                 "a pod in the host's network asks the host's name server, which knows no pods",
                 "dnsPolicy: ClusterFirstWithHostNet");
  for (const Container& container : role.containers) {
    const bool has_own_port = container.option("-p") || container.option("-f");
    if (job.kind == Job::Kind::mpi_job && !job.is_mpi_over_exec() && !role.is_launcher &&
        (container.runs_sshd() || container.words.empty()) && !has_own_port)
      remarks.warn("host-network", host.line, "sshd of the pod wants port 22 of the host, which has its own",
                   "another port, in a file for sshd -f or as -p 2222");
  }
}

}  // namespace

void life_rules(const Job& job, const Role& role, Remarks& remarks) {
  sidecar_rules(job, role, remarks);
  grace_rules(role, remarks);
  notice_rules(job, role, remarks);
  restart_rules(job, role, remarks);
  host_network_rules(job, role, remarks);
}

}  // namespace weft::report::manifest
