#pragma once
// Notices that machines will be taken away, from outside: an HTTP request, and a file. Each becomes a SIGUSR1 of weft-launch, as if it had
// been sent to it. A process of its own listens, so that what strangers send is never read where the ranks are watched.
//
//   const Notices notices({.address = "127.0.0.1:9402", .file = "/etc/podinfo/evicted", .token = job_token(environment)});
//
// POST /notice is answered with 202 when the signal is sent. Who has the job's token proves it; without a token the address must be a
// loopback one. A request has 5 s and 4 KiB; of 32 connections the oldest is closed for another.

#include <sys/types.h>

#include <optional>
#include <string>

namespace weft::launch {

struct NoticeOptions {
  std::optional<std::string> address{};  ///< PORT (of 127.0.0.1), or ADDRESS:PORT with a numeric address
  std::optional<std::string> file{};     ///< its coming, or a change of it, is a notice
  std::string token{};                   ///< the job's; empty: none

  bool any() const { return address || file; }
};

class Notices {
 public:
  /// Before the first rank is started, after Signals. @throws Error (usage) where it cannot listen there, or must not without a token
  explicit Notices(const NoticeOptions& options);
  ~Notices();
  Notices(const Notices&) = delete;
  Notices& operator=(const Notices&) = delete;

 private:
  pid_t process_ = -1;  // none where nothing is to be heard
};

}  // namespace weft::launch
