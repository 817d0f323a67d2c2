#pragma once
// Issues a rank's device operations in order, and watches over those that the device has not finished.
//
// NCCL's kernels wait for other ranks without a deadline and say nothing of who is missing; its calls may do so, too (at the first use of
// a connection). So each operation is in flight from its call until its stream has passed it, and a thread looks at those every 20 ms: has
// NCCL met an error, has a rank died, do ranks disagree on what this is, has it waited too long since the
// stream got there? The first that is so ends all: their work is void from its beginning on, NCCL is revoked
// or aborted (which ends its kernels, and a call that waits), and the other ranks of the node are told.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "collectives/backend/backend.hpp"
#include "collectives/nccl/nccl_communicator.hpp"
#include "core/streams/cuda_stream.hpp"
#include "weft/core/buffer.hpp"

namespace weft::detail::nccl {

/// What is said of an operation.
struct Description {
  std::string label;
  std::uint64_t number = 0;
  std::optional<Operation> collective{};  ///< what all ranks issue under that number
  std::chrono::nanoseconds timeout{};     ///< 0: the issuer's
};

/// Names the rank behind an error of NCCL. NCCL notices a closed connection before weft knows which rank is gone, and does not report the rank.
/// @returns who is gone, if that becomes known within a second; else `error`. @param status may be null
Error who_is_gone(PeerStatus* status, const Error& error);

class Issuer {
 public:
  /// @param host where ranks hear of each other
  Issuer(std::unique_ptr<Communicator> comm, std::shared_ptr<Backend> host, std::chrono::nanoseconds timeout);
  /// Waits for what is in flight, to its end or its deadline; gives up while an exception is unwinding.
  ~Issuer();
  Issuer(const Issuer&) = delete;
  Issuer& operator=(const Issuer&) = delete;

  int rank() const { return comm_->rank(); }
  int size() const { return comm_->size(); }
  const std::shared_ptr<const Api>& api() const { return comm_->api(); }

  /// Hands `call(api, comm, stream)` over to the timeline's stream, and what `then(stream)` adds to it.
  /// @throws Error, as Communicator::call
  template <class Call, class Then>
  void issue(cuda::Timeline& timeline, const Description& what, Call call, Then then) {
    const std::lock_guard turn(calls_);
    announce(what);
    Ascent ascent(*this, {what, timeline.mark()});
    try {
      comm_->call(
          what.label.c_str(), [&](const Api& api, Comm* raw) { return call(api, raw, timeline.native()); },
          timeout_of(what));
    } catch (const Error& error) {
      throw error.in({rank(), what.label, what.number});
    }
    then(timeline.native());
    timeline.touch();
    ascent.handed_over(timeline.mark());
  }

  /// A call beside the data's path that waits for no other rank.
  template <class Call>
  void call(const char* operation, Call call) {
    const std::lock_guard turn(calls_);
    comm_->call(operation, call);
  }
  /// One that does, such as a registration. @param call owns what it reads and writes
  void call_apart(const char* operation, Communicator::OwningCall call);
  std::unique_ptr<Communicator> split(int color, int key, int rank, int size);
  void give_up(const Error& reason) noexcept;
  bool broken() const;
  /// Hears of what ends it, on the thread that finds it.
  void on_error(std::function<void(const Error&)> hear) {
    const std::lock_guard lock(mutex_);
    hear_ = std::move(hear);
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Point = std::shared_ptr<cuda::Timeline::Point>;

  struct Flight {
    Description what;
    Point begin;
    Point end{};                               // null while NCCL is called
    std::optional<Clock::time_point> began{};  // the stream was seen to have come to it
  };

  /// The newest flight, from its call to its being handed over; it ends where that fails.
  class Ascent {
   public:
    Ascent(Issuer& issuer, Flight flight);
    ~Ascent();
    Ascent(const Ascent&) = delete;
    Ascent& operator=(const Ascent&) = delete;
    void handed_over(Point end);

   private:
    Issuer& issuer_;
  };

  void announce(const Description& what);
  std::chrono::nanoseconds timeout_of(const Description& what) const {
    return what.timeout.count() > 0 ? what.timeout : timeout_;
  }
  void watch();
  void tell(std::unique_lock<std::mutex>& lock);
  std::optional<Error> look();
  void use_device();
  void look_for_the_lost() const;
  void check_deadline(Flight& flight) const;
  std::optional<Error> lost(const Description& what) const;
  void make_void(const Error& reason) noexcept;

  std::unique_ptr<Communicator> comm_;
  std::shared_ptr<Backend> host_;
  PeerStatus* peer_status_;
  const bool tells_;
  std::chrono::nanoseconds timeout_;
  std::mutex calls_;          // held while NCCL is called; taken before mutex_
  mutable std::mutex mutex_;  // of what follows; never held while NCCL is called
  std::condition_variable wake_;
  RecycledDeque<Flight> flights_;  // the last one may still be called
  std::optional<Clock::time_point> trouble_since_;
  std::function<void(const Error&)> hear_;
  bool idle_ = true;  // the watchdog sleeps until it is woken
  bool stopping_ = false;
  bool has_device_ = false;
  std::thread watchdog_;
};

/// Zeroed device memory that NCCL knows: no copies through its own buffers, and on NVLink its kernels read
/// and write peers directly. From NCCL's allocator and registered with the communicator, as a window from
/// NCCL 2.27 on, which makes this collective: every rank asks for the same, in the same order; before 2.19
/// plain device memory. The Buffer may outlive the communicator.
Buffer allocate(const std::shared_ptr<Issuer>& issuer, const std::shared_ptr<cuda::Runtime>& runtime,
                Device device, DataType dtype, std::int64_t count);
/// Memory of others, by this rank alone. @returns its registration
std::shared_ptr<const void> register_memory(const std::shared_ptr<Issuer>& issuer, View memory);

}  // namespace weft::detail::nccl
