#include "weft-report/nccl/phrases.hpp"

#include <deque>

#include "weft/core/error.hpp"

namespace weft::report::nccl {

PhraseSet::PhraseSet(const std::vector<std::string_view>& phrases) {
  for (std::size_t i = 0; i < phrases.size(); ++i) add(phrases[i], static_cast<std::uint16_t>(i));
  link();
  mark_ends();
}

void PhraseSet::add(std::string_view phrase, std::uint16_t index) {
  if (phrase.empty()) throw Error(ErrorKind::internal, text("phrase ", index, " is empty"));
  std::size_t at = 0;
  for (const char c : phrase) {
    const std::size_t entry = at * bytes + static_cast<unsigned char>(c);
    if (next_[entry] == 0) {
      if (phrases_.size() > state_bits)
        throw Error(ErrorKind::internal,
                    text("the phrases have more than ", state_bits, " different beginnings"));
      next_[entry] = static_cast<std::uint16_t>(phrases_.size());
      next_.resize(next_.size() + bytes);
      phrases_.emplace_back();
    }
    at = next_[entry];
  }
  phrases_[at].push_back(index);
}

void PhraseSet::link() {
  std::vector<std::uint16_t> suffix(phrases_.size(), 0);
  std::deque<std::size_t> waiting{0};
  while (!waiting.empty()) {
    const std::size_t at = waiting.front();
    waiting.pop_front();
    const std::vector<std::uint16_t>& shorter = phrases_[suffix[at]];
    if (at != 0) phrases_[at].insert(phrases_[at].end(), shorter.begin(), shorter.end());
    for (std::size_t c = 0; c < bytes; ++c) {
      const std::uint16_t child = next_[at * bytes + c];
      const std::uint16_t otherwise = at == 0 ? std::uint16_t{0} : next_[suffix[at] * bytes + c];
      if (child == 0) {
        next_[at * bytes + c] = otherwise;
      } else {
        suffix[child] = otherwise;
        waiting.push_back(child);
      }
    }
  }
}

void PhraseSet::mark_ends() {
  for (std::uint16_t& entry : next_) {
    if (!phrases_[entry].empty()) entry = static_cast<std::uint16_t>(entry | ends_phrase);
  }
}

}  // namespace weft::report::nccl
