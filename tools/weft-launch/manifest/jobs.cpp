#include "weft-launch/manifest/jobs.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace weft::report::manifest {
namespace {

const Value absent{};

std::string_view file_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool is_shell(std::string_view path) {
  const std::string_view name = file_of(path);
  return name == "sh" || name == "bash" || name == "dash" || name == "zsh" || name == "ash";
}

/// -c, also among others: -xc, -lc.
bool takes_script(std::string_view option) {
  return option.size() >= 2 && option[0] == '-' && option[1] != '-' && option.ends_with('c');
}

/// Cuts a script as a shell does, as far as words go: quotes, a backslash at a line's end, and comments. ; and && are words.
class Script {
 public:
  Script(const Value& value, std::vector<Word>& words)
      : line_(value.line + (value.block ? 1 : 0)), counts_(value.block), words_(words) {
    for (std::size_t i = 0; i < value.text.size(); ++i) take(value.text, i);
    end_word();
  }

 private:
  void take(const std::string& all, std::size_t& i) {
    const char c = all[i];
    if (c == '\n' && counts_) ++line_;
    if (c == '\\' && i + 1 < all.size() && quote_ != '\'') {
      const char next = all[++i];
      if (next == '\n') {
        if (counts_) ++line_;
        end_word();
      } else if (next != ' ' || quote_ != 0) {
        add(next);
      } else {
        end_word();  // "mpirun \ -np 64": a line of YAML that ended with a backslash
      }
    } else if (quote_ != 0 ? c == quote_ : c == '\'' || c == '"') {
      quote_ = quote_ != 0 ? '\0' : c;
      has_word_ = true;
    } else if (quote_ != 0) {
      add(c);
    } else if (c == '#' && !has_word_) {
      while (i + 1 < all.size() && all[i + 1] != '\n') ++i;
    } else if (c == ';' || c == '&' || c == '|' || c == '\n') {
      end_word();
      if (!words_.empty() && words_.back().text != ";") words_.push_back({";", line_});
    } else if (c == ' ' || c == '\t') {
      end_word();
    } else {
      add(c);
    }
  }
  void add(char c) {
    if (word_.empty()) begun_ = line_;
    word_ += c;
    has_word_ = true;
  }
  void end_word() {
    if (has_word_) words_.push_back({word_, begun_ == 0 ? line_ : begun_});
    word_.clear();
    has_word_ = false;
  }

  int line_;
  int begun_ = 0;
  const bool counts_;
  char quote_ = 0;
  bool has_word_ = false;
  std::string word_;
  std::vector<Word>& words_;
};

Container container_of(const Value& value) {
  Container container{&value};
  std::vector<const Value*> words;
  for (const char* key : {"command", "args"}) {
    for (const Value& word : value[key].items) words.push_back(&word);
  }
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool is_script = i >= 2 && takes_script(words[i - 1]->text) && is_shell(words[0]->text);
    if (is_script) {
      container.in_shell = true;
      Script(*words[i], container.words);
    } else {
      container.words.push_back({words[i]->text, words[i]->line});
    }
  }
  return container;
}

}  // namespace

const Value& Container::variable(std::string_view name) const {
  for (const Value& entry : (*value)["env"].items) {
    if (entry["name"].is(name)) return entry;
  }
  return absent;
}

std::optional<Word> Container::option(std::string_view option) const {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    if (word == option && i + 1 < words.size()) return Word{words[i + 1].text, words[i + 1].line};
    if (word.starts_with(option) && word.size() > option.size() && word[option.size()] == '=')
      return Word{word.substr(option.size() + 1), words[i].line};
  }
  return std::nullopt;
}

std::optional<Word> Container::any_option(std::initializer_list<const char*> names) const {
  for (const char* name : names) {
    if (auto found = option(name)) return found;
  }
  return std::nullopt;
}

std::optional<std::size_t> Container::program(std::string_view name) const {
  const auto found =
      std::ranges::find_if(words, [&](const Word& word) { return file_of(word.text) == name; });
  if (found == words.end()) return std::nullopt;
  return static_cast<std::size_t>(found - words.begin());
}

const Value& Container::resource(std::string_view name) const {
  const Value& limit = (*value)["resources"]["limits"][name];
  return limit ? limit : (*value)["resources"]["requests"][name];
}

const Value& Container::gpu_resource() const {
  for (const char* name : {"nvidia.com/gpu", "amd.com/gpu"}) {
    if (const Value& found = resource(name)) return found;
  }
  return absent;
}

long Container::gpus() const {
  return number_or(gpu_resource(), 0);
}

bool Container::is_weft() const {
  const auto of_weft = [](std::string_view word) {
    return file_of(word).starts_with("weft-") && word.find(' ') == std::string_view::npos;
  };
  return std::ranges::any_of(words, [&](const Word& word) { return of_weft(word.text); }) ||
         std::ranges::any_of((*value)["env"].items,
                             [](const Value& entry) { return entry["name"].text.starts_with("WEFT_"); });
}

bool Container::runs_sshd() const {
  return !words.empty() && file_of(words.front().text) == "sshd";
}

const Value& Role::rdma() const {
  for (const Container& container : containers) {
    for (const char* kind : {"limits", "requests"}) {
      for (const Member& member : container["resources"][kind].members) {
        if (is_rdma(member.key)) return member.value;
      }
    }
  }
  return absent;
}

long Role::gpus() const {
  long all = 0;
  for (const Container& container : containers) all += container.gpus();
  return all;
}

bool Job::is_weft() const {
  return std::ranges::any_of(roles, [](const Role& role) {
    return std::ranges::any_of(role.containers, [](const Container& one) { return one.is_weft(); });
  });
}

long Job::nodes() const {
  long all = 0;
  for (const Role& role : roles) all += role.is_launcher ? 0 : role.pods;
  return all;
}

const Role* Job::role_named(std::string_view role) const {
  const auto found = std::ranges::find(roles, role, &Role::name);
  return found == roles.end() ? nullptr : &*found;
}

bool Job::is_mpi_over_exec() const {
  return kind == Kind::mpi_job && (*document)["apiVersion"].text.starts_with("kubeflow.org/v1");
}

Role role_of(std::string name, const Value& owner, const Value& pod_template, long pods) {
  Role role{std::move(name), &owner, &pod_template["metadata"], &pod_template["spec"],
            std::clamp(pods, 1L, 2147483647L)};
  for (const Value& container : pod_template["spec"]["containers"].items)
    role.containers.push_back(container_of(container));
  return role;
}

long number_or(const Value& value, long otherwise) {
  return value.number().value_or(otherwise);
}

std::optional<double> quantity(const Value& value) {
  static constexpr std::array<std::pair<std::string_view, double>, 13> units{{{"Ki", 1024.0},
                                                                              {"Mi", 1048576.0},
                                                                              {"Gi", 1073741824.0},
                                                                              {"Ti", 1099511627776.0},
                                                                              {"Pi", 1125899906842624.0},
                                                                              {"k", 1e3},
                                                                              {"M", 1e6},
                                                                              {"G", 1e9},
                                                                              {"T", 1e12},
                                                                              {"P", 1e15},
                                                                              {"m", 1e-3},
                                                                              {"u", 1e-6},
                                                                              {"", 1}}};
  const char* const end = value.text.data() + value.text.size();
  double number = 0;
  const auto [at, code] = std::from_chars(value.text.data(), end, number);
  if (value.kind != Value::Kind::scalar || code != std::errc{} || !std::isfinite(number)) return std::nullopt;
  const std::string_view unit(at, static_cast<std::size_t>(end - at));
  const auto found = std::ranges::find(units, unit, &std::pair<std::string_view, double>::first);
  return found == units.end() ? std::nullopt : std::optional(number * found->second);
}

bool is_rdma(std::string_view resource) {
  static constexpr std::array<std::string_view, 5> words{"rdma", "roce", "infiniband", "/efa", "/ib"};
  const bool is_extended = resource.find('/') != std::string_view::npos;
  return is_extended && std::ranges::any_of(words, [&](std::string_view word) {
           return resource.find(word) != std::string_view::npos;
         });
}

}  // namespace weft::report::manifest
