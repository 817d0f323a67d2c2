// Jobs of Volcano: gangs, and what the plug-ins of a job add to its pods.

#include <algorithm>
#include <array>

#include "weft-launch/manifest/rules/rules.hpp"
#include "weft/core/text.hpp"

namespace weft::report::manifest {
namespace {

void gang(const Job& job, Remarks& remarks) {
  long all = 0;
  for (const Role& role : job.roles) {
    all += role.pods;
    const Value& least = (*role.owner)["minAvailable"];
    if (least.number() && *least.number() > role.pods)
      remarks.critical("gang-size", least.line,
                       text("minAvailable ", least.text, " of task ", role.name, " is more than its ",
                            role.pods, " replicas"),
                       text("minAvailable: ", role.pods, " or less"));
    const bool is_twice = job.role_named(role.name) != &role && !role.name.empty();
    if (is_twice)
      remarks.critical("task-twice", line_of({&(*role.owner)["name"], role.owner}),
                       text("there is a task ", role.name, " already"), "another name");
  }
  const Value& least = job.spec()["minAvailable"];
  if (!least.number() || job.roles.empty()) return;
  if (*least.number() > all)
    remarks.critical("gang-size", least.line,
                     text("minAvailable ", least.text, " is more than the ", all, " pods of all tasks"),
                     text("minAvailable: ", all));
  else if (*least.number() < all)
    remarks.notice("gang-size", least.line,
                   text("the job starts with ", least.text, " of ", all,
                        " pods: ranks of a fixed number wait for the others"),
                   text("minAvailable: ", all));
}

/// What follows --OPTION= in a plug-in's arguments.
std::string argument(const Value& plugin, std::string_view option, std::string_view otherwise) {
  for (const Value& one : plugin.items) {
    const std::string& word = one.text;
    if (word.starts_with(option) && word.size() > option.size() && word[option.size()] == '=')
      return word.substr(option.size() + 1);
  }
  return std::string(otherwise);
}

void plugins(const Job& job, Remarks& remarks) {
  static constexpr std::array<std::string_view, 9> known{"svc",        "env", "ssh",      "mpi",   "pytorch",
                                                         "tensorflow", "ray", "hcclrank", "argocd"};
  const Value& all = job.spec()["plugins"];
  for (const Member& plugin : all.members) {
    if (std::ranges::find(known, plugin.key) == known.end())
      remarks.notice("plugin-unknown", plugin.line, text("Volcano itself has no plug-in ", plugin.key),
                     "one of svc, env, ssh, mpi, pytorch, tensorflow, ray, hcclrank");
    if (plugin.key != "mpi" && plugin.key != "pytorch") continue;
    for (const char* option : {"--master", "--worker"}) {
      const std::string task = argument(plugin.value, option, option + 2);
      if (job.role_named(task) == nullptr && (plugin.key == "mpi" || std::string_view(option) == "--master"))
        remarks.critical("plugin-task", plugin.line,
                         text("the plug-in ", plugin.key, " looks for a task ", task, ", and there is none"),
                         text(option, "=NAME of a task"));
    }
  }
}

/// The files that svc writes, /etc/volcano/TASK.host.
void host_files(const Job& job, Remarks& remarks) {
  static constexpr std::string_view folder = "/etc/volcano/";
  static constexpr std::string_view ending = ".host";
  const Value& all = job.spec()["plugins"];
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(all.members, [&](const Member& one) { return one.key == name; });
  };
  for (const Role& role : job.roles) {
    for (const Container& container : role.containers) {
      for (const Word& word : container.words) {
        const std::size_t at = word.text.find(folder);
        const std::size_t end = word.text.find(ending, at == std::string::npos ? 0 : at);
        if (at == std::string::npos || end == std::string::npos) continue;
        const std::string task = word.text.substr(at + folder.size(), end - at - folder.size());
        if (!has("svc") && !has("mpi") && !has("pytorch") && !has("tensorflow"))
          remarks.critical("plugin-missing", word.line,
                           text(folder, task, ending, " is written by the plug-in svc, which the job lacks"),
                           "plugins: {svc: [], ssh: []}");
        else if (job.role_named(task) == nullptr && task.find('$') == std::string::npos)
          remarks.critical("plugin-task", word.line,
                           text("there is no task ", task, " whose hosts stand in ", word.text),
                           "the name of a task");
      }
    }
  }
}

}  // namespace

void volcano_rules(const Job& job, Remarks& remarks) {
  if (job.kind != Job::Kind::volcano) return;
  gang(job, remarks);
  plugins(job, remarks);
  host_files(job, remarks);
}

}  // namespace weft::report::manifest
