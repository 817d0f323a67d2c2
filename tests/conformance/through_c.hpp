#pragma once
// The classes that the suite uses, over weft.h alone: within weft::test these names hide those of weft, so that every call of the suite goes
// through C. A status that is an error becomes an Error of that kind with the message that C has.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/collectives/algorithm.hpp"
#include "weft/collectives/reduce_op.hpp"
#include "weft/collectives/topology.hpp"
#include "weft/core/buffer.hpp"
#include "weft/core/deadline.hpp"
#include "weft/core/error.hpp"
#include "weft/core/stream.hpp"
#include "weft/weft.h"

namespace weft::test {

inline void check(weft_status_t status) {
  if (status == WEFT_OK) return;
  for (const ErrorKind kind : {ErrorKind::usage, ErrorKind::mismatch, ErrorKind::timeout,
                               ErrorKind::peer_lost, ErrorKind::system, ErrorKind::internal}) {
    std::string named = name(kind);
    if (named == weft_status_name(status)) throw Error(kind, weft_error());
  }
  throw Error(ErrorKind::internal, text("status ", status));
}
/// @param said what a function returned that has one value for errors
template <class Value>
Value checked(Value said, Value of_errors) {
  if (said == of_errors) check(weft_last_status());
  return said;
}

inline double seconds_of(Deadline deadline) {
  return deadline.end() == Deadline::Clock::time_point::max()
             ? WEFT_NO_DEADLINE
             : std::chrono::duration<double>(deadline.left()).count();
}

/// What std::function is in C: called once, and gone then.
inline void call_once(void* context) {
  const std::unique_ptr<std::function<void()>> function(static_cast<std::function<void()>*>(context));
  (*function)();
}

class Event {
 public:
  explicit Event(weft_event_t event) : event_(event, weft_event_free) {}
  weft_event_t handle() const { return event_.get(); }
  bool done() const { return checked(weft_event_done(handle()), -1) == 1; }
  void wait(Deadline deadline = Deadline::never()) const {
    check(weft_event_wait(handle(), seconds_of(deadline)));
  }

 private:
  std::shared_ptr<weft_event> event_;
};

class Stream {
 public:
  explicit Stream(Device device = {})
      : Stream(device.is_host() ? WEFT_HOST : device.index(), WEFT_STREAM_INLINE) {}
  static Stream queued() { return Stream(WEFT_HOST, WEFT_STREAM_QUEUED); }
  weft_stream_t handle() const { return stream_.get(); }
  bool poll() { return checked(weft_stream_poll(handle()), -1) == 1; }
  void wait(const Event& event) { check(weft_stream_wait(handle(), event.handle())); }
  Event record() const {
    weft_event_t event = nullptr;
    check(weft_stream_record(handle(), &event));
    return Event(event);
  }
  void submit(std::unique_ptr<Task> task) {
    tasks_->push_back(std::move(task));
    const auto advance = [](void* context) {
      return static_cast<Task*>(context)->advance() ? 0 : WEFT_AGAIN;
    };
    check(weft_stream_run(handle(), advance, tasks_->back().get()));
  }
  void synchronize(Deadline deadline = Deadline::never()) {
    check(weft_stream_synchronize(handle(), seconds_of(deadline)));
  }

 private:
  Stream(int device, weft_stream_kind_t kind) {
    weft_stream_t stream = nullptr;
    check(weft_stream_create(device, kind, &stream));
    stream_.reset(stream, weft_stream_free);
  }
  std::shared_ptr<std::vector<std::unique_ptr<Task>>> tasks_ =
      std::make_shared<std::vector<std::unique_ptr<Task>>>();  // end after the stream
  std::shared_ptr<weft_stream> stream_;
};

inline void copy(View to, ConstView from, const Stream& stream) {
  const auto number = [](Device device) { return device.is_host() ? WEFT_HOST : device.index(); };
  check(weft_stream_copy(stream.handle(), to.data(), number(to.device()), from.data(), number(from.device()),
                         to.count(), static_cast<int>(to.dtype())));
}

class Work {
 public:
  Work() = default;
  explicit Work(weft_work_t work) : work_(work, weft_work_free) {}
  bool done() const { return checked(weft_work_done(work_.get()), -1) == 1; }
  void wait(Deadline deadline = Deadline::never()) const {
    check(weft_work_wait(work_.get(), seconds_of(deadline)));
  }
  void then(std::function<void()> function) const {
    check(weft_work_then(work_.get(), call_once, new std::function<void()>(std::move(function))));
  }
  int source(std::size_t receive = 0) const { return checked(weft_work_source(work_.get(), receive), -1); }

 private:
  std::shared_ptr<weft_work> work_;
};

class Communicator {
 public:
  /// @param end what ends the handle; none where another owns it
  explicit Communicator(weft_comm_t comm, weft_status_t (*end)(weft_comm_t) = weft_comm_free)
      : comm_(comm, [end](weft_comm_t one) {
          if (end != nullptr) end(one);
        }) {
    std::vector<std::string> hosts;
    for (int rank = 0; rank < size(); ++rank) hosts.push_back(text("node", weft_comm_node_of(comm, rank)));
    topology_ = std::make_shared<const Topology>(hosts);
  }
  weft_comm_t handle() const { return comm_.get(); }
  int rank() const { return checked(weft_comm_rank(handle()), -1); }
  int size() const { return checked(weft_comm_size(handle()), -1); }
  const Topology& topology() const { return *topology_; }
  std::string backend() const { return weft_comm_backend(handle()); }
  Device device() const {
    const int number = checked(weft_comm_device(handle()), -2);
    return number == WEFT_HOST ? Device::host() : Device::cuda(number);
  }
  std::chrono::nanoseconds timeout() const {
    const double seconds = checked(weft_comm_timeout(handle()), -1.0);
    constexpr auto most = std::chrono::nanoseconds::max();
    if (seconds >= std::chrono::duration<double>(most).count()) return most;
    return std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
  }
  void timeout(std::chrono::nanoseconds duration) {
    check(weft_comm_set_timeout(handle(), std::chrono::duration<double>(duration).count()));
  }
  std::uint64_t wire_bytes() const {
    return static_cast<std::uint64_t>(checked<std::int64_t>(weft_comm_wire_bytes(handle()), -1));
  }
  std::string explain(Collective kind, DataType dtype, std::int64_t count,
                      ReduceOp op = ReduceOp::sum) const {
    std::string said;
    for (std::int64_t length = 0; length >= static_cast<std::int64_t>(said.size());) {
      said.resize(static_cast<std::size_t>(length) + 1);
      length =
          checked<std::int64_t>(weft_comm_explain(handle(), static_cast<int>(kind), static_cast<int>(dtype),
                                                  count, static_cast<int>(op), said.data(), said.size()),
                                -1);
    }
    said.pop_back();
    return said;
  }

  Work all_reduce(ConstView in, View out, ReduceOp op, const Stream& stream) {
    return issue([&](weft_work_t* work) {
      return weft_comm_all_reduce(handle(), in.data(), out.data(), out.count(), static_cast<int>(out.dtype()),
                                  static_cast<int>(op), stream.handle(), work);
    });
  }
  Work all_reduce(View data, ReduceOp op, const Stream& stream) { return all_reduce(data, data, op, stream); }
  Work reduce_scatter(ConstView in, View out, ReduceOp op, const Stream& stream) {
    return issue([&](weft_work_t* work) {
      return weft_comm_reduce_scatter(handle(), in.data(), out.data(), out.count(),
                                      static_cast<int>(out.dtype()), static_cast<int>(op), stream.handle(),
                                      work);
    });
  }
  Work all_gather(ConstView in, View out, const Stream& stream) {
    return issue([&](weft_work_t* work) {
      return weft_comm_all_gather(handle(), in.data(), out.data(), in.count(), static_cast<int>(in.dtype()),
                                  stream.handle(), work);
    });
  }
  Work broadcast(View data, int root, const Stream& stream) {
    return issue([&](weft_work_t* work) {
      return weft_comm_broadcast(handle(), data.data(), data.count(), static_cast<int>(data.dtype()), root,
                                 stream.handle(), work);
    });
  }
  Work reduce(ConstView in, View out, ReduceOp op, int root, const Stream& stream) {
    return issue([&](weft_work_t* work) {
      return weft_comm_reduce(handle(), in.data(), out.data(), in.count(), static_cast<int>(in.dtype()),
                              static_cast<int>(op), root, stream.handle(), work);
    });
  }
  Work all_to_all(ConstView in, View out, const Stream& stream) {
    return issue([&](weft_work_t* work) {
      return weft_comm_all_to_all(handle(), in.data(), out.data(), in.count() / size(),
                                  static_cast<int>(in.dtype()), stream.handle(), work);
    });
  }
  Work barrier(const Stream& stream) {
    return issue([&](weft_work_t* work) { return weft_comm_barrier(handle(), stream.handle(), work); });
  }
  std::optional<Communicator> split(std::optional<int> color, int key = 0) {
    weft_comm_t part = nullptr;
    check(weft_comm_split(handle(), color.value_or(WEFT_NO_COLOR), key, &part));
    return part == nullptr ? std::nullopt : std::optional<Communicator>(part);
  }
  Buffer allocate(DataType dtype, std::int64_t count) {
    weft_buffer_t buffer = nullptr;
    check(weft_buffer_create(handle(), static_cast<int>(dtype), count, &buffer));
    EXPECT_EQ(weft_buffer_count(buffer), count);
    const View memory(weft_buffer_data(buffer), count, dtype, device());
    if (count == 0) check(weft_buffer_free(buffer));  // a Buffer of no memory has nothing to give back
    return Buffer(memory, [buffer](void*) { weft_buffer_free(buffer); });
  }

 private:
  template <class Call>
  Work issue(Call call) {
    weft_work_t work = nullptr;
    check(call(&work));
    return Work(work);
  }
  std::shared_ptr<weft_comm> comm_;
  std::shared_ptr<const Topology> topology_;
};

class Group {
 public:
  explicit Group(const Communicator& comm) {
    const Device device = comm.device();
    weft_group_t group = nullptr;
    check(weft_group_create(comm.handle(), device.is_host() ? WEFT_HOST : device.index(), &group));
    group_.reset(group, weft_group_free);
  }
  Group& send(ConstView data, int peer, std::uint32_t tag = 0) {
    check(
        weft_group_send(group_.get(), data.data(), data.count(), static_cast<int>(data.dtype()), peer, tag));
    return *this;
  }
  Group& receive(View data, int peer, std::uint32_t tag = 0) {
    check(weft_group_receive(group_.get(), data.data(), data.count(), static_cast<int>(data.dtype()), peer,
                             tag));
    return *this;
  }
  Group& receive_any(View data, std::uint32_t tag = 0) {
    check(
        weft_group_receive_any(group_.get(), data.data(), data.count(), static_cast<int>(data.dtype()), tag));
    return *this;
  }
  Work start(const Stream& stream) {
    weft_work_t work = nullptr;
    check(weft_group_start(group_.get(), stream.handle(), &work));
    return Work(work);
  }

 private:
  std::shared_ptr<weft_group> group_;
};

}  // namespace weft::test
