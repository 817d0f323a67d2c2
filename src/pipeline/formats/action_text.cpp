#include "pipeline/formats/action_text.hpp"

#include <charconv>

namespace weft::pipeline::detail {
namespace {

constexpr std::string_view overlapped = ")OVERLAP_F_B";
constexpr std::string_view waits = "WAIT_";

bool is_letter(char c) {
  return (c >= 'A' && c <= 'Z') || c == '_';
}

std::optional<ActionType> type_named(std::string_view word, Words words) {
  if (words == Words::before_october_2024) {
    if (word == "BW") return ActionType::backward;
    if (word == "B") return ActionType::backward_input;
    if (word == "I") return std::nullopt;
  }
  for (int type = 0; type < action_types; ++type) {
    if (name(static_cast<ActionType>(type)) == word) return static_cast<ActionType>(type);
  }
  return std::nullopt;
}

/// Goes through a text once and remembers the first fault.
class Reader {
 public:
  Reader(std::string_view text, Words words) : text_(text), rest_(text), words_(words) {}

  std::optional<Unread> read(std::vector<Action>& to) {
    if (rest_.starts_with('(') ? several(to) : one(to)) {
      if (rest_.empty()) return std::nullopt;
      expect("nothing more");
    }
    return wrong_;
  }

 private:
  bool expect(std::string what) {
    wrong_ = Unread{text_.size() - rest_.size(), std::move(what)};
    return false;
  }

  bool several(std::vector<Action>& to) {
    do {
      rest_.remove_prefix(1);
      if (!one(to)) return false;
      to.back().overlaps_next = rest_.starts_with(';');
    } while (rest_.starts_with(';'));
    if (text_.find(';') == std::string_view::npos) return expect("';' and what overlaps with it");
    if (!rest_.starts_with(overlapped)) return expect(std::string(overlapped));
    rest_.remove_prefix(overlapped.size());
    return true;
  }

  bool one(std::vector<Action>& to) {
    Action action;
    const auto stage = take_number(rest_);
    if (!stage) return expect("a stage's number");
    action.stage = *stage;
    if (!type(action)) return false;
    if (is_of_microbatch(action.type)) {
      const auto microbatch = take_number(rest_);
      if (!microbatch) return expect("a microbatch's number");
      action.microbatch = *microbatch;
    }
    to.push_back(action);
    return true;
  }

  bool type(Action& action) {
    std::size_t length = 0;
    while (length < rest_.size() && is_letter(rest_[length])) ++length;
    std::string_view word = rest_.substr(0, length);
    action.awaits = word.starts_with(waits);
    if (action.awaits) word.remove_prefix(waits.size());
    const auto found = type_named(word, words_);
    if (!found || (action.awaits && stream_of(*found) == ActionStream::compute))
      return expect("an action such as F, B, I, W, SEND_F or WAIT_RECV_F");
    action.type = *found;
    rest_.remove_prefix(length);
    return true;
  }

  std::string_view text_, rest_;
  Words words_;
  Unread wrong_;
};

}  // namespace

std::optional<std::int32_t> take_number(std::string_view& text) {
  std::int32_t value = 0;
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

std::optional<Unread> read_actions(std::string_view text, Words words, std::vector<Action>& to) {
  return Reader(text, words).read(to);
}

std::size_t written_together(std::span<const Action> row, std::size_t entry) {
  std::size_t count = 1;
  while (entry + count < row.size() && row[entry + count - 1].overlaps_next) ++count;
  return count;
}

void write_actions(std::ostream& out, std::span<const Action> together) {
  if (together.size() == 1 && !together[0].overlaps_next) {
    out << together[0];
    return;
  }
  for (std::size_t i = 0; i < together.size(); ++i) out << (i == 0 ? '(' : ';') << together[i];
  out << overlapped;
}

bool has_word(const Action& action, CsvFormat format) {
  if (is_compute(action.type)) return true;
  return format == CsvFormat::compute_comms && !action.awaits && action.type != ActionType::recompute &&
         action.type != ActionType::offload && action.type != ActionType::load;
}

}  // namespace weft::pipeline::detail
