#pragma once
// What a thread does besides while it waits: a program in which weft is embedded may have to be asked whether the wait is to end.
//
// An interpreter runs its signal handlers between two instructions of the program, in one thread; a call of weft that waits there would hold them up
// until its deadline. So a thread may be given a function, which waits of that thread call whenever they have rested. What it throws
// ends the wait as an error of the wait's own would. Other threads pay a look at a variable of theirs.

#include <utility>

namespace weft::detail {

class Interruption {
 public:
  using Look = void (*)();
  /// For this thread; null: none. @returns the one before
  static Look set(Look look) { return std::exchange(of_thread, look); }
  /// For waits that may throw, between two rests.
  static void look() {
    if (of_thread != nullptr) of_thread();
  }

 private:
  inline static thread_local Look of_thread = nullptr;
};

}  // namespace weft::detail
