// weft's text form of a schedule: written line by line, read back word by word with the place of every fault.

#include <algorithm>

#include "core/base/strings.hpp"
#include "pipeline/formats/action_text.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/schedule.hpp"

namespace weft::pipeline {
namespace {

constexpr std::string_view blanks = " \t";

/// Goes through the lines of a schedule's text, and the words of each.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}

  bool more() const { return !text_.empty(); }

  /// Goes on to the next line, which must begin with `keyword`.
  void next(std::string_view keyword) {
    ++number_;
    const std::size_t end = std::min(text_.find('\n'), text_.size());
    line_ = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    if (line_.ends_with('\r')) line_.remove_suffix(1);
    rest_ = line_;
    if (word() != keyword) refuse(0, text("'", keyword, "'"));
  }

  /// The next word of the line; empty at its end.
  std::string_view word() {
    const std::size_t from = std::min(rest_.find_first_not_of(blanks), rest_.size());
    const std::size_t length = std::min(rest_.substr(from).find_first_of(blanks), rest_.size() - from);
    const std::string_view result = rest_.substr(from, length);
    rest_.remove_prefix(from + length);
    return result;
  }

  /// The rest of the line without the blank before it.
  std::string_view rest() {
    const std::string_view result = rest_.substr(rest_.empty() ? 0 : 1);
    rest_ = {};
    return result;
  }

  int number(std::string_view what, std::string_view ending = "") {
    const std::string_view written = word();
    std::string_view left = written;
    const auto value = detail::take_number(left);
    if (!value) refuse(place(written), what);
    if (left != ending) refuse(place(left), ending.empty() ? "a blank" : ending);
    return *value;
  }

  void end() {
    const std::string_view more = word();
    if (!more.empty()) refuse(place(more), "the end of the line");
  }

  std::size_t place(std::string_view within) const {
    return static_cast<std::size_t>(within.data() - line_.data());
  }

  [[noreturn]] void refuse(std::size_t at, std::string_view expected) const {
    const std::string_view from = line_.substr(std::min(at, line_.size()));
    const std::string_view found = from.substr(0, std::min<std::size_t>(from.find_first_of(blanks), 40));
    const std::string shown = found.empty() ? "the end of the line" : text("'", found, "'");
    throw Error(ErrorKind::usage,
                text("line ", number_, ", column ", at + 1, " of a schedule: ", shown, ", where ", expected,
                     " was expected"),
                "write schedules as weft prints them");
  }

 private:
  std::string_view text_, line_, rest_;
  int number_ = 0;
};

std::vector<Action> row_of(Lines& lines) {
  std::vector<Action> row;
  for (std::string_view word = lines.word(); !word.empty(); word = lines.word()) {
    if (const auto unread = detail::read_actions(word, detail::Words::current, row))
      lines.refuse(lines.place(word) + unread->at, unread->expected);
  }
  return row;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Schedule& schedule) {
  out << "schedule " << weft::detail::printable(schedule.name) << "\nmicrobatches " << schedule.microbatches
      << "\nplacement";
  for (const int device : schedule.device_of) out << ' ' << device;
  out << '\n';
  for (std::size_t device = 0; device < schedule.rows.size(); ++device) {
    const std::span<const Action> row = schedule.rows[device];
    out << "device " << device << ':';
    for (std::size_t entry = 0; entry < row.size();) {
      const std::size_t together = detail::written_together(row, entry);
      detail::write_actions(out << ' ', row.subspan(entry, together));
      entry += together;
    }
    out << '\n';
  }
  return out;
}

Schedule parse_schedule(std::string_view text) {
  Lines lines(text);
  Schedule schedule;
  lines.next("schedule");
  schedule.name = lines.rest();
  lines.next("microbatches");
  schedule.microbatches = lines.number("how many microbatches");
  lines.end();
  lines.next("placement");
  for (std::string_view next = lines.word(); !next.empty(); next = lines.word()) {
    std::string_view left = next;
    const auto device = detail::take_number(left);
    if (!device || !left.empty()) lines.refuse(lines.place(next), "a device's number");
    schedule.device_of.push_back(*device);
  }
  while (lines.more()) {
    lines.next("device");
    const std::string next = weft::text(schedule.rows.size(), ":");
    const std::string_view number = lines.word();
    if (number != next) lines.refuse(lines.place(number), weft::text("'", next, "'"));
    schedule.rows.push_back(row_of(lines));
  }
  return schedule;
}

}  // namespace weft::pipeline
