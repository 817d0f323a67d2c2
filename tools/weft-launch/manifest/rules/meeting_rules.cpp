// How ranks of a Job, a JobSet or a TrainJob find each other, and whether all of them come.

#include <algorithm>
#include <array>
#include <cstdlib>

#include "core/base/host_port.hpp"
#include "weft-launch/manifest/rules/rules.hpp"
#include "weft/core/env.hpp"
#include "weft/core/text.hpp"

namespace weft::report::manifest {
namespace {

struct Address {
  std::string host;
  std::string port;
  int line = 0;
};

Address split(std::string_view address, int line) {
  if (const std::size_t at = address.find("://"); at != std::string_view::npos) address.remove_prefix(at + 3);
  const auto parts = detail::split_host_port(address);
  if (!parts) return {std::string(address), {}, line};
  return {std::string(parts->host), std::string(parts->port.value_or("")), line};
}

/// The addresses at which the container's ranks are told to meet: one for each variable or option that names one.
std::vector<Address> addresses_of(const Container& container) {
  std::vector<Address> all;
  if (const Value& entry = container.variable(env::master_addr.name); entry["value"])
    all.push_back(
        {entry["value"].text, container.variable(env::master_port.name)["value"].text, entry["value"].line});
  if (const Value& entry = container.variable(env::rendezvous.name);
      entry["value"].text.starts_with("tcp://"))
    all.push_back(split(entry["value"].text, entry["value"].line));
  for (const char* option : {"--rdzv_endpoint", "--rdzv-endpoint", "--master_addr", "--master-addr"}) {
    if (const auto found = container.option(option)) all.push_back(split(found->text, found->line));
  }
  if (const auto found = container.option("--address"); found && container.program("weft-launch"))
    all.push_back(split(found->text, found->line));
  std::erase_if(
      all, [](const Address& one) { return one.host.empty() || one.host.find('$') != std::string::npos; });
  return all;
}

/// The name of the pod with index 0, as others resolve it; empty where the pods have none, or their kind has rules of its own.
std::string name_of_first(const Job& job, const Role& role) {
  if (!job.has_batch_jobs()) return {};
  if (job.kind == Job::Kind::job) {
    const Value& subdomain = (*role.pod)["subdomain"];
    return subdomain ? text(job.name, "-0.", subdomain.text) : std::string();
  }
  const Value& own = job.spec()["network"]["subdomain"];
  return text(job.name, '-', role.name, "-0-0.", own ? own.text : job.name);
}

void check_address(const Job& job, const Role& role, const Address& address, Remarks& remarks) {
  const std::string first = name_of_first(job, role);
  const bool is_number = address.host.find_first_not_of("0123456789.:[]") == std::string::npos;
  const bool is_here = address.host == "localhost" || address.host == "127.0.0.1" || address.host == "::1";
  if (is_here && role.pods == 1) return;
  if (is_here)
    remarks.warn("meeting-place", address.line,
                 text("each pod would wait for the others at its own ", address.host),
                 first.empty() ? std::string("name the pod with index 0") : "use " + first);
  else if (job.kind == Job::Kind::job && first.empty() && !is_number &&
           address.host.starts_with(job.name + "-0"))
    remarks.critical("subdomain-missing", address.line,
                     text(address.host, " does not resolve: the pods have no subdomain, and so no names"),
                     "subdomain: NAME in the pod's spec, and a headless Service of that name");
  else if (!first.empty() && !is_number && job.kind != Job::Kind::runtime && address.host != first &&
           !address.host.starts_with(first + '.')) {
    const bool is_other = std::ranges::any_of(job.roles, [&](const Role& other) {
      return &other != &role && address.host.starts_with(name_of_first(job, other));
    });
    const bool looks_like_a_pod =
        address.host.starts_with(job.name) || address.host.find('.') != std::string::npos;
    if (!is_other && looks_like_a_pod)
      remarks.warn("meeting-place", address.line,
                   text(address.host, " is no pod of this job; the first is ", first), "use " + first);
  }
  const bool is_port =
      !address.port.empty() && address.port.find_first_not_of("0123456789") == std::string::npos;
  if (is_port && !detail::port_number(address.port))
    remarks.critical("port", address.line, text(address.port, " is no port"),
                     "29500, or another from 1024 to 65535");
}

/// torchrun's agent of node 0 listens at the endpoint; weft reads that from the variables, but a port that is written down twice is taken.
void port_twice(const Container& container, Remarks& remarks) {
  if (!container.program("torchrun")) return;
  const Value& own = container.variable(env::rendezvous.name)["value"];
  if (!own) return;
  const std::string port = split(own.text, 0).port;
  std::string agents = container.variable(env::master_port.name)["value"].text;
  for (const char* option : {"--master_port", "--master-port"}) {
    if (const auto found = container.option(option)) agents = found->text;
  }
  for (const char* option : {"--rdzv_endpoint", "--rdzv-endpoint"}) {
    if (const auto found = container.option(option)) agents = split(found->text, 0).port;
  }
  if (!port.empty() && port == agents)
    remarks.warn("port-twice", own.line, text("torchrun's agent listens on port ", port, " already"),
                 "leave WEFT_RENDEZVOUS out: ranks find each other through torchrun's agent");
}

bool meets(const Container& container) {
  return !addresses_of(container).empty() || container.program("torchrun") ||
         (container.program("weft-launch") && container.option("--nodes"));
}

/// Pods of an indexed Job have names through a headless Service, which the Job does not make.
void service_rules(const Job& job, const Role& role, const std::vector<Value>& documents, Remarks& remarks) {
  const Value& subdomain = (*role.pod)["subdomain"];
  if (job.kind != Job::Kind::job || !subdomain) return;
  const auto found = std::ranges::find_if(documents, [&](const Value& one) {
    return one["kind"].is("Service") && one["metadata"]["name"].is(subdomain.text);
  });
  if (found == documents.end()) {
    remarks.warn(
        "service-missing", subdomain.line,
        text("there is no Service ", subdomain.text, " here, and without it the pods have no names"),
        text("a Service with clusterIP: None and publishNotReadyAddresses: true, called ", subdomain.text));
    return;
  }
  const Value& spec = (*found)["spec"];
  const int line = line_of({&spec["clusterIP"], &spec});
  if (!spec["clusterIP"].is("None"))
    remarks.critical(
        "service-not-headless", line,
        text("the Service ", subdomain.text, " is not headless: its pods get no names of their own"),
        "clusterIP: None");
  // Without a probe a pod is ready as soon as it runs.
  const bool has_probe = std::ranges::any_of(
      role.containers, [](const Container& one) { return static_cast<bool>(one["readinessProbe"]); });
  if (!spec["publishNotReadyAddresses"].is_true())
    remarks.add(has_probe ? Severity::warning : Severity::notice, "names-late",
                line_of({&spec["publishNotReadyAddresses"], &spec}),
                "names resolve when pods are ready, and ranks meet before that",
                "publishNotReadyAddresses: true");
  for (const Member& wanted : spec["selector"].members) {
    const bool by_job = wanted.key == "job-name" || wanted.key == "batch.kubernetes.io/job-name";
    const Value& label = (*role.metadata)["labels"][wanted.key];
    if (by_job ? wanted.value.is(job.name) : label.is(wanted.value.text)) continue;
    remarks.critical("service-selector", wanted.line,
                     text("no pod of ", job.name, " has the label ", wanted.key, ": ", wanted.value.text),
                     text("job-name: ", job.name, ", which the Job gives its pods"));
  }
}

void number_rules(const Job& job, const Role& role, const Container& container, Remarks& remarks) {
  const Value& owner = *role.owner;
  const Value& completions = owner["completions"];
  const bool is_indexed = owner["completionMode"].is("Indexed") || job.kind != Job::Kind::job;
  const bool is_set = container.program("weft-launch") || container.program("torchrun");
  if (job.kind == Job::Kind::job && role.pods > 1 && !is_indexed && meets(container))
    remarks.critical("completion-mode", line_of({&owner["completionMode"], &owner["completions"], &owner}),
                     "pods of this Job have no index: no rank knows which it is", "completionMode: Indexed");
  if (completions.is_no_count() || owner["parallelism"].is_no_count()) return;
  if (owner["parallelism"] && completions.number().value_or(role.pods) != owner["parallelism"].number() &&
      meets(container))
    remarks.warn("ranks-missing", completions.line,
                 text("of ", completions.text, " pods ", owner["parallelism"].text,
                      " run at a time: the others never come, or too late"),
                 text("completions: ", owner["parallelism"].text));
  if (!is_set || job.kind == Job::Kind::runtime || job.kind == Job::Kind::ray ||
      job.kind == Job::Kind::volcano)
    return;
  const bool is_whole = job.kind == Job::Kind::operator_job || job.kind == Job::Kind::leader_worker;
  const long pods = is_whole ? job.nodes() : completions.number().value_or(role.pods);
  for (const char* option : {"--nodes", "--nnodes"}) {
    const auto nodes = container.option(option);
    const bool is_number =
        nodes && !nodes->text.empty() && nodes->text.find_first_not_of("0123456789") == std::string::npos;
    if (is_number && std::atol(nodes->text.c_str()) != pods)
      remarks.warn(
          "nodes-mismatch", nodes->line,
          text(option, " is ", nodes->text, ", and the job has ", pods, pods == 1 ? " pod" : " pods"),
          text(option, ' ', pods));
  }
}

/// The longest name of the role's pods.
std::string longest_pod(const Job& job, const Role& role) {
  const std::string last = std::to_string(role.pods - 1);
  switch (job.kind) {
    case Job::Kind::mpi_job:
      return text(job.name, "-worker-", last);
    case Job::Kind::job:
      return text(job.name, '-', last);
    case Job::Kind::operator_job:
    case Job::Kind::volcano:
      return text(job.name, '-', role.name, '-', last);
    case Job::Kind::leader_worker:
      return text(job.name, '-', number_or(job.spec()["replicas"], 1), '-', last);
    case Job::Kind::ray:
      return job.name;  // KubeRay cuts what is too long
    case Job::Kind::job_set:
    case Job::Kind::runtime:
    case Job::Kind::train_job:
      break;
  }
  return text(job.name, '-', role.name, "-0-", last, "-xxxxx");
}

/// A pod's host name: one part of a name, of 63 characters.
void name_rules(const Job& job, Remarks& remarks) {
  const Value& name = (*job.document)["metadata"]["name"];
  constexpr std::size_t most = 63;
  for (const Role& role : job.roles) {
    if (role.is_launcher) continue;
    const std::string longest = longest_pod(job, role);
    if (longest.size() > most && job.kind != Job::Kind::runtime)
      remarks.critical("name-long", name.line,
                       text("a pod would be called ", longest, ", which is ", longest.size(),
                            " characters long; ", most, " are allowed"),
                       text("a name that is ", longest.size() - most,
                            longest.size() - most == 1 ? " character" : " characters", " shorter"));
  }
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyz0123456789-";
  const bool is_label = job.name.find_first_not_of(allowed) == std::string::npos && !job.name.empty() &&
                        job.name.front() != '-' && job.name.back() != '-' &&
                        (job.kind != Job::Kind::mpi_job || job.name.front() < '0' || job.name.front() > '9');
  if (!is_label && name && !name.is_placeholder() && job.kind != Job::Kind::runtime)
    remarks.critical("name-form", name.line, text("'", job.name, "' cannot be part of a host name"),
                     "small letters, digits and hyphens, a letter first");
}

void queue_rules(const Job& job, Remarks& remarks) {
  const char* const queue = "kueue.x-k8s.io/queue-name";
  const Value& label = (*job.document)["metadata"]["labels"][queue];
  const bool has_policy = job.kind == Job::Kind::mpi_job || job.kind == Job::Kind::operator_job;
  const Value& suspend = has_policy ? job.spec()["runPolicy"]["suspend"] : job.spec()["suspend"];
  if (suspend.is_true() && !label)
    remarks.warn("suspended", suspend.line,
                 "the job waits for a queue of Kueue, and names none: it never starts",
                 text("metadata.labels: ", queue, ": NAME, or leave suspend out"));
  const Value& annotation = (*job.document)["metadata"]["annotations"][queue];
  if (annotation && !label)
    remarks.warn("queue-place", annotation.line,
                 text(queue, " is an annotation here, and Kueue reads the label"),
                 "move it to metadata.labels");
  for (const Role& role : job.roles) {
    const Value& inner = (*role.metadata)["labels"][queue];
    if (inner && !label)
      remarks.warn("queue-place", inner.line,
                   text(queue, " stands at the pods, and Kueue reads it from the job"),
                   "move it to metadata.labels of the job");
  }
}

}  // namespace

void meeting_rules(const Job& job, const std::vector<Value>& documents, Remarks& remarks) {
  name_rules(job, remarks);
  queue_rules(job, remarks);
  if (job.kind == Job::Kind::mpi_job) return;
  const Value& network =
      job.kind == Job::Kind::runtime ? job.spec()["template"]["spec"]["network"] : job.spec()["network"];
  if (network["publishNotReadyAddresses"].is("false"))
    remarks.warn("names-late", network["publishNotReadyAddresses"].line,
                 "names resolve when pods are ready, and ranks meet before that",
                 "publishNotReadyAddresses: true");
  for (const Role& role : job.roles) {
    service_rules(job, role, documents, remarks);
    for (const Container& container : role.containers) {
      number_rules(job, role, container, remarks);
      port_twice(container, remarks);
      if (network["enableDNSHostnames"].is("false") && meets(container))
        remarks.critical("names-off", network["enableDNSHostnames"].line,
                         "the pods have no names, and ranks are to meet at one", "enableDNSHostnames: true");
      if (role.pods == 1 && job.roles.size() == 1) continue;
      for (const Address& address : addresses_of(container)) check_address(job, role, address, remarks);
    }
  }
}

}  // namespace weft::report::manifest
