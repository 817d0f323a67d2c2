#include "weft-report/topology/host_limits.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include "core/base/number.hpp"
#include "weft-report/topology/tag.hpp"
#include "weft-report/topology/words.hpp"

namespace weft::report::topology {
namespace {

struct LimitForm {
  std::string_view label;
  LimitOf of;
  std::int64_t unit;         ///< bytes, or files
  std::string_view between;  ///< words that may stand between label and number
};
constexpr LimitForm forms[] = {
    {"max locked memory", LimitOf::locked_memory, 1024, "(kbytes, -l)"},       // bash
    {"Max locked memory", LimitOf::locked_memory, 1, ""},                      // /proc/PID/limits
    {"locked memory(kbytes)", LimitOf::locked_memory, 1024, ""},               // dash
    {"locked memory", LimitOf::locked_memory, 1024, "(kbytes)"},               // dash since 0.5.12
    {"-l: locked-in-memory size (kbytes)", LimitOf::locked_memory, 1024, ""},  // zsh
    {"-l: locked-in-memory size (kb)", LimitOf::locked_memory, 1024, ""},
    {"memorylocked", LimitOf::locked_memory, 1024, ""},  // tcsh
    {"open files", LimitOf::open_files, 1, "(-n)"},
    {"-n: file descriptors", LimitOf::open_files, 1, ""},
    {"nofiles", LimitOf::open_files, 1, ""},
    {"descriptors", LimitOf::open_files, 1, ""},
};

std::optional<std::int64_t> value_of(std::string_view word, std::int64_t unit) {
  if (word == "unlimited") return -1;
  const auto value = detail::number_of<std::int64_t>(word);
  if (!value || *value < 0) return std::nullopt;
  return *value > std::numeric_limits<std::int64_t>::max() / unit ? -1 : *value * unit;
}

/// Behind the number stand at most a hard limit and units; otherwise the line is a sentence.
bool ends_a_limit(std::string_view rest) {
  constexpr std::string_view may_follow[] = {"unlimited", "bytes", "kbytes", "files"};
  for (std::string_view word = take_word(rest); !word.empty(); word = take_word(rest)) {
    if (word.find_first_not_of("0123456789") != std::string_view::npos &&
        std::ranges::find(may_follow, word) == std::end(may_follow))
      return false;
  }
  return true;
}

/// The number behind a label: behind("Speed 32GT/s, Width x8", "Width x") is 8; 0: none.
double behind(std::string_view line, std::string_view label) {
  const auto at = line.find(label);
  if (at == std::string_view::npos) return 0;
  const std::string_view words = line.substr(at + label.size());
  double value = 0;
  const auto [end, error] = std::from_chars(words.data(), words.data() + words.size(), value);
  return error == std::errc() && value > 0 && value < 1e4 ? value : 0;
}

}  // namespace

std::optional<Limit> limit_of(std::string_view line) {
  for (const LimitForm& form : forms) {
    const auto at = line.find(form.label);
    if (at == std::string_view::npos) continue;
    std::string_view rest = trimmed(line.substr(at + form.label.size()));
    if (rest.starts_with(form.between)) rest.remove_prefix(form.between.size());
    const std::optional<std::int64_t> value = value_of(take_word(rest), form.unit);
    if (value && ends_a_limit(rest))
      return Limit{.of = form.of, .value = *value, .host = Tag(line.substr(0, at)).host()};
  }
  return std::nullopt;
}

bool begins_pci_device(std::string_view line) {
  const std::string_view bus = take_word(line);
  return bus.size() >= 7 && bus[bus.size() - 2] == '.' && !line.empty() &&
         bus.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
}

std::optional<PciStatus> pci_status_of(std::string_view line) {
  constexpr std::string_view kinds[] = {"3D controller",         "VGA compatible controller",
                                        "Display controller",    "Infiniband controller",
                                        "InfiniBand controller", "Ethernet controller"};
  if (!begins_pci_device(line)) return std::nullopt;
  const std::string_view bus = take_word(line);
  const std::string_view rest = trimmed(line);
  const auto* const kind =
      std::ranges::find_if(kinds, [&](std::string_view one) { return rest.starts_with(one); });
  if (kind == std::end(kinds)) return std::nullopt;
  return PciStatus{.bus = std::string(bus), .what = std::string(*kind)};
}

bool take_pci_line(PciStatus& status, std::string_view line, const Evidence& evidence) {
  const std::string_view words = trimmed(line);
  const bool able = words.starts_with("LnkCap:");
  if (!able && !words.starts_with("LnkSta:")) return false;
  const PciLink link{.gigatransfers = behind(words, "Speed "),
                     .width = static_cast<int>(behind(words, "Width x"))};
  (able ? status.able : status.now) = link;
  if (!able) status.evidence = evidence;
  return true;
}

}  // namespace weft::report::topology
