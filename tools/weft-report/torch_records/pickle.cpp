// Reads the instructions of a pickle, as Python's pickletools.py documents them. Nothing is executed: an instruction that would import,
// call or build something is refused by its name.

#include <bit>
#include <charconv>
#include <unordered_map>

#include "core/base/number.hpp"
#include "weft-report/torch_records/literals.hpp"
#include "weft-report/torch_records/values.hpp"
#include "weft/core/error.hpp"

namespace weft::report::torch_records {
namespace {

using Place = std::uint32_t;
using enum Value::Kind;

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  ValueTree read() {
    while (!stopped_) {
      begin_ = at_;
      const auto code = static_cast<unsigned char>(take(1)[0]);
      if (!framing(code) && !scalar(code) && !text_scalar(code) && !string_value(code) && !collection(code) &&
          !memory(code))
        refuse_code(code);
    }
    if (stack_.size() != 1 || !marks_.empty())
      refuse(text("ends with ", stack_.size(), " values in place of one"));
    tree_.set_root(stack_[0]);
    return std::move(tree_);
  }

 private:
  // What is there to take.

  [[noreturn]] void refuse(const std::string& problem) const {
    throw Error(ErrorKind::usage, text("the pickle ", problem, ", at byte ", begin_),
                "copy the file again, as binary; PyTorch writes plain values only");
  }
  [[noreturn]] void refuse_code(unsigned char code) const {
    struct Refused {
      unsigned char code;
      const char* name;
    };
    static constexpr Refused table[] = {
        {'c', "GLOBAL"},      {'R', "REDUCE"},       {'b', "BUILD"},           {'i', "INST"},
        {'o', "OBJ"},         {0x81, "NEWOBJ"},      {0x92, "NEWOBJ_EX"},      {0x93, "STACK_GLOBAL"},
        {0x82, "EXT1"},       {0x83, "EXT2"},        {0x84, "EXT4"},           {'P', "PERSID"},
        {'Q', "BINPERSID"},   {0x8f, "EMPTY_SET"},   {0x90, "ADDITEMS"},       {0x91, "FROZENSET"},
        {0x96, "BYTEARRAY8"}, {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"}};
    for (const Refused& one : table) {
      if (one.code == code)
        refuse(text("has the instruction ", one.name, ", which makes objects: nothing of it is executed"));
    }
    refuse(text("has the unknown instruction ", static_cast<int>(code)));
  }

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) refuse("ends early");
    const std::string_view part = bytes_.substr(at_, static_cast<std::size_t>(count));
    at_ += static_cast<std::size_t>(count);
    return part;
  }
  /// A number of so many bytes, the lowest first.
  std::uint64_t number(std::size_t width) {
    std::uint64_t value = 0;
    const std::string_view part = take(width);
    for (std::size_t i = 0; i < width; ++i)
      value |= std::uint64_t{static_cast<unsigned char>(part[i])} << (8 * i);
    return value;
  }
  std::string_view line() {
    const auto end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) refuse("ends early");
    const std::string_view part = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return part;
  }

  // What is made of it.

  void push(Value value) { stack_.push_back(tree_.add(std::move(value))); }
  Place pop() {
    if (stack_.size() <= floor()) refuse("takes a value that is not there");
    const Place place = stack_.back();
    stack_.pop_back();
    return place;
  }
  /// Values above the last mark are those of the collection that it begins.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  std::vector<Place> pop_to_mark() {
    if (marks_.empty()) refuse("ends a collection that did not begin");
    const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Place> items(from, stack_.end());
    stack_.erase(from, stack_.end());
    marks_.pop_back();
    return items;
  }
  Value& top(Value::Kind kind) {
    if (stack_.size() <= floor()) refuse("takes a value that is not there");
    Value& value = tree_.at(stack_.back());
    if (value.kind != kind) refuse(text("adds to ", name(value.kind), " as if it were ", name(kind)));
    return value;
  }
  void append(Value::Kind kind, const std::vector<Place>& items) {
    if (kind == dictionary && items.size() % 2 != 0) refuse("has a key without a value");
    std::vector<Place>& all = top(kind).items;
    all.insert(all.end(), items.begin(), items.end());
  }
  void push_collection(Value::Kind kind, std::vector<Place> items) {
    push({.kind = kind});
    append(kind, items);
  }
  void push_last(std::size_t count) {
    std::vector<Place> items(count);
    for (std::size_t i = count; i > 0; --i) items[i - 1] = pop();
    push_collection(list, std::move(items));
  }
  void push_integer(std::int64_t value) { push({.kind = integer, .integer = value}); }

  bool framing(unsigned char code) {
    switch (code) {
      case 0x80:
        if (const std::uint64_t protocol = number(1); protocol > 5)
          refuse(text("is of protocol ", protocol, "; 0 to 5 are known"));
        return true;
      case 0x95:  // a frame: its bytes are to be there
        if (number(8) > bytes_.size() - at_) refuse("ends early");
        return true;
      case '.':
        stopped_ = true;
        return true;
      default:
        return false;
    }
  }

  bool scalar(unsigned char code) {
    switch (code) {
      case 'N':
        push({});
        return true;
      case 0x88:
      case 0x89:
        push({.kind = boolean, .integer = code == 0x88 ? 1 : 0});
        return true;
      case 'J':
        push_integer(static_cast<std::int32_t>(static_cast<std::uint32_t>(number(4))));
        return true;
      case 'K':
      case 'M':
        push_integer(static_cast<std::int64_t>(number(code == 'K' ? 1 : 2)));
        return true;
      case 0x8a:
      case 0x8b:
        push_long(number(code == 0x8a ? 1 : 4));
        return true;
      case 'G':
        push_real();
        return true;
      default:
        return false;
    }
  }
  void push_long(std::uint64_t width) {
    const auto value = whole_number(take(width));
    if (!value) refuse("has a whole number of more than 64 bits");
    push_integer(*value);
  }
  void push_real() {
    std::uint64_t bits = 0;
    for (const char byte : take(8)) bits = bits << 8U | static_cast<unsigned char>(byte);
    push({.kind = real, .real = std::bit_cast<double>(bits)});
  }

  /// Numbers as protocol 0 writes them.
  bool text_scalar(unsigned char code) {
    if (code != 'I' && code != 'L' && code != 'F') return false;
    std::string_view digits = line();
    if (code == 'I' && (digits == "00" || digits == "01")) {
      push({.kind = boolean, .integer = digits == "01" ? 1 : 0});
      return true;
    }
    if (code == 'L' && digits.ends_with('L')) digits.remove_suffix(1);
    const char* const end = digits.data() + digits.size();
    std::int64_t whole = 0;
    double fraction = 0;
    const auto read = code == 'F' ? std::from_chars(digits.data(), end, fraction)
                                  : std::from_chars(digits.data(), end, whole);
    if (read.ec != std::errc() || read.ptr != end) refuse("has a number that cannot be read");
    push(code == 'F' ? Value{.kind = real, .real = fraction} : Value{.kind = integer, .integer = whole});
    return true;
  }

  bool string_value(unsigned char code) {
    switch (code) {
      case 'X':
      case 'T':
      case 'B':
        return push_string(number(4));
      case 0x8c:
      case 'U':
      case 'C':
        return push_string(number(1));
      case 0x8d:
      case 0x8e:
        return push_string(number(8));
      case 'V':
        return push_escaped(line());
      case 'S': {
        std::string_view quoted = line();
        if (quoted.size() < 2 || quoted.front() != quoted.back() ||
            (quoted.front() != '\'' && quoted.front() != '"'))
          refuse("has a string without quotes");
        return push_escaped(quoted.substr(1, quoted.size() - 2));
      }
      default:
        return false;
    }
  }
  bool push_string(std::uint64_t length) {
    push({.kind = string, .string = take(length)});
    return true;
  }
  bool push_escaped(std::string_view raw) {
    auto words = unescaped(raw);
    if (!words) refuse("has a string with a broken escape");
    push({.kind = string, .string = tree_.keep(std::move(*words))});
    return true;
  }

  bool collection(unsigned char code) {
    switch (code) {
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case ']':
      case ')':
        push({.kind = list});
        return true;
      case '}':
        push({.kind = dictionary});
        return true;
      case 'l':
      case 't':
        push_collection(list, pop_to_mark());
        return true;
      case 'd':
        push_collection(dictionary, pop_to_mark());
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        push_last(code - 0x84U);
        return true;
      case 'a':
        append(list, {pop()});
        return true;
      case 'e':
        append(list, pop_to_mark());
        return true;
      case 's': {
        const Place value = pop();
        append(dictionary, {pop(), value});
        return true;
      }
      case 'u':
        append(dictionary, pop_to_mark());
        return true;
      default:
        return false;
    }
  }

  bool memory(unsigned char code) {
    switch (code) {
      case '0':
        (void)pop();
        return true;
      case '1':
        (void)pop_to_mark();
        return true;
      case '2':
        stack_.push_back(peek());
        return true;
      case 0x94:
        memo_[memo_.size()] = peek();
        return true;
      case 'p':
        memo_[line_number()] = peek();
        return true;
      case 'q':
        memo_[number(1)] = peek();
        return true;
      case 'r':
        memo_[number(4)] = peek();
        return true;
      case 'g':
        return push_known(line_number());
      case 'h':
        return push_known(number(1));
      case 'j':
        return push_known(number(4));
      default:
        return false;
    }
  }
  Place peek() const {
    if (stack_.size() <= floor()) refuse("takes a value that is not there");
    return stack_.back();
  }
  std::uint64_t line_number() {
    const auto value = detail::number_of<std::uint64_t>(line());
    if (!value) refuse("has a number that cannot be read");
    return *value;
  }
  bool push_known(std::uint64_t key) {
    const auto known = memo_.find(key);
    if (known == memo_.end()) refuse(text("names value ", key, ", which it has not kept"));
    stack_.push_back(known->second);
    return true;
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::size_t begin_ = 0;  // of the instruction
  bool stopped_ = false;
  ValueTree tree_;
  std::vector<Place> stack_;
  std::vector<std::size_t> marks_;  // sizes of the stack
  std::unordered_map<std::uint64_t, Place> memo_;
};

}  // namespace

ValueTree read_pickle(std::string_view bytes) {
  return Reader(bytes).read();
}

}  // namespace weft::report::torch_records
