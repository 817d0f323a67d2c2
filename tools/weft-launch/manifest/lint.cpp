#include "weft-launch/manifest/lint.hpp"

#include <algorithm>
#include <array>

#include "weft-launch/manifest/jobs.hpp"
#include "weft-launch/manifest/rules/rules.hpp"
#include "weft/core/error.hpp"

namespace weft::report::manifest {
namespace {

/// The line that a finding names, as it stands in the file; at most 160 characters.
std::string line_of_text(const std::vector<std::string_view>& lines, int number) {
  if (number < 1 || static_cast<std::size_t>(number) > lines.size()) return {};
  std::string_view line = lines[static_cast<std::size_t>(number) - 1];
  const std::size_t begin = line.find_first_not_of(" \t");
  line = begin == std::string_view::npos ? std::string_view() : line.substr(begin, 160);
  return std::string(line.substr(0, line.find_last_not_of(" \t\r") + 1));
}

std::vector<std::string_view> lines_of(std::string_view content) {
  std::vector<std::string_view> lines;
  while (!content.empty()) {
    const std::size_t end = content.find('\n');
    lines.push_back(content.substr(0, end));
    content = end == std::string_view::npos ? std::string_view() : content.substr(end + 1);
  }
  return lines;
}

/// Adds objects, also those within a List, as kubectl get -o yaml writes it.
void add_objects(const Input& input, std::vector<Value>& objects) {
  const std::size_t before = objects.size();
  for (Value& document : read_yaml(input.content, input.file)) {
    if (document["kind"].is("List"))
      std::ranges::copy(document["items"].items, std::back_inserter(objects));
    else
      objects.push_back(std::move(document));
  }
  if (objects.size() == before)
    throw Error(ErrorKind::usage, text(input.file, ": there is no object of Kubernetes in it"),
                "give a manifest, as of kubectl apply -f");
  for (std::size_t i = before; i < objects.size(); ++i) {
    if (objects[i]["apiVersion"] && objects[i]["kind"]) continue;
    throw Error(
        ErrorKind::usage,
        text(input.file, " line ", std::max(objects[i].line, 1),
             ": no manifest: an object of Kubernetes begins with apiVersion and kind"),
        "what is to be patched or rendered is to be so first: kubectl kustomize DIR | weft-launch lint -");
  }
}

/// Kinds that have no ranks: what can be said of them alone is their form.
bool has_no_ranks(const Value& object) {
  static constexpr std::array<std::string_view, 28> plain{"Service",
                                                          "ConfigMap",
                                                          "Secret",
                                                          "PersistentVolumeClaim",
                                                          "PersistentVolume",
                                                          "Namespace",
                                                          "ServiceAccount",
                                                          "Role",
                                                          "RoleBinding",
                                                          "ClusterRole",
                                                          "StorageClass",
                                                          "ClusterRoleBinding",
                                                          "Endpoints",
                                                          "PriorityClass",
                                                          "LocalQueue",
                                                          "ClusterQueue",
                                                          "ResourceFlavor",
                                                          "Cohort",
                                                          "WorkloadPriorityClass",
                                                          "NetworkPolicy",
                                                          "Ingress",
                                                          "Queue",
                                                          "PodGroup",
                                                          "ResourceClaim",
                                                          "ResourceClaimTemplate",
                                                          "HorizontalPodAutoscaler",
                                                          "PodDisruptionBudget",
                                                          "CustomResourceDefinition"};
  return std::ranges::find(plain, object["kind"].text) != plain.end();
}

void look_at(const Job& job, const std::vector<Value>& objects, Remarks& remarks) {
  remarks.about(*job.document);
  mpi_rules(job, remarks);
  meeting_rules(job, objects, remarks);
  trainer_rules(job, objects, remarks);
  operator_rules(job, remarks);
  volcano_rules(job, remarks);
  leader_worker_rules(job, remarks);
  ray_rules(job, remarks);
  watch_rules(job, remarks);
  for (const Role& role : job.roles) {
    resource_rules(job, role, remarks);
    process_rules(job, role, remarks);
    life_rules(job, role, remarks);
    policy_rules(job, role, remarks);
    weft_rules(job, role, remarks);
  }
}

void add_findings(const Input& input, Remarks remarks, std::vector<Finding>& all) {
  std::vector<Finding> findings = std::move(remarks).findings();
  const std::vector<std::string_view> lines = lines_of(input.content);
  for (Finding& finding : findings) {
    Evidence& evidence = finding.evidence.front();
    evidence.text = line_of_text(lines, evidence.line);
  }
  std::ranges::stable_sort(findings, {}, [](const Finding& one) { return one.evidence.front().line; });
  std::ranges::move(findings, std::back_inserter(all));
}

}  // namespace

Lint lint(const std::vector<Input>& inputs) {
  std::vector<Value> objects;
  std::vector<std::size_t> ends;
  for (const Input& input : inputs) {
    add_objects(input, objects);
    ends.push_back(objects.size());
  }
  const std::vector<Job> jobs = jobs_of(objects);
  Lint result{.objects = objects.size()};
  for (const Value& object : objects) {
    const bool is_known = std::ranges::find(jobs, &object, &Job::document) != jobs.end();
    if (!is_known && !has_no_ranks(object))
      result.not_checked.push_back(text(object["kind"].text, ' ', object["metadata"]["name"].text));
  }
  std::size_t begin = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Remarks remarks(inputs[i].file);
    for (std::size_t at = begin; at < ends[i]; ++at) {
      remarks.about(objects[at]);
      form_rules(objects[at], remarks);
    }
    for (const Job& job : jobs) {
      if (job.document < &objects[begin] || job.document > &objects[ends[i] - 1]) continue;
      result.jobs.push_back(text((*job.document)["kind"].text, ' ', job.name));
      look_at(job, objects, remarks);
    }
    add_findings(inputs[i], std::move(remarks), result.findings);
    begin = ends[i];
  }
  return result;
}

}  // namespace weft::report::manifest
