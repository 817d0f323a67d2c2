// Memory, devices and processors of a pod: what NCCL and RDMA need of it.

#include <algorithm>
#include <array>

#include "weft-launch/manifest/rules/rules.hpp"
#include "weft/core/text.hpp"

namespace weft::report::manifest {
namespace {

const char* const shm = "/dev/shm";
constexpr long many = 4;  // GPUs of a container from which on what it lacks is felt for sure

const Value* mount_at(const Container& container, std::string_view path) {
  for (const Value& mount : container["volumeMounts"].items) {
    if (mount["mountPath"].is(path)) return &mount;
  }
  return nullptr;
}

const Value* volume_named(const Role& role, std::string_view name) {
  for (const Value& volume : (*role.pod)["volumes"].items) {
    if (volume["name"].is(name)) return &volume;
  }
  return nullptr;
}

void shm_size(const Container& container, const Value& directory, Remarks& remarks) {
  const Value& limit = directory["sizeLimit"];
  if (!limit) {
    remarks.notice("shm-unlimited", directory.line,
                   "/dev/shm has no sizeLimit: it may grow until the memory limit ends the ranks",
                   "sizeLimit: a part of the memory limit");
    return;
  }
  const auto bytes = quantity(limit);
  const Value& memory = container["resources"]["limits"]["memory"];
  const auto all = quantity(memory);
  constexpr double least = 128.0 * 1024 * 1024;
  if (bytes && *bytes < least)
    remarks.warn("shm-small", limit.line,
                 text("/dev/shm has ", limit.text, "; NCCL needs about 10 MB for each pair of GPUs"),
                 "sizeLimit: 1Gi or more");
  if (bytes && all && *bytes >= *all)
    remarks.warn("shm-over-memory", limit.line,
                 text("/dev/shm may take ", limit.text, ", and all of the container ", memory.text,
                      ": what lies there counts as its memory"),
                 "a sizeLimit below the memory limit, or a higher limit");
}

void shm_rules(const Job& job, const Role& role, const Container& container, Remarks& remarks) {
  const Value* mount = mount_at(container, shm);
  if (mount == nullptr) {
    const long gpus = container.gpus();
    const int line = line_of({&container["volumeMounts"], &container["name"], container.value});
    // KubeRay mounts memory there, as much as the container may have.
    if (gpus == 0 || (*role.pod)["hostIPC"].is_true() || job.kind == Job::Kind::ray) return;
    remarks.add(gpus >= many ? Severity::warning : Severity::notice, "shm-missing", line,
                text("a container of ", gpus, gpus == 1 ? " GPU" : " GPUs",
                     " without a volume at /dev/shm has 64 MB there: NCCL ends with "
                     "\"No space left on device\""),
                "mount an emptyDir of medium: Memory at /dev/shm");
    return;
  }
  const Value* volume = volume_named(role, (*mount)["name"].text);
  if (volume == nullptr || !(*volume)["emptyDir"].line) return;
  const Value& directory = (*volume)["emptyDir"];
  if (!directory["medium"].is("Memory")) {
    remarks.warn("shm-on-disk", directory.line, "/dev/shm is a folder on the node's disk",
                 "emptyDir: {medium: Memory, sizeLimit: 16Gi}");
    return;
  }
  shm_size(container, directory, remarks);
}

/// JobSet, LeaderWorkerSet and mpi-operator make volumes of their own, which no pod lists.
bool is_claimed(const Job& job, std::string_view name) {
  const bool is_of_operator = name == "mpi-job-config" || name == "ssh-auth" || name == "mpi-job-kubectl";
  if (job.kind == Job::Kind::mpi_job && is_of_operator) return true;
  const Value& set = job.kind == Job::Kind::runtime ? job.spec()["template"]["spec"] : job.spec();
  for (const Value& claim : job.spec()["leaderWorkerTemplate"]["volumeClaimTemplates"].items) {
    if (claim["metadata"]["name"].is(name)) return true;
  }
  return std::ranges::any_of(set["volumeClaimPolicies"].items, [&](const Value& policy) {
    return std::ranges::any_of(policy["templates"].items,
                               [&](const Value& one) { return one["metadata"]["name"].is(name); });
  });
}

void volume_rules(const Job& job, const Role& role, Remarks& remarks) {
  std::vector<std::string> used;
  const auto look = [&](const Value& containers) {
    for (const Value& container : containers.items) {
      for (const Value& mount : container["volumeMounts"].items) {
        used.push_back(mount["name"].text);
        if (volume_named(role, used.back()) == nullptr && !is_claimed(job, used.back()))
          remarks.critical("volume-missing", mount["name"].line,
                           text("no volume of the pod is called ", used.back()),
                           "add it to volumes, or correct the name");
      }
    }
  };
  look((*role.pod)["containers"]);
  look((*role.pod)["initContainers"]);
  for (const Value& volume : (*role.pod)["volumes"].items) {
    // What begins so is mounted by the sidecar that GKE adds.
    const bool is_of_sidecar = volume["name"].text.starts_with("gke-gcsfuse-");
    if (!is_of_sidecar && std::ranges::find(used, volume["name"].text) == used.end())
      remarks.warn("volume-unused", volume["name"].line,
                   text("no container mounts the volume ", volume["name"].text),
                   "add it to volumeMounts, or leave it out");
  }
}

/// Resources of devices cannot be asked for without a limit, and not for less.
void device_numbers(const Container& container, Remarks& remarks) {
  const Value& resources = container["resources"];
  for (const Member& request : resources["requests"].members) {
    if (request.key.find('/') == std::string::npos || !request.value) continue;
    const Value& limit = resources["limits"][request.key];
    if (limit && limit.text == request.value.text) continue;
    remarks.critical(
        "device-limit", request.line,
        limit ? text(request.key, " is requested ", request.value.text, " times and limited to ", limit.text)
              : text(request.key, " is requested without a limit"),
        "give it the same number under limits: devices are not shared");
  }
}

void processor_rules(const Container& container, Remarks& remarks) {
  const long gpus = container.gpus();
  if (gpus == 0 || container.resource("cpu")) return;
  const Value& resources = container["resources"];
  // A container that has its node to itself does well without: so have several clouds' own benchmarks.
  remarks.notice(
      "cpu-missing", line_of({&resources["requests"], &resources}),
      text("a container of ", gpus, gpus == 1 ? " GPU" : " GPUs",
           " asks for no processors: beside others its threads that feed the network get hardly any"),
      "request some for each GPU: cpu: \"12\" for each of 8 on a node of 96");
}

bool has_capability(const Container& container, std::string_view name) {
  return std::ranges::any_of(
      container["securityContext"]["capabilities"]["add"].items,
      [&](const Value& one) { return one.is(name) || one.is("ALL") || one.is("SYS_ADMIN"); });
}

void lock_rules(const Role& role, const Container& container, Remarks& remarks) {
  for (const Value& one : container["securityContext"]["capabilities"]["add"].items) {
    if (one.text.starts_with("CAP_"))
      remarks.warn("capability-name", one.line,
                   text("Kubernetes writes capabilities without CAP_: ", one.text, " is none"),
                   text("write ", one.text.substr(4)));
  }
  if (const Value& wrong = (*role.pod)["securityContext"]["capabilities"])
    remarks.critical("capability-place", wrong.line, "capabilities of a whole pod do not exist",
                     "put them into the container's securityContext");
  const Value& rdma = role.rdma();
  const bool asks = std::ranges::any_of(container["resources"]["limits"].members,
                                        [](const Member& one) { return is_rdma(one.key); });
  if (!rdma || !asks || container["securityContext"]["privileged"].is_true() ||
      has_capability(container, "IPC_LOCK") || has_capability(container, "CAP_IPC_LOCK"))
    return;
  // CoreWeave's nodes, and those of EKS, allow it to all.
  const Value& limits = container["resources"]["limits"];
  const bool raised = limits["rdma/ib"] || limits["vpc.amazonaws.com/efa"];
  remarks.add(
      raised ? Severity::notice : Severity::warning, "ipc-lock-missing", rdma.line,
      "RDMA pins memory, and a container may pin 64 KB or 8 MB: \"Cannot allocate memory\" of ibv_reg_mr",
      "securityContext: {capabilities: {add: [IPC_LOCK]}}, or a runtime with LimitMEMLOCK=infinity");
}

bool does_without_rdma(const Role& role) {
  if ((*role.pod)["hostNetwork"].is_true() || (*role.pod)["resourceClaims"] ||
      (*role.metadata)["annotations"]["k8s.v1.cni.cncf.io/networks"])
    return true;
  return std::ranges::any_of(role.containers, [](const Container& one) {
    return one["resources"]["claims"] || one["securityContext"]["privileged"].is_true();
  });
}

/// A word or variable that says that NCCL is to use RDMA. Of NCCL_IB_HCA only names of such devices: some jobs set it to
/// eth0, or to ibp on nodes without any, which does no harm.
std::optional<Word> wants_rdma(const Job& job) {
  static constexpr std::array<std::string_view, 4> settings{"NCCL_IB_HCA=mlx5", "NCCL_IB_HCA==mlx5",
                                                            "NCCL_NET_GDR_LEVEL=", "NCCL_IB_GID_INDEX="};
  const auto wants = [](const std::string& setting) {
    return std::ranges::any_of(settings, [&](std::string_view one) { return setting.starts_with(one); });
  };
  for (const Role& role : job.roles) {
    for (const Container& container : role.containers) {
      for (const Value& entry : container["env"].items) {
        const std::string& name = entry["name"].text;
        if (wants(text(name, '=', entry["value"].text))) return Word{name, entry["name"].line};
      }
      for (const Word& word : container.words) {
        if (wants(word.text)) return Word{word.text.substr(0, word.text.find('=')), word.line};
      }
    }
  }
  return std::nullopt;
}

void network_devices(const Job& job, const Role& role, Remarks& remarks) {
  if (role.is_launcher && role.rdma() && role.gpus() == 0)
    remarks.warn("rdma-unused", role.rdma().line, "the launcher asks for RDMA, and has no rank",
                 "leave it to the workers");
  if (role.gpus() == 0 || role.rdma() || does_without_rdma(role)) return;
  const auto wanted = wants_rdma(job);
  const Value& gpus = [&]() -> const Value& {
    for (const Container& container : role.containers) {
      if (container.gpus() > 0) return container.gpu_resource();
    }
    return *role.pod;
  }();
  const bool is_one = job.nodes() == 1;
  if (wanted && !is_one)
    remarks.warn("rdma-missing", wanted->line,
                 text(wanted->text, " is set, and the pods ask for no RDMA device: NCCL goes over sockets"),
                 "add the cluster's resource to limits, such as rdma/ib: 1");
  else if (!is_one)
    remarks.notice("rdma-missing", gpus.line,
                   "GPUs on several nodes without an RDMA device: NCCL goes over sockets",
                   "add the cluster's resource to limits, such as rdma/ib: 1, if it has one");
}

}  // namespace

void resource_rules(const Job& job, const Role& role, Remarks& remarks) {
  volume_rules(job, role, remarks);
  network_devices(job, role, remarks);
  for (const Container& container : role.containers) {
    shm_rules(job, role, container, remarks);
    device_numbers(container, remarks);
    processor_rules(container, remarks);
    lock_rules(role, container, remarks);
  }
}

}  // namespace weft::report::manifest
