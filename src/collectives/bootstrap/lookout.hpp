#pragma once
// While a transport connects ranks: looks whether one of them has ended or has called off, for the transport may never hear of it, or
// would wait for it until the deadline, and then name ranks that only waited for it, too.
//
// It costs nothing where ranks connect within a moment. Then a thread asks the rendezvous, for an answer of rank 0 may take seconds.

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "weft/collectives/rendezvous.hpp"
#include "weft/core/deadline.hpp"

namespace weft::detail {

class Lookout {
 public:
  /// @param rendezvous not used otherwise meanwhile
  explicit Lookout(Rendezvous& rendezvous) : rendezvous_(rendezvous) {}
  ~Lookout();
  Lookout(const Lookout&) = delete;
  Lookout& operator=(const Lookout&) = delete;

  /// To be called again and again. @throws Error (peer_lost) with what was found
  void check();

 private:
  void ask();

  Rendezvous& rendezvous_;
  const Deadline moment_ = Deadline::in(std::chrono::milliseconds(200));
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::optional<Error> found_;
  std::thread thread_;
};

}  // namespace weft::detail
