// Which form the bytes have, or what they are instead.

#include "weft-report/ras/answer.hpp"

#include <algorithm>

#include "common/findings/words.hpp"
#include "core/base/strings.hpp"
#include "weft-report/ras/forms.hpp"
#include "weft/core/error.hpp"

namespace weft::report::ras {
namespace {

constexpr std::string_view advice =
    "name the answer to STATUS of NCCL 2.24 or later, as ncclras or weft-report ras prints it";

/// Without the lines of the protocol before the answer, of which ncclras prints none and nc prints all.
std::string_view without_protocol(std::string_view bytes) {
  for (;;) {
    const std::size_t begin = bytes.find_first_not_of(" \t\r\n");
    if (begin == std::string_view::npos) return {};
    const std::string_view rest = bytes.substr(begin);
    const std::size_t end = rest.find('\n');
    const std::string_view line = trimmed(rest.substr(0, end));
    if (!line.starts_with("SERVER PROTOCOL") && line != "OK") return rest;
    if (end == std::string_view::npos) return {};
    bytes = rest.substr(end + 1);
  }
}

/// What it is that is no answer.
std::string said(std::string_view bytes) {
  constexpr std::size_t most = 60;
  const std::string_view line = trimmed(bytes.substr(0, bytes.find('\n')));
  return weft::detail::printable(line.substr(0, most)) + (line.size() > most ? "..." : "");
}

[[noreturn]] void refuse(const std::string& file, const std::string& problem) {
  throw Error(ErrorKind::usage, text(file, ": ", problem), std::string(advice));
}

}  // namespace

std::string plain_hash(std::string_view digits) {
  if (digits.starts_with("0x")) digits.remove_prefix(2);
  const std::size_t first = digits.find_first_not_of('0');
  return first == std::string_view::npos ? "0" : std::string(digits.substr(first));
}

Answer parse_answer(std::string_view bytes, const std::string& file) {
  if (bytes.find_first_not_of(" \t\r\n") == std::string_view::npos) refuse(file, "is empty");
  const std::string_view answer = without_protocol(bytes);
  if (answer.empty()) refuse(file, "has the greeting of RAS and no answer behind it");
  if (answer.starts_with("{")) return parse_json(answer, file);
  if (answer.starts_with("NCCL version ")) {
    const std::string_view before = bytes.substr(0, bytes.size() - answer.size());
    return parse_text(answer, file, 1 + static_cast<int>(std::ranges::count(before, '\n')));
  }
  if (answer.starts_with("=== RAS Diagnostics"))
    refuse(file, "is the answer to DIAGNOSTICS, which says nothing of ranks that wait");
  if (answer.starts_with("ERROR:")) refuse(file, text("is a refusal of RAS: \"", said(answer), "\""));
  if (answer.starts_with("["))
    refuse(file, text("is a list of events (MONITOR) or a log: \"", said(answer), "\""));
  refuse(file, text("is no answer of NCCL's RAS: it begins with \"", said(answer), "\""));
}

}  // namespace weft::report::ras
