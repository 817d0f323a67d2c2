// podFailurePolicy and backoffLimit: weft's programs end with 42 for wrong input, which fails again, and with 75 where another try is right.

#include <algorithm>

#include "weft-launch/manifest/rules/rules.hpp"
#include "weft/core/error.hpp"
#include "weft/core/text.hpp"

namespace weft::report::manifest {
namespace {

const int wrong_input = exit_code(ErrorKind::usage);
const int try_again = exit_code(ErrorKind::peer_lost);

bool matches(const Value& rule, int status) {
  const Value& codes = rule["onExitCodes"];
  if (!codes) return false;
  const bool is_in =
      std::ranges::any_of(codes["values"].items, [&](const Value& one) { return one.number() == status; });
  return codes["operator"].is("NotIn") ? !is_in : is_in;
}

/// What happens to a pod that ends so: the first rule that matches; null where none does.
const Value* rule_for(const Value& policy, int status) {
  for (const Value& rule : policy["rules"].items) {
    if (matches(rule, status)) return &rule;
  }
  return nullptr;
}

void names_of_containers(const Role& role, const Value& policy, Remarks& remarks) {
  for (const Value& rule : policy["rules"].items) {
    const Value& named = rule["onExitCodes"]["containerName"];
    const bool is_there = std::ranges::any_of(
        role.containers, [&](const Container& one) { return one["name"].is(named.text); });
    if (named && !is_there)
      remarks.critical("policy-container", named.line, text("no container of the pod is called ", named.text),
                       "name one that there is, or leave it out");
    for (const Value& one : rule["onExitCodes"]["values"].items) {
      if (one.is("0") && rule["onExitCodes"]["operator"].is("In"))
        remarks.critical("policy-zero", one.line, "0 is no failure; the API server refuses it here",
                         "leave 0 out");
    }
  }
}

void codes_of_weft(const Value& policy, Remarks& remarks) {
  const Value* wrong = rule_for(policy, wrong_input);
  if (wrong == nullptr || !(*wrong)["action"].is("FailJob"))
    remarks.warn(
        "policy-42", wrong == nullptr ? policy.line : (*wrong)["action"].line,
        text("a pod that ends with ", wrong_input, " (wrong usage or input) is tried again, and fails again"),
        text("first of the rules: FailJob onExitCodes In [", wrong_input, "]"));
  const Value* again = rule_for(policy, try_again);
  if (again != nullptr && (*again)["action"].is("FailJob"))
    remarks.warn("policy-75", (*again)["action"].line,
                 text("a pod that ends with ", try_again,
                      " (preempted, or a peer lost) ends the job, where another try is right"),
                 text("leave ", try_again, " out of this rule, or let it Count"));
}

}  // namespace

void policy_rules(const Job& job, const Role& role, Remarks& remarks) {
  const Value& policy = (*role.owner)["podFailurePolicy"];
  const bool is_weft = std::ranges::any_of(role.containers, &Container::is_weft);
  const Value& restart = (*role.pod)["restartPolicy"];
  if (policy && !restart.is("Never"))
    remarks.critical("policy-restart", line_of({&restart, &policy}),
                     "podFailurePolicy is only for pods with restartPolicy Never", "restartPolicy: Never");
  if (policy && (*role.owner)["podReplacementPolicy"].is("TerminatingOrFailed"))
    remarks.critical("policy-replacement", (*role.owner)["podReplacementPolicy"].line,
                     "with podFailurePolicy a pod is replaced when it has failed, not before",
                     "podReplacementPolicy: Failed, or leave it out");
  names_of_containers(role, policy, remarks);
  if (policy && is_weft) codes_of_weft(policy, remarks);
  if (!is_weft || !job.has_batch_jobs()) return;
  if (!policy)
    remarks.notice("policy-42", role.owner->line,
                   text("no podFailurePolicy: a pod that ends with ", wrong_input,
                        " (wrong usage or input) is tried again"),
                   "podFailurePolicy with FailJob for 42");
  const Value& limit = (*role.owner)["backoffLimit"];
  if (job.kind == Job::Kind::job_set && !limit.is("0") && role.pods > 1)
    remarks.warn("backoff-limit", line_of({&limit, role.owner}),
                 "a lost pod starts again alone, while JobSet is to start the whole set again",
                 "backoffLimit: 0, and maxRestarts in the set's failurePolicy");
  if (job.kind == Job::Kind::job && limit.is("0") && role.pods > 1)
    remarks.warn(
        "backoff-limit", limit.line,
        text("the first lost pod ends the job: all others end with ", try_again, " to be tried again"),
        "a backoffLimit of some times the number of pods");
}

}  // namespace weft::report::manifest
