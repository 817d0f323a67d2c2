#pragma once
// What launchers and log collectors put before each line that a tool prints: "[1,3]<stdout>:", "node1: ", "2026-01-01T10:00:00Z stdout F ".
// Lines of several hosts may be mixed; those of one of them have the same tag, but for time stamps.
//
//   const Tag tag("node1: ");
//   std::string_view line = "node1:   port:  1";
//   if (tag.strip(line)) ...                       // line is "   port:  1"

#include <string>
#include <string_view>

namespace weft::report::topology {

class Tag {
 public:
  explicit Tag(std::string_view words);
  /// Removes the tag. @return false: the line has another one
  bool strip(std::string_view& line) const;
  /// The host that pdsh, clush and the like name: "node1: ". Empty: none.
  std::string host() const;
  friend bool operator==(const Tag&, const Tag&) = default;

 private:
  std::string words_;
};

}  // namespace weft::report::topology
