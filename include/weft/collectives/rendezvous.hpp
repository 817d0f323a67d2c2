#pragma once
// A rendezvous: how ranks find each other. It has one operation, which setting up a communicator needs, over
// a file, TCP or MPI.
//
// `all_gather` hands every rank's note to all ranks, waits until a deadline, and names the ranks that did not
// come. It is collective: every rank of the rendezvous calls it equally often, one call at a time. Notes are
// small (addresses, names); data goes through a Communicator.
//
//   std::vector<std::string> notes = rendezvous->all_gather(my_address, "connect", Deadline::in(30s));

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/collectives/store.hpp"
#include "weft/core/deadline.hpp"
#include "weft/core/error.hpp"

namespace weft {

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  Rendezvous() = default;
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// @param purpose what the ranks meet for; named in the error
  /// @returns the notes by rank. @throws Error (timeout) naming the ranks that are missing at the deadline
  virtual std::vector<std::string> all_gather(const std::string& note, const std::string& purpose,
                                              Deadline deadline) = 0;

  /// A rendezvous of some of the ranks, in the order of `members` (ranks of this one, this rank among them).
  /// All ranks of this rendezvous call it at the same time, each with the group it belongs to.
  virtual std::shared_ptr<Rendezvous> split(const std::vector<int>& members) = 0;

  /// This rank comes no more, by an error: who waits for it in the next all_gather, or looks at called_off(), hears why
  /// instead of missing it. The first rank's word holds. connect() does it. Does not throw.
  virtual void call_off(const Error& /*why*/) noexcept {}
  /// Between two calls of all_gather, by any thread: why there will be no next one, as far as that is known by now. A rank
  /// has called off, or has ended. @throws Error when rank 0 cannot be asked
  virtual std::optional<Error> called_off() { return std::nullopt; }
};

/// Meets on a Store. `name` keeps several rendezvous on one store apart.
std::shared_ptr<Rendezvous> make_store_rendezvous(std::shared_ptr<Store> store, std::string name, int rank,
                                                  int size);

}  // namespace weft
