#pragma once
// The hosts of a job over its starts: which are lost, and how many ranks the remaining ones take. A value: it contacts no
// host.

#include <set>
#include <string>
#include <vector>

#include "hosts.hpp"

namespace weft::launch {

class Membership {
 public:
  /// Hosts of a file without slots have as many as share_ranks() gives them.
  /// @param ranks as for share_ranks(), which says what is thrown
  Membership(std::vector<Host> hosts, int ranks);

  /// Ranks when every host is there.
  int most() const { return most_; }
  /// Ranks that the hosts take that are there.
  int ranks() const;
  /// The hosts that are not lost, with slots, in the order of the file.
  std::vector<Host> present() const;
  const std::set<std::string>& lost() const { return lost_; }
  void lose(const std::string& host) { lost_.insert(host); }
  void regain(const std::string& host) { lost_.erase(host); }

 private:
  std::vector<Host> hosts_;
  int most_ = 0;
  std::set<std::string> lost_;
};

/// "3 ranks on a, b; without c".
std::string words_of(const Membership& members);

}  // namespace weft::launch
