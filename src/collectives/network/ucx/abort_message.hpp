#pragma once
// What a thread says if abort() ends the process in a call of UCX: UCX 1.13 has assertions on its way to connect, and ends the process where
// one fails. Without this nothing would say which rank it was, and whom it called.
//
// While one lives SIGABRT has a handler of weft's. It writes the line of the thread that aborts to standard error, and calls the handler that the
// program had. The last one that ends puts the program's own back.

#include <array>
#include <atomic>
#include <string>

namespace weft::detail {

class AbortMessage {
 public:
  /// For this thread, which says nothing until say(). Of many threads at once the first 64 are heard.
  AbortMessage();
  ~AbortMessage();
  AbortMessage(const AbortMessage&) = delete;
  AbortMessage& operator=(const AbortMessage&) = delete;

  /// @param line without its end; empty: nothing again
  void say(std::string line);

  struct Place;  ///< where the handler finds it

 private:
  Place* place_ = nullptr;
  std::array<std::string, 2> lines_;  ///< the one that the handler sees, and the one before
};

}  // namespace weft::detail
