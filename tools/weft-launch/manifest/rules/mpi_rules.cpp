// MPIJob: what the operator makes of it, and mpirun's words.

#include <algorithm>
#include <array>
#include <cstdlib>

#include "weft-launch/manifest/rules/rules.hpp"
#include "weft/core/text.hpp"

namespace weft::report::manifest {
namespace {

/// mpirun's words end with its program; options of that are not its own. Before an option that takes words, there are none that are not options.
std::size_t end_of_options(const Container& launcher, std::size_t mpirun) {
  static constexpr std::array<std::string_view, 22> take_one{
      "-np",       "-n",    "--np",       "-c",        "--map-by", "-map-by", "--bind-to", "-bind-to",
      "--rank-by", "-x",    "--hostfile", "-hostfile", "--host",   "-H",      "-host",     "--prefix",
      "--wdir",    "-wdir", "--npernode", "-npernode", "-N",       "--tune"};
  std::size_t at = mpirun + 1;
  while (at < launcher.words.size() && launcher.words[at].text.starts_with('-')) {
    const std::string& word = launcher.words[at].text;
    const bool is_setting =
        word == "--mca" || word == "-mca" || word == "--gmca" || word == "--prtemca" || word == "--pmixmca";
    at += is_setting ? 3 : std::ranges::find(take_one, word) != take_one.end() ? 2 : 1;
  }
  return std::min(at, launcher.words.size());
}

struct Mpirun {
  const Container* container;
  Container options;  ///< with the words of mpirun alone
};

std::optional<Mpirun> mpirun_of(const Role& launcher) {
  for (const Container& container : launcher.containers) {
    for (const char* name : {"mpirun", "mpiexec", "orterun", "prterun"}) {
      const auto at = container.program(name);
      if (!at) continue;
      Container options{container.value};
      const std::size_t end = end_of_options(container, *at);
      options.words.assign(container.words.begin() + static_cast<std::ptrdiff_t>(*at),
                           container.words.begin() + static_cast<std::ptrdiff_t>(end));
      return Mpirun{&container, std::move(options)};
    }
  }
  return std::nullopt;
}

std::optional<Word> mca(const Container& options, std::string_view name) {
  for (std::size_t i = 0; i + 2 < options.words.size(); ++i) {
    if (options.words[i].text.ends_with("mca") && options.words[i + 1].text == name)
      return options.words[i + 2];
  }
  return std::nullopt;
}

bool exports(const Container& options, std::string_view name) {
  for (std::size_t i = 0; i + 1 < options.words.size(); ++i) {
    if (options.words[i].text != "-x" && options.words[i].text != "-genv") continue;
    const std::string& what = options.words[i + 1].text;
    if (what.substr(0, what.find('=')) == name) return true;
  }
  return std::ranges::any_of(
      options.words, [](const Word& word) { return word.text == "-genvall" || word.text == "-envall"; });
}

/// What MPIJob v1 does not know of v2beta1, and what has its place in runPolicy.
void fields_of_version_1(const Job& job, Remarks& remarks) {
  static constexpr std::array<std::string_view, 4> of_version_2{"sshAuthMountPath", "launcherCreationPolicy",
                                                                "mpiImplementation", "runLauncherAsWorker"};
  static constexpr std::array<std::string_view, 4> of_policy{
      "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "schedulingPolicy"};
  for (const Member& member : job.spec().members) {
    if (std::ranges::find(of_version_2, member.key) != of_version_2.end())
      remarks.critical("v2-field", member.line,
                       text("spec.", member.key, " is of MPIJob v2beta1; v1 does not know it"),
                       "apiVersion: kubeflow.org/v2beta1, which mpi-operator serves, or leave it out");
    if (std::ranges::find(of_policy, member.key) != of_policy.end())
      remarks.critical("v1-field", member.line, text("spec.", member.key, " is no field of MPIJob v1"),
                       text("move it to spec.runPolicy.", member.key));
  }
  const Value& version = (*job.document)["apiVersion"];
  if (version.is("kubeflow.org/v1"))
    remarks.notice(
        "mpi-v1", version.line,
        "MPIJob v1 is served by Kubeflow's training operator v1; mpi-operator since 0.3 and Trainer "
        "v2 do not know it",
        "kubeflow.org/v2beta1 where mpi-operator runs");
}

void fields(const Job& job, Remarks& remarks) {
  if (job.is_mpi_over_exec()) return fields_of_version_1(job, remarks);
  static constexpr std::array<std::string_view, 8> of_version_1{
      "cleanPodPolicy",   "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit",
      "schedulingPolicy", "mainContainer",           "processingUnits",       "gpus"};
  for (const Member& member : job.spec().members) {
    if (std::ranges::find(of_version_1, member.key) == of_version_1.end()) continue;
    const bool moved =
        member.key != "mainContainer" && member.key != "processingUnits" && member.key != "gpus";
    remarks.critical("v1-field", member.line,
                     text("spec.", member.key, " is of MPIJob v1; v2beta1 does not know it"),
                     moved ? text("move it to spec.runPolicy.", member.key)
                           : std::string("leave it out: resources of the worker's container say it"));
  }
  const Value& library = job.spec()["mpiImplementation"];
  if (library && !library.is("OpenMPI") && !library.is("Intel") && !library.is("MPICH"))
    remarks.critical("mpi-implementation", library.line,
                     text("mpiImplementation is ", library.text, ", and can be OpenMPI, Intel or MPICH"),
                     library.text == "openmpi" ? "OpenMPI" : "one of these, with its capital letters");
}

void start(const Job& job, const Role& launcher, Remarks& remarks) {
  const Value& policy = job.spec()["launcherCreationPolicy"];
  const Value& restart = (*launcher.owner)["restartPolicy"];
  const Value& limit = job.spec()["runPolicy"]["backoffLimit"];
  // Version 1 waits for the workers in an init container.
  if (policy.is("WaitForWorkersReady") || job.is_mpi_over_exec()) return;
  const bool is_last_try = limit.is("0") || restart.is("Never");
  remarks.add(
      policy || is_last_try ? Severity::warning : Severity::notice, "launcher-early",
      line_of({&policy, &job.spec()}),
      "the launcher starts beside the workers: \"Could not resolve hostname\" until their names are known",
      "launcherCreationPolicy: WaitForWorkersReady, and a readinessProbe of sshd's port");
}

/// Ranks without GPUs compute on processors.
void slots_of_processors(const Value& slots, long each, const Role& worker, Remarks& remarks) {
  if (worker.gpus() > 0 || !slots) return;
  double processors = 0;
  for (const Container& container : worker.containers)
    processors += quantity(container.resource("cpu")).value_or(0);
  if (processors >= 1 && static_cast<double>(each) > processors)
    remarks.warn("slots-mismatch", slots.line,
                 text("a worker has ", processors, " processors and ", each,
                      " slots: mpirun fills the first workers with more ranks than they can run"),
                 text("slotsPerWorker: ", static_cast<long>(processors)));
}

void numbers(const Job& job, const Role& worker, const Mpirun& mpirun, Remarks& remarks) {
  const Value& slots = job.spec()["slotsPerWorker"];
  if (slots.is_no_count() || (*worker.owner)["replicas"].is_no_count()) return;
  const long each = slots.number().value_or(1);
  const bool with_launcher = job.spec()["runLauncherAsWorker"].is_true();
  const long all = (worker.pods + (with_launcher ? 1 : 0)) * each;
  if (const auto asked = mpirun.options.any_option({"-np", "-n", "--np", "-c"})) {
    const long ranks = std::atol(asked->text.c_str());
    const bool is_number =
        !asked->text.empty() && asked->text.find_first_not_of("0123456789") == std::string::npos;
    if (is_number && ranks != all)
      remarks.warn("ranks-mismatch", asked->line,
                   text("mpirun starts ", ranks, " ranks, and ", worker.pods + (with_launcher ? 1 : 0),
                        " pods of ", each, " slots have ", all),
                   text("-np ", all, ", or other numbers of replicas and slotsPerWorker"));
  }
  if (const auto map = mpirun.options.any_option({"--map-by", "-map-by"});
      map && map->text.starts_with("ppr:")) {
    const long on_node = std::atol(map->text.c_str() + 4);
    if (map->text.find(":node") != std::string::npos && on_node != each)
      remarks.warn("ranks-mismatch", map->line,
                   text("mpirun puts ", on_node, " ranks on a node of ", each, " slots"),
                   text("--map-by ppr:", each, ":node"));
  }
  if (worker.gpus() > 0 && slots && each != worker.gpus())
    remarks.warn("slots-mismatch", slots.line,
                 text("a worker has ", worker.gpus(), " GPUs and ", each, each == 1 ? " slot" : " slots"),
                 text("slotsPerWorker: ", worker.gpus()));
  slots_of_processors(slots, each, worker, remarks);
  if (const auto bind = mpirun.options.any_option({"--bind-to", "-bind-to"});
      bind && each > 1 && (bind->text == "core" || bind->text == "hwthread"))
    remarks.warn(
        "bound-to-core", bind->line,
        text("each of ", each, " ranks has one core for its own threads and those that feed the network"),
        "--bind-to none, or numa");
}

void transport(const Role& worker, const Mpirun& mpirun, Remarks& remarks) {
  const Container& launcher = *mpirun.container;
  const bool pinned = mca(mpirun.options, "pml") || mca(mpirun.options, "btl") ||
                      launcher.variable("OMPI_MCA_pml") || launcher.variable("OMPI_MCA_btl");
  const bool for_ucx = exports(mpirun.options, "UCX_NET_DEVICES") || exports(mpirun.options, "UCX_TLS") ||
                       launcher.variable("UCX_TLS");
  if (pinned || for_ucx) return;
  const bool is_weft = std::ranges::any_of(
      mpirun.container->words, [](const Word& word) { return word.text.find("weft") != std::string::npos; });
  remarks.add(worker.rdma() && is_weft ? Severity::warning : Severity::notice, "mpi-transport",
              mpirun.options.words.front().line,
              "Open MPI is left to choose: it may take the RDMA devices of NCCL for its own few messages, or "
              "hang on one that it cannot use",
              "--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include eth0");
}

/// Ranks come through sshd, and a session of that has nothing of the container's environment. kubectl exec, of version 1, gives them that of
/// the worker's container.
void exported(const Job& job, const Role& launcher, const Role& worker, const Mpirun& mpirun,
              Remarks& remarks) {
  for (const Role* role : {&launcher, &worker}) {
    if (job.is_mpi_over_exec() && role == &worker) continue;
    for (const Container& container : role->containers) {
      for (const Value& entry : container["env"].items) {
        const std::string& name = entry["name"].text;
        const bool is_for_ranks =
            name.starts_with("NCCL_") || name.starts_with("WEFT_") || name.starts_with("UCX_");
        if (!is_for_ranks || exports(mpirun.options, name)) continue;
        remarks.warn(
            "not-exported", entry["name"].line,
            text(name, job.is_mpi_over_exec()
                           ? " does not reach the ranks: those have the environment of the worker's container"
                           : " does not reach the ranks: they come through ssh, without the container's "
                             "environment"),
            text("-x ", name, " for mpirun, or /etc/nccl.conf from a ConfigMap"));
      }
    }
  }
}

bool runs_as_root(const Role& launcher, const Container& container, const Job& job) {
  const Value& own = container["securityContext"]["runAsUser"];
  const Value& user = own ? own : (*launcher.pod)["securityContext"]["runAsUser"];
  const bool root_keys =
      !job.spec()["sshAuthMountPath"] || job.spec()["sshAuthMountPath"].text.starts_with("/root");
  return user ? user.is("0") : root_keys;
}

void user(const Job& job, const Role& launcher, const Mpirun& mpirun, Remarks& remarks) {
  const Container& container = *mpirun.container;
  const bool is_root = runs_as_root(launcher, container, job);
  const Value& path = job.spec()["sshAuthMountPath"];
  if (!is_root && !job.is_mpi_over_exec() && (!path || path.text.starts_with("/root")))
    remarks.warn("ssh-keys", line_of({&path, &container["securityContext"]}),
                 "the keys of ssh are mounted in /root/.ssh, which this user cannot read",
                 "sshAuthMountPath: /home/mpiuser/.ssh, the user's own folder");
  const auto& words = mpirun.options.words;
  const bool is_allowed =
      std::ranges::any_of(words,
                          [](const Word& word) { return word.text.ends_with("-allow-run-as-root"); }) ||
      (container.variable("OMPI_ALLOW_RUN_AS_ROOT") && container.variable("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"));
  const Value& half = container.variable("OMPI_ALLOW_RUN_AS_ROOT");
  if (is_root && !is_allowed)
    remarks.warn(
        "root-refused", half ? half["name"].line : words.front().line,
        half ? "Open MPI also wants OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"
             : "Open MPI's mpirun refuses to run as root",
        "--allow-run-as-root, or OMPI_ALLOW_RUN_AS_ROOT and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM, both \"1\"");
}

}  // namespace

void mpi_rules(const Job& job, Remarks& remarks) {
  if (job.kind != Job::Kind::mpi_job) return;
  fields(job, remarks);
  const Role* launcher = job.role_named("Launcher");
  const Role* worker = job.role_named("Worker");
  if (launcher == nullptr || worker == nullptr) return;
  start(job, *launcher, remarks);
  if (launcher->gpus() > 0 && !job.spec()["runLauncherAsWorker"].is_true()) {
    const Container& asks =
        *std::ranges::find_if(launcher->containers, [](const Container& one) { return one.gpus() > 0; });
    const Value& gpus = asks.gpu_resource();
    remarks.warn("launcher-gpus", line_of({&gpus, &asks["resources"]}),
                 "the launcher keeps GPUs on which no rank runs, and the operator hides them from it",
                 "leave them to the workers, or runLauncherAsWorker: true");
  }
  const Value& library = job.spec()["mpiImplementation"];
  const auto mpirun = mpirun_of(*launcher);
  if (!mpirun) return;
  numbers(job, *worker, *mpirun, remarks);
  exported(job, *launcher, *worker, *mpirun, remarks);
  if (library && !library.is("OpenMPI")) return;
  transport(*worker, *mpirun, remarks);
  user(job, *launcher, *mpirun, remarks);
}

}  // namespace weft::report::manifest
