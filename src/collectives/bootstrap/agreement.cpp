#include "collectives/bootstrap/agreement.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>

#include "core/base/fnv.hpp"
#include "weft/core/error.hpp"
#include "weft/core/version.hpp"

namespace weft::detail {
namespace {

/// The line of a note that has this name, without the name; "nothing" where there is none.
std::string value_of(const std::string& note, const std::string& name) {
  const std::string begin = "\n" + name + "=";
  const std::size_t found = note.find(begin);
  if (found == std::string::npos) return "nothing";
  const std::size_t value = found + begin.size();
  return note.substr(value, note.find('\n', value) - value);
}

}  // namespace

Build& Build::mine() {
  static Build build{WEFT_VERSION, 10};
  return build;
}

std::string Facts::note() const {
  std::string note = "\n";
  for (const auto& [name, value] : lines_) {
    std::string one_line = value;
    std::ranges::replace(one_line, '\n', ' ');
    note += text(name, "=", one_line, "\n");
  }
  return note;
}

std::string Facts::digest() const {
  const std::uint64_t hash = Fnv().add(note()).value();  // against accidents; the store keeps strangers out
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

void Facts::expect_equal(const std::vector<std::string>& digests, Rendezvous& rendezvous,
                         Deadline deadline) const {
  const auto other = std::ranges::adjacent_find(digests, std::not_equal_to());
  if (other == digests.end()) return;
  const auto notes = rendezvous.all_gather(note(), "connect: what differs", deadline);
  const auto differs = [&](std::size_t rank, const std::string& name) {
    return value_of(notes[rank], name) != value_of(notes[0], name);
  };
  for (std::size_t rank = 1; rank < notes.size(); ++rank) {
    for (const auto& [name, value] : lines_) {
      if (!differs(rank, name)) continue;
      throw Error(ErrorKind::mismatch,
                  text("rank ", rank, " has ", name, "=", value_of(notes[rank], name), ", rank 0 has ", name,
                       "=", value_of(notes[0], name)),
                  "give all ranks of a job the same build of weft and the same options",
                  {rendezvous.rank(), "connect", 0});
    }
  }
  throw Error(ErrorKind::mismatch, "the ranks have different builds of weft",
              "run the same build of weft on every rank", {rendezvous.rank(), "connect", 0});
}

}  // namespace weft::detail
