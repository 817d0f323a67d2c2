// Mistakes of form that an API server refuses, or, with kubectl, takes for something else.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "core/base/number.hpp"
#include "weft-launch/manifest/rules/rules.hpp"
#include "weft/core/text.hpp"

namespace weft::report::manifest {
namespace {

void keys_twice(const Value& value, Remarks& remarks) {
  for (std::size_t i = 0; i < value.members.size(); ++i) {
    const Member& member = value.members[i];
    const auto before = value.members.begin() + static_cast<std::ptrdiff_t>(i);
    const auto first = std::find_if(value.members.begin(), before,
                                    [&](const Member& other) { return other.key == member.key; });
    if (first != before)
      remarks.critical(
          "key-twice", member.line,
          text("'", member.key, "' stands on line ", first->line, " already; only one of them counts"),
          "make one of the two");
    keys_twice(member.value, remarks);
  }
  for (const Value& item : value.items) keys_twice(item, remarks);
}

void want_text(const Value& value, int line, const std::string& what, Remarks& remarks) {
  if (!value.is_no_text()) return;
  const bool is_scalar = value.kind == Value::Kind::scalar;
  remarks.critical("not-text", line == 0 ? value.line : line,
                   is_scalar ? text(what, " is ", value.text,
                                    " without quotes, which is no text: the API server refuses it")
                             : text(what, " is no text"),
                   is_scalar ? text("write \"", value.text, "\"") : "write one word in quotes");
}

void texts_of(const Value& map, const std::string& what, Remarks& remarks) {
  for (const Member& member : map.members)
    want_text(member.value, member.line, text(what, ' ', member.key), remarks);
}

void container_texts(const Value& container, Remarks& remarks) {
  for (const char* key : {"command", "args"}) {
    if (container[key] && container[key].kind != Value::Kind::list)
      remarks.critical("not-a-list", container[key].line, text(key, " is no list"),
                       "begin each word with \"- \", or put all in [ ]");
    for (const Value& word : container[key].items) want_text(word, 0, text("a word of ", key), remarks);
  }
  for (const Value& entry : container["env"].items)
    want_text(entry["value"], entry["value"].line, text("the value of ", entry["name"].text), remarks);
}

void texts_within(const Value& value, Remarks& remarks) {
  for (const Member& member : value.members) {
    if (member.key == "metadata") {
      texts_of(member.value["annotations"], "annotation", remarks);
      texts_of(member.value["labels"], "label", remarks);
    }
    if (member.key == "nodeSelector") texts_of(member.value, "nodeSelector", remarks);
    if (member.key == "rayStartParams") texts_of(member.value, "rayStartParams", remarks);
    if (member.key == "containers" || member.key == "initContainers") {
      for (const Value& container : member.value.items) container_texts(container, remarks);
    }
    texts_within(member.value, remarks);
  }
  for (const Value& item : value.items) texts_within(item, remarks);
}

/// Fields of jobs and their pods that are whole numbers, 0 or more, and how large.
struct CountField {
  std::string_view key;
  double most = 2147483647;
};
constexpr double most_seconds = 9007199254740992;
constexpr std::array count_fields{CountField{"completions"},
                                  CountField{"parallelism"},
                                  CountField{"backoffLimit"},
                                  CountField{"backoffLimitPerIndex"},
                                  CountField{"maxFailedIndexes"},
                                  CountField{"ttlSecondsAfterFinished"},
                                  CountField{"replicas"},
                                  CountField{"slotsPerWorker"},
                                  CountField{"numNodes"},
                                  CountField{"minReplicas"},
                                  CountField{"numOfHosts"},
                                  CountField{"minAvailable"},
                                  CountField{"maxRestarts"},
                                  CountField{"containerPort"},
                                  CountField{"initialDelaySeconds"},
                                  CountField{"periodSeconds"},
                                  CountField{"timeoutSeconds"},
                                  CountField{"failureThreshold"},
                                  CountField{"successThreshold"},
                                  CountField{"activeDeadlineSeconds", most_seconds},
                                  CountField{"terminationGracePeriodSeconds", most_seconds}};

/// What YAML reads of it where that is a whole number of 0 or more: 8, +8, 010, 0x8, 8e0.
std::optional<double> count_of(const Value& value) {
  if (value.kind != Value::Kind::scalar || value.quoted) return std::nullopt;
  std::string_view digits = value.text;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  const bool is_hexadecimal = digits.starts_with("0x");
  if (is_hexadecimal) digits.remove_prefix(2);
  const auto number =
      detail::number_of<double>(digits, is_hexadecimal ? std::chars_format::hex : std::chars_format::general);
  const bool is_whole = number && std::isfinite(*number) && *number >= 0 && *number == std::floor(*number);
  return is_whole ? number : std::nullopt;
}

void counts_within(const Value& value, Remarks& remarks) {
  for (const Member& member : value.members) {
    const auto field = std::ranges::find(count_fields, member.key, &CountField::key);
    if (field != count_fields.end() && member.value.is_placeholder()) {
      remarks.notice("placeholder", member.line,
                     text(member.key, " is ", member.value.text, ", which is to be filled in before"),
                     "render the file first: envsubst < job.yaml | weft-launch lint -");
    } else if (field != count_fields.end() && member.value) {
      const auto count = count_of(member.value);
      const bool is_scalar = member.value.kind == Value::Kind::scalar;
      if (!count || *count > field->most)
        remarks.critical("no-count", member.line,
                         text(member.key, " is ", is_scalar ? member.value.text : "no word",
                              member.value.quoted ? " in quotes" : "",
                              count ? ", more than there may be" : "", ": the API server refuses it"),
                         text("write a whole number from 0 to ", static_cast<std::int64_t>(field->most)));
    }
    // Texts of the user's own may have any key.
    if (member.key != "metadata" && member.key != "env" && member.key != "nodeSelector" &&
        member.key != "matchLabels")
      counts_within(member.value, remarks);
  }
  for (const Value& item : value.items) counts_within(item, remarks);
}

struct OldVersion {
  std::string_view kind;
  std::string_view group;
  std::string_view now;
  std::string_view also{};  ///< another that is served
};

/// "group/v1beta2" as numbers that grow as Kubernetes orders versions: v1alpha2 < v1beta1 < v1 < v2alpha1. Empty for another form.
std::vector<long> order_of(std::string_view version) {
  version.remove_prefix(std::min(version.find('/') + 1, version.size()));
  std::vector<long> numbers;
  const auto take_number = [&] {
    const std::size_t end = std::min(version.find_first_not_of("0123456789"), version.size());
    numbers.push_back(end == 0 || end > 6 ? -1 : std::atol(std::string(version.substr(0, end)).c_str()));
    version.remove_prefix(end);
  };
  if (!version.starts_with('v')) return {};
  version.remove_prefix(1);
  take_number();
  numbers.push_back(version.starts_with("alpha") ? 0 : version.starts_with("beta") ? 1 : 2);
  version.remove_prefix(std::min(version.size(), std::size_t{numbers[1] == 0   ? 5U
                                                             : numbers[1] == 1 ? 4U
                                                                               : 0U}));
  if (!version.empty()) take_number();
  return std::ranges::count(numbers, -1) == 0 && version.empty() ? numbers : std::vector<long>{};
}

void old_version(const Value& document, Remarks& remarks) {
  static constexpr std::array known{
      OldVersion{"MPIJob", "kubeflow.org/", "kubeflow.org/v2beta1", "kubeflow.org/v1"},
      OldVersion{"PyTorchJob", "kubeflow.org/", "kubeflow.org/v1"},
      OldVersion{"TFJob", "kubeflow.org/", "kubeflow.org/v1"},
      OldVersion{"XGBoostJob", "kubeflow.org/", "kubeflow.org/v1"},
      OldVersion{"LeaderWorkerSet", "leaderworkerset.x-k8s.io/", "leaderworkerset.x-k8s.io/v1"},
      OldVersion{"RayJob", "ray.io/", "ray.io/v1", "ray.io/v1alpha1"},
      OldVersion{"RayCluster", "ray.io/", "ray.io/v1", "ray.io/v1alpha1"},
      OldVersion{"RayService", "ray.io/", "ray.io/v1", "ray.io/v1alpha1"},
      OldVersion{"JobSet", "jobset.x-k8s.io/", "jobset.x-k8s.io/v1alpha2"},
      OldVersion{"Job", "batch/", "batch/v1"},
      OldVersion{"TrainJob", "trainer.kubeflow.org/", "trainer.kubeflow.org/v1alpha1"},
      OldVersion{"TrainJob", "kubeflow.org/", "trainer.kubeflow.org/v1alpha1"},
      OldVersion{"TrainingRuntime", "kubeflow.org/", "trainer.kubeflow.org/v1alpha1"},
      OldVersion{"ClusterTrainingRuntime", "kubeflow.org/", "trainer.kubeflow.org/v1alpha1"}};
  const Value& version = document["apiVersion"];
  for (const OldVersion& one : known) {
    if (!document["kind"].is(one.kind) || !version.text.starts_with(one.group) || version.is(one.now) ||
        (!one.also.empty() && version.is(one.also)))
      continue;
    const bool is_other_group = !one.now.starts_with(one.group);
    if (!is_other_group && order_of(version.text) > order_of(one.now)) {
      remarks.notice("version-not-known", version.line,
                     text(one.kind, " of ", version.text, " is newer than what is checked, ", one.now),
                     text("see whether the cluster serves it: kubectl api-resources"));
      continue;
    }
    remarks.critical("old-version", version.line,
                     text(one.kind, " is of ", one.now, ", not of ", version.text),
                     text("write apiVersion: ", one.now, ", and check its fields"));
  }
}

}  // namespace

void form_rules(const Value& document, Remarks& remarks) {
  keys_twice(document, remarks);
  texts_within(document, remarks);
  old_version(document, remarks);
  static constexpr std::array<std::string_view, 15> jobs{
      "Job",        "JobSet",     "MPIJob",     "TrainJob", "TrainingRuntime", "ClusterTrainingRuntime",
      "PyTorchJob", "TFJob",      "XGBoostJob", "JAXJob",   "PaddleJob",       "LeaderWorkerSet",
      "RayJob",     "RayCluster", "RayService"};
  if (std::ranges::find(jobs, document["kind"].text) != jobs.end()) counts_within(document, remarks);
}

}  // namespace weft::report::manifest
