#pragma once
// Finds which of many phrases stand in a line, in one pass over its bytes (the automaton of Aho and Corasick). A log of 1,024 ranks has
// some ten million lines; a search for each phrase in each line would take minutes.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace weft::report::nccl {

class PhraseSet {
 public:
  /// @param phrases none empty; a phrase may stand there twice, and both are found
  explicit PhraseSet(const std::vector<std::string_view>& phrases);

  /// Calls `found(index of the phrase)` for every occurrence, by where it ends.
  template <class Found>
  void scan(std::string_view line, Found&& found) const {
    const std::uint16_t* const next = next_.data();
    std::uint32_t at = 0;
    for (const char c : line) {
      const std::uint32_t entry = next[at * bytes + static_cast<unsigned char>(c)];
      at = entry & state_bits;
      if (entry != at) [[unlikely]] {
        for (const std::uint16_t phrase : phrases_[at]) found(phrase);
      }
    }
  }

 private:
  static constexpr std::size_t bytes = 256;
  static constexpr std::uint16_t state_bits = 0x7fff;
  static constexpr std::uint16_t ends_phrase =
      0x8000;  ///< of an entry: a phrase ends in the state it leads to

  void add(std::string_view phrase, std::uint16_t index);
  /// Makes the tree of phrases an automaton: a byte that leads nowhere leads to where the longest suffix leads.
  void link();
  void mark_ends();

  std::vector<std::uint16_t> next_ = std::vector<std::uint16_t>(bytes);  ///< by state and byte
  std::vector<std::vector<std::uint16_t>> phrases_{1};                   ///< that end in each state
};

}  // namespace weft::report::nccl
