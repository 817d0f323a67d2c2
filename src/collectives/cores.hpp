#pragma once
// The processors that a rank may run on, as ranks of a node tell each other: whether there is one for each.

#include <sched.h>

#include <string>

namespace weft::detail {

class Cores {
 public:
  /// Of the calling thread; none where the system does not say.
  static Cores of_this_thread();
  /// "3f": the processors as a hexadecimal number, the first one last.
  std::string note() const;
  /// @throws Error (internal) when it is none
  static Cores from(const std::string& note);

  void add(const Cores& others) { CPU_OR(&set_, &set_, &others.set_); }
  int count() const { return CPU_COUNT(&set_); }

 private:
  Cores() { CPU_ZERO(&set_); }
  cpu_set_t set_;
};

}  // namespace weft::detail
