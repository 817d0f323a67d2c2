// Variables of weft in a manifest: their names, values, and the secret of the job.

#include <algorithm>
#include <array>

#include "core/base/number.hpp"
#include "core/base/strings.hpp"
#include "weft-launch/manifest/rules/rules.hpp"
#include "weft/core/env.hpp"
#include "weft/core/text.hpp"

namespace weft::report::manifest {
namespace {

struct Words {
  const env::Variable& variable;
  std::string_view allowed;  ///< separated by spaces
};

const std::array word_lists{Words{env::transport, "mpi ucx tcp auto"},
                            Words{env::progress, "inline thread auto"},
                            Words{env::log, "off error warn info debug"}, Words{env::order, "rank any"}};

bool is_one_of(std::string_view list, std::string_view word) {
  return !word.empty() && text(' ', list, ' ').find(text(' ', word, ' ')) != std::string::npos;
}

void variable_name(const Value& entry, Remarks& remarks) {
  const std::string& name = entry["name"].text;
  if (!name.starts_with("WEFT")) return;
  const auto known = env::variables();
  const auto is_same = [&](const env::Variable* one) { return one->name == name; };
  if (std::ranges::any_of(known, is_same)) return;
  const env::Variable* nearest = nullptr;
  std::size_t least = 4;  // edits
  for (const env::Variable* one : known) {
    const std::size_t distance =
        one->origin == "weft" && name.size() < 64 ? detail::edit_distance(one->name, name) : least;
    if (distance < least) {
      least = distance;
      nearest = one;
    }
  }
  remarks.warn("weft-variable", entry["name"].line, text("weft reads no variable ", name),
               nearest == nullptr ? std::string("weft-launch env --document lists what there is")
                                  : text("did you mean ", nearest->name, "?"));
}

void variable_value(const Value& entry, Remarks& remarks) {
  const Value& value = entry["value"];
  if (!value || value.text.find("$(") != std::string::npos) return;
  for (const env::Variable* one : {&env::timeout, &env::connect_timeout}) {
    if (entry["name"].is(one->name) && detail::number_of<double>(value.text).value_or(-1) < 0)
      remarks.critical("weft-value", value.line,
                       text(one->name, " is ", value.text, ", which is no number of seconds"),
                       text("such as \"", one->fallback, '"'));
  }
  for (const Words& one : word_lists) {
    if (entry["name"].is(one.variable.name) && !is_one_of(one.allowed, value.text))
      remarks.critical("weft-value", value.line,
                       text(one.variable.name, " is ", value.text, ", and can be one of ", one.allowed),
                       "one of these");
  }
  if (entry["name"].is(env::token.name))
    remarks.warn("token-shown", value.line,
                 "the job's secret stands in the manifest, for all who can read it",
                 "valueFrom: {secretKeyRef: {name: weft-token, key: token}}");
}

void pair_rules(const Container& container, Remarks& remarks) {
  const Value& rank = container.variable(env::rank.name);
  const Value& size = container.variable(env::size.name);
  if (static_cast<bool>(rank) == static_cast<bool>(size)) return;
  const Value& there = rank ? rank : size;
  remarks.critical(
      "weft-half", there["name"].line,
      text(there["name"].text, " is set and ", rank ? env::size.name : env::rank.name, " is not"),
      "set both or neither");
}

/// weft refuses a file that others than its user may read.
void token_file_rules(const Role& role, const Container& container, Remarks& remarks) {
  const std::string& path = container.variable(env::token_file.name)["value"].text;
  if (path.empty()) return;
  for (const Value& mount : container["volumeMounts"].items) {
    const std::string& folder = mount["mountPath"].text;
    if (folder.empty() || !path.starts_with(folder)) continue;
    for (const Value& volume : (*role.pod)["volumes"].items) {
      if (!volume["name"].is(mount["name"].text) || !volume["secret"]) continue;
      const Value& mode = volume["secret"]["defaultMode"];
      const bool is_own = mode.is("0400") || mode.is("0600") || mode.is("0o400") || mode.is("0o600") ||
                          mode.is("256") || mode.is("384");
      if (!is_own)
        remarks.critical("token-mode", line_of({&mode, &volume["secret"]}),
                         mode.is("400") || mode.is("600")
                             ? text(mode.text, " without a 0 before it is no octal number, and another mode")
                             : std::string("others may read the file of the token, and weft refuses it"),
                         "defaultMode: 0400");
    }
  }
}

void token_rules(const Job& job, const Role& role, const Container& container, Remarks& remarks) {
  const bool has_token =
      container.variable(env::token.name) || container.variable(env::token_file.name) || container["envFrom"];
  const auto nodes = container.program("weft-launch") ? container.option("--nodes") : std::nullopt;
  const Value& place = container.variable(env::rendezvous.name)["value"];
  const bool over_tcp = place.text.starts_with("tcp://") || (nodes && nodes->text != "1") ||
                        (container.is_weft() && container.variable(env::master_addr.name));
  if (over_tcp && !has_token && !container.program("torchrun"))
    remarks.critical("token-missing",
                     nodes ? nodes->line : line_of({&place, &container["env"], container.value}),
                     "ranks that meet over TCP need the secret of their job, and refuse to start without it",
                     "WEFT_TOKEN from a Secret (secretKeyRef)");
  if (place.text.starts_with("file://") && role.pods > 1 && job.kind != Job::Kind::mpi_job)
    remarks.warn("meeting-place", place.line,
                 "a file is for ranks of one machine, and the pods may be on several",
                 "tcp://HOST:PORT of the pod with index 0");
}

/// NCCL reads /etc/nccl.conf, ~/.nccl.conf or what NCCL_CONF_FILE names, and nothing else.
void settings_file_rules(const Container& container, Remarks& remarks) {
  const Value& named = container.variable("NCCL_CONF_FILE")["value"];
  for (const Value& mount : container["volumeMounts"].items) {
    const Value& path = mount["mountPath"];
    if (path.is("/etc") || path.is("/etc/"))
      remarks.critical("hides-etc", path.line, "the volume hides all of /etc",
                       "mountPath: /etc/nccl.conf with subPath: nccl.conf");
    const bool is_settings = path.text.ends_with("nccl.conf") && !path.text.starts_with("/etc/nccl.conf") &&
                             !path.text.ends_with("/.nccl.conf");
    if (is_settings && !named.is(path.text))
      remarks.warn("nccl-conf", path.line, text("NCCL does not read ", path.text),
                   "mount it at /etc/nccl.conf, or name it in NCCL_CONF_FILE");
    if (path.is("/etc/nccl.conf") && !mount["subPath"])
      remarks.warn("nccl-conf", path.line,
                   "without subPath /etc/nccl.conf is a folder, which NCCL does not read",
                   "subPath: nccl.conf");
  }
}

}  // namespace

void weft_rules(const Job& job, const Role& role, Remarks& remarks) {
  for (const Container& container : role.containers) {
    for (const Value& entry : container["env"].items) {
      variable_name(entry, remarks);
      variable_value(entry, remarks);
    }
    pair_rules(container, remarks);
    token_file_rules(role, container, remarks);
    token_rules(job, role, container, remarks);
    settings_file_rules(container, remarks);
  }
}

}  // namespace weft::report::manifest
