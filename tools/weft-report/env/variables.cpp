// The table of variables, and those of others. A value is one of
//   text              anything
//   integer, real     a number
//   0..31, 1..        a number in a range
//   numbers 64 128    one of these numbers
//   words A B MAX:    one of these words, whatever the case; MAX: takes a number after it
//   level LOC NVL     one of these words in capitals, or an old number from 0 to 5
//   list A B          words with commas between; ^ before the first excludes them
//   functions A B     such lists with ; between, each for a function that stands before a colon (NCCL 2.24)
//   policy A B        words with | between, or a number

#include "weft-report/env/variables.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include "core/base/strings.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

constexpr Variable variable_table[] = {
#include "weft-report/env/variables.inc"
};

struct Foreign {
  std::string_view name;  ///< a * at its end stands for anything
  std::string_view owner;
};

constexpr Foreign foreign_table[] = {
    {"NCCL_PSK", "NCCL after 2.32.3"},
    {"NCCL_VERSION", "images of NVIDIA, for the package in them"},
    {"NCCL_ASYNC_ERROR_HANDLING", "PyTorch before 2.2"},
    {"NCCL_BLOCKING_WAIT", "PyTorch before 2.2"},
    {"NCCL_DESYNC_DEBUG", "PyTorch before 2.2"},
    {"NCCL_ENABLE_TIMING", "PyTorch before 2.2"},
    {"NCCL_OFI_*", "the plug-in of AWS for libfabric"},
    {"NCCL_TESTS_*", "nccl-tests"},
    {"NCCL_FASTRAK_*", "Google's plug-in"},
    {"NCCL_GPUDIRECTTCPX_*", "Google's plug-in"},
    {"NCCL_SHIMNET_*", "Google's plug-in"},
    {"NCCL_TUNER_CONFIG_PATH", "Google's plug-in"},
    {"NCCL_SHARP_*", "the plug-in for RDMA and SHARP"},
    {"NCCL_PLUGIN_*", "the plug-in for RDMA and SHARP"},
    {"NCCL_IBEXT_*", "the plug-in for RDMA and SHARP"},
    {"NCCL_UCX_*", "the plug-in for RDMA and SHARP"},
    {"NCCL_HOME", "builds"},
    {"NCCL_ROOT*", "builds"},
    {"NCCL_DIR", "builds"},
    {"NCCL_PATH", "builds"},
    {"NCCL_PREFIX", "builds"},
    {"NCCL_INSTALL_*", "builds"},
    {"NCCL_INCLUDE*", "builds"},
    {"NCCL_LIB", "builds"},
    {"NCCL_LIB_DIR", "builds"},
    {"NCCL_LIB_PATH", "builds"},
    {"NCCL_LIBRARY*", "builds"},
    {"NCCL_LIBRARIES", "builds"},
    {"NCCL_PACKAGE*", "images"},
};

char small(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string small(std::string_view words) {
  std::string result(words);
  std::ranges::transform(result, result.begin(), [](char c) { return small(c); });
  return result;
}

std::vector<std::string_view> cut(std::string_view words, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (!words.empty()) {
    const std::size_t at = std::min(words.find_first_of(separators), words.size());
    parts.push_back(words.substr(0, at));
    words.remove_prefix(std::min(at + 1, words.size()));
  }
  return parts;
}

/// The kind of values and what follows it.
struct Domain {
  std::string_view kind;
  std::vector<std::string_view> words;
};

Domain domain_of(const Variable& variable) {
  std::vector<std::string_view> words = cut(variable.values, " ");
  const std::string_view kind = words.front();
  words.erase(words.begin());
  return {kind.find("..") == std::string_view::npos ? kind : "range", std::move(words)};
}

bool is_number(std::string_view value) {
  if (value.starts_with('-') || value.starts_with('+')) value.remove_prefix(1);
  const bool hexadecimal = value.starts_with("0x") || value.starts_with("0X");
  if (hexadecimal) value.remove_prefix(2);
  return !value.empty() && value.find_first_not_of(hexadecimal ? "0123456789abcdefABCDEF" : "0123456789") ==
                               std::string_view::npos;
}

/// None where it reads as it looks.
std::optional<std::string> complaint_about_number(std::string_view value) {
  const auto read = number_in(value);
  if (!read) return "is too large; NCCL takes its default";
  if (!is_number(value)) return text("is no whole number; NCCL reads ", *read);
  if (value.size() > 1 && value.starts_with('0') && small(value[1]) != 'x' && *read != 0)
    return text("starts with 0, which makes it octal; NCCL reads ", *read);
  return std::nullopt;
}

std::optional<std::string> complaint_about_range(std::string_view range, std::string_view value) {
  if (auto wrong = complaint_about_number(value)) return wrong;
  const std::int64_t read = *number_in(value);
  const std::size_t dots = range.find("..");
  const std::string_view last = range.substr(dots + 2);
  if (read < *number_in(range.substr(0, dots)) || (!last.empty() && read > *number_in(last)))
    return "is out of range";
  return std::nullopt;
}

bool is_one_of(const std::vector<std::string_view>& words, std::string_view value) {
  return std::ranges::any_of(words, [&](std::string_view word) {
    if (!word.ends_with(':')) return small(word) == small(value);
    return small(value).starts_with(small(word)) && value.size() > word.size();
  });
}

std::optional<std::string> complaint_about_words(const std::vector<std::string_view>& words,
                                                 const std::vector<std::string>& values) {
  if (values.empty()) return "names nothing";
  for (const std::string& value : values) {
    if (!is_one_of(words, value)) return text("names '", value.substr(0, 40), "', which is unknown");
  }
  return std::nullopt;
}

std::optional<std::string> complaint_about_level(const std::vector<std::string_view>& words,
                                                 std::string_view value) {
  if (std::ranges::find(words, value) != words.end()) return std::nullopt;
  if (is_number(value) && number_in(value).value_or(-1) >= 0) return std::nullopt;
  return is_one_of(words, value) ? "is not in capitals; NCCL ignores it" : "is no level; NCCL ignores it";
}

}  // namespace

std::span<const Variable> nccl_variables() {
  return variable_table;
}

const Variable* find_variable(std::string_view name) {
  const auto at = std::ranges::lower_bound(variable_table, name, {}, &Variable::name);
  return at != std::end(variable_table) && at->name == name ? at : nullptr;
}

bool exists_in(const Variable& variable, const NcclVersion& version) {
  const NcclVersion since = parse_nccl_version(variable.since, 0).value();
  const NcclVersion oldest{{2, 3, 5}};  // of older versions nothing is known
  if (version < since && since > oldest && variable.kind != Kind::plugin) return false;
  return variable.gone.empty() || version < parse_nccl_version(variable.gone, 0).value();
}

std::optional<std::string_view> foreign_owner(std::string_view name) {
  for (const Foreign& one : foreign_table) {
    const bool family = one.name.ends_with('*');
    const std::string_view start = one.name.substr(0, one.name.size() - (family ? 1 : 0));
    if (family ? name.starts_with(start) : name == start) return one.owner;
  }
  return std::nullopt;
}

std::optional<std::string> complaint_about(const Variable& variable, std::string_view value) {
  const auto [kind, words] = domain_of(variable);
  if (value.empty() || kind == "text") return std::nullopt;  // NCCL takes its default
  if (kind == "integer") return complaint_about_number(value);
  if (kind == "range") return complaint_about_range(variable.values, value);
  if (kind == "level") return complaint_about_level(words, value);
  if (kind == "list" || kind == "functions") return complaint_about_words(words, words_in(value));
  if (kind == "policy") {
    if (is_number(value)) return complaint_about_range("0..2", value);
    std::vector<std::string> parts;
    for (const std::string_view part : cut(value, "|")) parts.emplace_back(part);
    return complaint_about_words(words, parts);
  }
  if (kind == "numbers") {
    if (auto wrong = complaint_about_number(value)) return wrong;
    if (is_one_of(words, value)) return std::nullopt;
    return "is none of these numbers";
  }
  if (kind == "real") {
    const std::string copy(value);
    char* end = nullptr;
    const double read = std::strtod(copy.c_str(), &end);
    if (*end != '\0' || !(read > 0)) return "is no positive number";
    return std::nullopt;
  }
  if (is_one_of(words, value)) return std::nullopt;
  return text("is none of them");
}

std::string allowed_values(const Variable& variable) {
  const auto [kind, words] = domain_of(variable);
  const std::string all = detail::listed(words);
  if (kind == "range") {
    const std::size_t dots = variable.values.find("..");
    const std::string_view last = variable.values.substr(dots + 2);
    return text("a whole number from ", variable.values.substr(0, dots), last.empty() ? "" : " to ", last);
  }
  if (kind == "integer") return "a whole number";
  if (kind == "real") return "a positive number";
  if (kind == "numbers" || kind == "words") return text("one of ", all);
  if (kind == "level") return text("one of ", all, ", in capitals");
  if (kind == "list") return text("a list of ", all);
  if (kind == "functions") return text("a list of ", all, ", or FUNCTION:LIST;FUNCTION:LIST");
  if (kind == "policy") return text("one of ", all, ", or several with | between");
  return "any text";
}

std::optional<std::int64_t> number_in(std::string_view value) {
  const std::string copy(value.substr(0, 64));
  errno = 0;
  const long long read = std::strtoll(copy.c_str(), nullptr, 0);
  if (errno == ERANGE) return std::nullopt;
  return read;
}

std::vector<std::string> words_in(std::string_view value) {
  std::vector<std::string> words;
  for (std::string_view part : cut(value, ",;")) {
    if (const std::size_t colon = part.find(':'); colon != std::string_view::npos)
      part.remove_prefix(colon + 1);
    while (part.starts_with('^') || part.starts_with('=')) part.remove_prefix(1);
    if (!part.empty()) words.push_back(small(part));
  }
  return words;
}

}  // namespace weft::report
