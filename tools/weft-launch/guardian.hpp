#pragma once
// A process that clears away what weft-launch leaves when something kills it: the process groups of
// the ranks, with all that the ranks started, and the folder of the job.
//
// It sees the death of weft-launch by the end of a socket that both hold, so it notices any kind of death
// at once. It has its own session, so that signals for the job do not reach it. A process that a rank moved
// into another process group is not found. If another process has got the number of a rank that ended, that
// process is left alone.
//
//   Guardian guardian(folder);    // before the first rank, from the only thread; the folder is its own from now on
//   guardian.watch(getpid());     // in the rank, between fork and exec, so that nothing is started before
//   guardian.release(group);      // in weft-launch, before the number of a rank that ended can be another's
//                                 // its destructor waits until the process has ended, and removes the folder

#include <sys/types.h>

#include <string>

namespace weft::launch {

class Guardian {
 public:
  /// @throws Error (system) if no process can be started; the folder is gone then
  explicit Guardian(std::string folder);
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  void watch(pid_t group) const { tell({group, true}); }
  void release(pid_t group) const { tell({group, false}); }

 private:
  struct Notice {
    pid_t group;
    bool is_there;
  };

  void tell(const Notice& notice) const;
  [[noreturn]] void guard(int socket) const;

  const std::string folder_;
  int socket_ = -1;
  pid_t process_ = -1;
};

}  // namespace weft::launch
