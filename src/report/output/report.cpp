#include "report/output/report.hpp"

#include <algorithm>
#include <array>

#include "core/base/strings.hpp"
#include "report/page/markup.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

struct Character {
  char32_t code = 0;
  std::size_t bytes = 1;
  bool valid = false;
};

/// The first character; one byte where it is not UTF-8.
Character first_of(std::string_view raw) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(raw[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t count = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  constexpr std::array<char32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
  if (lead < 0xc2 || lead > 0xf4 || raw.size() < count) return {};
  char32_t code = lead & (0xffU >> (count + 1));
  for (std::size_t i = 1; i < count; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < least[count] || code > 0x10ffff || surrogate) return {};
  return {code, count, true};
}

bool is_control(char32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0);
}
/// Marks that have no width and turn the direction of text, and line ends that only Unicode knows.
bool is_hidden(char32_t code) {
  return (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2060 && code <= 0x206f) || code == 0xfeff || code == 0x61c;
}

std::size_t of(const std::vector<Finding>& findings, Severity severity) {
  return static_cast<std::size_t>(std::ranges::count(findings, severity, &Finding::severity));
}

}  // namespace

std::string clean(std::string_view raw) {
  std::string safe;
  safe.reserve(raw.size());
  while (!raw.empty()) {
    const Character one = first_of(raw);
    if (!one.valid) {
      safe += "\ufffd";
    } else if (is_control(one.code) || is_hidden(one.code)) {
      safe += ' ';
    } else {
      safe += raw.substr(0, one.bytes);
    }
    raw.remove_prefix(one.bytes);
  }
  return safe;
}

std::string counted(std::size_t count, std::string_view what) {
  return text(grouped(static_cast<double>(count)), ' ', what, count == 1 ? "" : "s");
}

std::string tally(const std::vector<Finding>& findings) {
  std::string words;
  const auto add = [&](Severity severity, std::string_view what) {
    if (const std::size_t count = of(findings, severity); count > 0)
      words += text(words.empty() ? "" : ", ", counted(count, what));
  };
  add(Severity::critical, "critical finding");
  add(Severity::warning, "warning");
  add(Severity::notice, "notice");
  return words.empty() ? "no finding" : words;
}

std::string verdict(const Report& report) {
  if (report.findings.empty()) return text("nothing wrong is seen in ", clean(report.looked_at));
  const Finding& first = report.findings.front();
  return text(name(first.severity), ": ", clean(first.verdict));
}

}  // namespace weft::report
