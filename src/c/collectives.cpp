// What a communicator is asked, and its operations.

#include <algorithm>
#include <cstring>

#include "c/objects.hpp"

using namespace weft;

int weft_comm_rank(weft_comm_t comm) {
  return c::ask("weft_comm_rank", -1, [&] { return c::comm_of(comm).rank(); });
}
int weft_comm_size(weft_comm_t comm) {
  return c::ask("weft_comm_size", -1, [&] { return c::comm_of(comm).size(); });
}
int weft_comm_device(weft_comm_t comm) {
  return c::ask("weft_comm_device", -2, [&] { return c::number_of(c::comm_of(comm).device()); });
}
const char* weft_comm_backend(weft_comm_t comm) {
  const char* const none = nullptr;
  return c::ask("weft_comm_backend", none,
                [&] { return c::communicators().at(comm, "comm").backend.c_str(); });
}
int weft_comm_nodes(weft_comm_t comm) {
  return c::ask("weft_comm_nodes", -1, [&] { return c::comm_of(comm).topology().nodes(); });
}
int weft_comm_node_of(weft_comm_t comm, int rank) {
  return c::ask("weft_comm_node_of", -1, [&] { return c::comm_of(comm).topology().node_of(rank); });
}
int weft_comm_any_thread(weft_comm_t comm) {
  return c::ask("weft_comm_any_thread", -1, [&] { return c::comm_of(comm).any_thread(); });
}
double weft_comm_timeout(weft_comm_t comm) {
  return c::ask("weft_comm_timeout", -1.0,
                [&] { return std::chrono::duration<double>(c::comm_of(comm).timeout()).count(); });
}
weft_status_t weft_comm_set_timeout(weft_comm_t comm, double seconds) {
  return c::call("weft_comm_set_timeout",
                 [&] { c::comm_of(comm).timeout(c::duration_of(seconds, "seconds")); });
}
weft_status_t weft_comm_slow_after(weft_comm_t comm, double seconds) {
  return c::call("weft_comm_slow_after",
                 [&] { c::comm_of(comm).slow_after(c::duration_of(seconds, "seconds")); });
}
int64_t weft_comm_wire_bytes(weft_comm_t comm) {
  return c::ask("weft_comm_wire_bytes", int64_t{-1}, [&] { return c::comm_of(comm).wire_bytes(); });
}
int64_t weft_comm_network_bytes(weft_comm_t comm) {
  return c::ask("weft_comm_network_bytes", int64_t{-1}, [&] { return c::comm_of(comm).network_bytes(); });
}
int64_t weft_comm_explain(weft_comm_t comm, weft_collective_t kind, weft_dtype_t dtype, int64_t count,
                          weft_op_t op, char* text, size_t bytes) {
  return c::ask("weft_comm_explain", int64_t{-1}, [&] {
    const Communicator& asked = c::comm_of(comm);
    if (kind < 0 || kind > WEFT_BARRIER) c::refuse_word("kind", kind, WEFT_BARRIER, "weft_collective_t");
    if (bytes > 0) c::given(text, "text");
    const std::string said =
        asked.explain(static_cast<Collective>(kind), c::dtype_of(dtype), count, c::op_of(op));
    if (bytes > 0) {
      const std::size_t length = std::min(said.size(), bytes - 1);
      std::memcpy(text, said.data(), length);
      text[length] = '\0';
    }
    return said.size();
  });
}
weft_status_t weft_comm_give_up(weft_comm_t comm, weft_status_t kind, const char* why) {
  return c::call("weft_comm_give_up", [&] {
    Communicator& ending = c::comm_of(comm);
    ending.give_up(Error(c::kind_of(kind, "kind"), c::given(why, "why"), {}, {ending.rank(), {}, 0}));
  });
}

namespace weft::c {
namespace {

/// The memory of an operation, which lies on the device of its stream.
struct Operands {
  Operands(weft_comm_t comm_handle, int64_t elements, weft_dtype_t of_dtype, weft_stream_t stream_handle)
      : comm(comm_of(comm_handle)),
        on(streams().at(stream_handle, "stream")),
        stream(on.stream),
        dtype(dtype_of(of_dtype)),
        device(on.device),
        count(elements) {}

  View out(void* data) const { return View(data, count, dtype, device); }
  ConstView in(const void* data) const { return ConstView(data, count, dtype, device); }
  /// As many for each rank. @throws Error (usage) where that is more than there can be
  std::int64_t of_all_ranks() const {
    std::int64_t all = 0;
    if (__builtin_mul_overflow(count, std::int64_t{comm.size()}, &all))
      throw Error(ErrorKind::usage, text(count, " elements for each of ", comm.size(), " ranks"),
                  "no memory has so many");
    return all;
  }
  View all_out(void* data) const { return View(data, of_all_ranks(), dtype, device); }
  ConstView all_in(const void* data) const { return ConstView(data, of_all_ranks(), dtype, device); }

  Communicator& comm;
  StreamOfDevice& on;
  Stream& stream;
  DataType dtype;
  Device device;
  std::int64_t count;
};

}  // namespace
}  // namespace weft::c

weft_status_t weft_comm_all_reduce(weft_comm_t comm, const void* in, void* out, int64_t count,
                                   weft_dtype_t dtype, weft_op_t op, weft_stream_t stream,
                                   weft_work_t* work) {
  return c::call("weft_comm_all_reduce", [&] {
    const c::Operands mine(comm, count, dtype, stream);
    c::give(work, mine.comm.all_reduce(mine.in(in), mine.out(out), c::op_of(op), mine.stream));
  });
}
weft_status_t weft_comm_reduce_scatter(weft_comm_t comm, const void* in, void* out, int64_t count,
                                       weft_dtype_t dtype, weft_op_t op, weft_stream_t stream,
                                       weft_work_t* work) {
  return c::call("weft_comm_reduce_scatter", [&] {
    const c::Operands mine(comm, count, dtype, stream);
    c::give(work, mine.comm.reduce_scatter(mine.all_in(in), mine.out(out), c::op_of(op), mine.stream));
  });
}
weft_status_t weft_comm_all_gather(weft_comm_t comm, const void* in, void* out, int64_t count,
                                   weft_dtype_t dtype, weft_stream_t stream, weft_work_t* work) {
  return c::call("weft_comm_all_gather", [&] {
    const c::Operands mine(comm, count, dtype, stream);
    c::give(work, mine.comm.all_gather(mine.in(in), mine.all_out(out), mine.stream));
  });
}
weft_status_t weft_comm_broadcast(weft_comm_t comm, void* data, int64_t count, weft_dtype_t dtype, int root,
                                  weft_stream_t stream, weft_work_t* work) {
  return c::call("weft_comm_broadcast", [&] {
    const c::Operands mine(comm, count, dtype, stream);
    c::give(work, mine.comm.broadcast(mine.out(data), root, mine.stream));
  });
}
weft_status_t weft_comm_reduce(weft_comm_t comm, const void* in, void* out, int64_t count, weft_dtype_t dtype,
                               weft_op_t op, int root, weft_stream_t stream, weft_work_t* work) {
  return c::call("weft_comm_reduce", [&] {
    const c::Operands mine(comm, count, dtype, stream);
    const View result = mine.comm.rank() == root ? mine.out(out) : View(nullptr, 0, mine.dtype, mine.device);
    c::give(work, mine.comm.reduce(mine.in(in), result, c::op_of(op), root, mine.stream));
  });
}
weft_status_t weft_comm_all_to_all(weft_comm_t comm, const void* in, void* out, int64_t count,
                                   weft_dtype_t dtype, weft_stream_t stream, weft_work_t* work) {
  return c::call("weft_comm_all_to_all", [&] {
    const c::Operands mine(comm, count, dtype, stream);
    c::give(work, mine.comm.all_to_all(mine.all_in(in), mine.all_out(out), mine.stream));
  });
}
weft_status_t weft_comm_barrier(weft_comm_t comm, weft_stream_t stream, weft_work_t* work) {
  return c::call("weft_comm_barrier", [&] { c::give(work, c::comm_of(comm).barrier(c::stream_of(stream))); });
}
