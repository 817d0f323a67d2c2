// LeaderWorkerSet: groups of a leader and its workers, which serve one model together.

#include <algorithm>

#include "weft-launch/manifest/rules/rules.hpp"
#include "weft/core/text.hpp"

namespace weft::report::manifest {
namespace {

void sizes(const Value& group, Remarks& remarks) {
  const Value& size = group["size"];
  if (size && size.is("0"))
    remarks.critical("group-size", size.line, "a group has its leader at least", "size: 1 or more");
  const Value& part = group["subGroupPolicy"]["subGroupSize"];
  const auto all = size ? size.number() : std::optional(1L);
  const auto each = part.number();
  if (!all || !each || *all == 0) return;
  if (*each == 0 || *each > *all || (*all % *each != 0 && (*all - 1) % *each != 0))
    remarks.critical("group-size", part.line,
                     text("groups of ", *all, " pods cannot be cut into subgroups of ", part.text),
                     "a subGroupSize that divides size, or size - 1");
}

void restarts(const Job& job, const Value& group, Remarks& remarks) {
  const Value& policy = group["restartPolicy"];
  const bool is_known = !policy || policy.is("RecreateGroupOnPodRestart") || policy.is("None") ||
                        policy.is("Default") || policy.is("RecreateGroupAfterStart");
  if (!is_known)
    remarks.critical("group-restart", policy.line, text("restartPolicy of a group cannot be ", policy.text),
                     "RecreateGroupOnPodRestart, RecreateGroupAfterStart or None");
  else if ((policy.is("None") || policy.is("Default")) && job.nodes() > 1)
    remarks.notice(
        "group-restart", policy.line,
        "a pod that ends starts again alone, while the ranks of its group wait for the one that went",
        "RecreateGroupOnPodRestart");
  for (const Role& role : job.roles) {
    if (&role != &job.roles.front() && role.pod == job.roles.front().pod) continue;
    const Value& own = (*role.pod)["restartPolicy"];
    if (own && !own.is("Always"))
      remarks.critical(
          "restart-policy", own.line,
          text("pods of a LeaderWorkerSet are those of StatefulSets, which have restartPolicy Always, not ",
               own.text),
          "leave it out");
  }
}

}  // namespace

void leader_worker_rules(const Job& job, Remarks& remarks) {
  if (job.kind != Job::Kind::leader_worker) return;
  const Value& group = job.spec()["leaderWorkerTemplate"];
  if (!group["workerTemplate"])
    remarks.critical(
        "group-template", line_of({&group, &job.spec()}), "leaderWorkerTemplate has no workerTemplate",
        "leaderWorkerTemplate: {size: N, workerTemplate: ...}; a leaderTemplate only where it differs");
  for (const char* key : {"size", "restartPolicy", "leaderTemplate", "workerTemplate", "subGroupPolicy"}) {
    if (const Value& misplaced = job.spec()[key])
      remarks.critical("field-place", misplaced.line, text("spec.", key, " is no field of a LeaderWorkerSet"),
                       text("it is spec.leaderWorkerTemplate.", key));
  }
  sizes(group, remarks);
  restarts(job, group, remarks);
}

}  // namespace weft::report::manifest
