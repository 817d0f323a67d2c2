#pragma once
// DeepSpeed's keys: what each may be, what it is where the file leaves it out, and what it does in weft. One table, keys.cpp, says all; the
// reader, --explain and docs/deepspeed.md follow it.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::detail {

/// What a value may be.
enum class KeyType {
  boolean,
  integer,
  number,
  string,
  word,     ///< one of Key::words
  list,     ///< of strings
  pair,     ///< of two numbers
  any,      ///< what it holds is not looked at
  section,  ///< an object with keys of its own
};

enum class KeyEffect {
  sets,     ///< weft follows it
  differs,  ///< weft follows it in its own way: a notice says how, where the file has it
  none,     ///< does nothing: named where the file has it
  always,   ///< weft always does what Key::same says: another value is named
  only,     ///< another value than Key::same is refused, for weft would train otherwise
  removed,  ///< DeepSpeed and weft refuse it
};

struct Key {
  std::string_view path;  ///< "zero_optimization.stage"
  KeyType type = KeyType::section;
  std::string allowed;         ///< in words, for errors: "a whole number from 0 to 3"
  double least = 0, most = 0;  ///< of numbers; both are allowed
  std::vector<std::string_view> words;
  std::string
      fallback;  ///< DeepSpeed's default, as JSON; of a section "null" where it is optional, otherwise ""
  KeyEffect effect = KeyEffect::sets;
  std::string same;          ///< as JSON
  std::string_view in_weft;  ///< what it does there

  /// The path without its last name; "" at the top.
  std::string_view section() const;
};

/// The table's text: "key | what it may be | default | effect | in weft" a line, and "key | section".
std::span<const std::string_view> key_tables();

/// In the order of the page.
const std::vector<Key>& deepspeed_keys();
const Key* find_key(std::string_view path);

/// Another name of a key; `deprecated` says why and what comes of it, and is empty for a name that is as good.
struct OtherName {
  std::string_view path, means, deprecated;
};
std::span<const OtherName> other_names();

/// Sections that DeepSpeed checks as weft does: there "auto" is the default, and "true" is true.
bool is_checked_section(std::string_view section);

/// All names that a section may have, keys and their other names.
std::vector<std::string_view> names_in(std::string_view section);

}  // namespace weft::detail
