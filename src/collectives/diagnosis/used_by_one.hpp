#pragma once
// An object of a communicator that one thread uses at a time (core/streams/one_thread.hpp): where two meet in it, the other
// ranks are told, too, because this one does not go on.
//
//   const auto turn = users_.enter("mark_ready");     // first in each public call

#include "core/streams/one_thread.hpp"
#include "weft/collectives/communicator.hpp"

namespace weft::detail {

class UsedByOne {
 public:
  /// @param object its public name, of static storage
  UsedByOne(const char* object, Communicator comm) : object_(object), comm_(std::move(comm)) {}

  /// @param call of static storage @throws Error (usage), also on the other ranks, while another thread is in a call
  OneThread::Turn enter(const char* call) {
    try {
      return users_.enter(object_, call);
    } catch (const Error& error) {
      const Error here = error.in({comm_.rank(), call});
      comm_.give_up(here);
      throw here;
    }
  }

 private:
  const char* object_;
  Communicator comm_;
  OneThread users_;
};

}  // namespace weft::detail
