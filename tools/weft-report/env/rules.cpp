// Applies the rows of rules.inc. A condition is one of
//   set, unset      unset holds of no configuration file alone, because an environment stands above it
//   =1, =LOC|0      the value is one of these; numbers are compared as numbers, words whatever their case
//   >=5, <5         the number
//   includes A B    a list without ^ has one of these words, or one with ^ has none
//   not A           it is set, to another word
//   contains A      these characters are in it
//   without A|B     none of these groups of characters is in it
//   prefix          a list without = whose first name ends in a digit
//   <first, !first  the number is below, or another than, that of the first condition
//   product>64      the product of both numbers

#include "weft-report/env/rules.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "weft-report/env/variables.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

constexpr Rule rule_table[] = {
#include "weft-report/env/rules.inc"
};

constexpr std::array rank_variables{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                    "SLURM_PROCID",         "RANK",      "WEFT_RANK"};
constexpr std::size_t most_evidence = 6;

std::vector<std::string_view> parts_of(std::string_view words, char separator) {
  std::vector<std::string_view> parts;
  while (!words.empty()) {
    const std::size_t at = std::min(words.find(separator), words.size());
    parts.push_back(words.substr(0, at));
    words.remove_prefix(std::min(at + 1, words.size()));
  }
  return parts;
}

/// The rest of `words` after `start`, if they begin with it.
std::optional<std::string_view> after(std::string_view start, std::string_view words) {
  if (!words.starts_with(start)) return std::nullopt;
  return words.substr(start.size());
}

bool looks_like_number(std::string_view value) {
  return !value.empty() && ((value[0] >= '0' && value[0] <= '9') || (value[0] == '-' && value.size() > 1));
}

bool same_word(std::string_view a, std::string_view b) {
  return words_in(a) == words_in(b);
}

bool equals(std::string_view value, std::string_view wanted) {
  if (looks_like_number(wanted)) return looks_like_number(value) && number_in(value) == number_in(wanted);
  return same_word(value, wanted);
}

bool includes(std::string_view value, std::string_view wanted) {
  const std::vector<std::string> words = words_in(value);
  const bool any = std::ranges::any_of(parts_of(wanted, ' '), [&](std::string_view one) {
    return std::ranges::find(words, words_in(one).front()) != words.end();
  });
  return value.find('^') == std::string_view::npos ? any : !any;
}

bool is_prefix(std::string_view value) {
  if (value.empty() || value.find('=') != std::string_view::npos) return false;
  const std::string_view first = value.substr(0, value.find(','));
  const std::string_view name = first.substr(0, first.find(':'));
  return !name.empty() && name.back() >= '0' && name.back() <= '9';
}

/// @param first the number of the first condition's variable
bool holds_of_number(std::string_view when, std::string_view value, std::int64_t first) {
  const auto number = number_in(value);
  if (!number) return false;
  if (when == "<first") return *number < first;
  if (when == "!first") return *number != first;
  // Values beyond the number of sockets that any process has are another finding, and would overflow here.
  if (const auto most = after("product>", when))
    return *number > 0 && first > 0 && *number < 65536 && first < 65536 &&
           *number * first > *number_in(*most);
  if (const auto least = after(">=", when)) return *number >= *number_in(*least);
  return *number < *number_in(when.substr(1));
}

/// Whether `when`, other than unset, holds of a value.
bool holds(std::string_view when, std::string_view value, std::int64_t first) {
  if (value.empty()) return false;  // NCCL takes its default
  if (when == "set") return true;
  if (when == "prefix") return is_prefix(value);
  if (const auto words = after("includes ", when)) return !value.empty() && includes(value, *words);
  if (const auto word = after("not ", when)) return !value.empty() && !same_word(value, *word);
  if (const auto some = after("contains ", when)) return value.find(*some) != std::string_view::npos;
  if (const auto none = after("without ", when)) {
    return !value.empty() && std::ranges::none_of(parts_of(*none, '|'), [&](std::string_view one) {
      return value.find(one) != std::string_view::npos;
    });
  }
  if (const auto wanted = after("=", when)) {
    return std::ranges::any_of(parts_of(*wanted, '|'),
                               [&](std::string_view one) { return equals(value, one); });
  }
  return holds_of_number(when, value, first);
}

bool is_rank(const Settings& settings) {
  return std::ranges::any_of(rank_variables, [&](const char* one) { return settings.find(one) != nullptr; });
}

/// Adds the variables of a family that NCCL reads and of which the condition holds. One that only switches something off is none that would
/// have an effect otherwise.
void find_family(const Settings& settings, const Condition& condition, std::vector<const Setting*>& found) {
  const std::string_view start = condition.name.substr(0, condition.name.size() - 1);
  for (auto at = settings.values.lower_bound(start); at != settings.values.end(); ++at) {
    const Setting& one = at->second;
    if (!one.name.starts_with(start)) return;
    if (find_variable(one.name) == nullptr || one.name.ends_with("_DISABLE")) continue;
    if (!holds(condition.when, one.value, 0)) continue;
    if (std::ranges::find(found, &one) == found.end()) found.push_back(&one);
  }
}

/// The settings that a rule is about; none where a condition does not hold.
std::vector<const Setting*> matches(const Rule& rule, const Settings& settings) {
  std::vector<const Setting*> found;
  std::int64_t first = 0;
  for (const Condition& condition : rule.conditions) {
    if (condition.name.empty()) break;
    if (condition.name == "@rank") {
      if (is_rank(settings)) return {};
      continue;
    }
    if (condition.name.ends_with('*')) {
      const std::size_t before = found.size();
      find_family(settings, condition, found);
      if (found.size() == before) return {};
      continue;
    }
    const Setting* one = settings.find(condition.name);
    if (condition.when == "unset") {
      if ((one != nullptr && !one->value.empty()) || !settings.whole) return {};
      continue;
    }
    if (one == nullptr || !holds(condition.when, one->value, first)) return {};
    if (found.empty()) first = number_in(one->value).value_or(0);
    if (std::ranges::find(found, one) == found.end()) found.push_back(one);
  }
  return found;
}

}  // namespace

std::span<const Rule> setting_rules() {
  return rule_table;
}

std::vector<Finding> apply_rules(const Settings& settings, const NcclVersion& version) {
  std::vector<Finding> findings;
  for (const Rule& rule : rule_table) {
    if (!rule.since.empty() && version < parse_nccl_version(rule.since, 0).value()) continue;
    const std::vector<const Setting*> found = matches(rule, settings);
    if (found.empty()) continue;
    Finding finding{.cause = std::string(rule.cause),
                    .severity = rule.severity,
                    .confidence = rule.confidence,
                    .verdict = shown(*found.front())};
    if (found.size() > 1) finding.verdict += text(" with ", shown(*found[1]));
    if (found.size() > 2) finding.verdict += text(" and ", found.size() - 2, " more");
    finding.verdict += text(": ", rule.why);
    for (std::size_t i = 0; i < std::min(found.size(), most_evidence); ++i)
      finding.evidence.push_back(evidence_of(*found[i]));
    finding.fix = std::string(rule.fix);
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace weft::report
