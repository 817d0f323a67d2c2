// Streams, copies, and memory of the arena.

#include <memory>

#include "c/objects.hpp"
#include "weft/core/copy.hpp"
#include "weft/interop/cuda.hpp"

using namespace weft;

weft_status_t weft_stream_create(int device, weft_stream_kind_t kind, weft_stream_t* out) {
  return c::call("weft_stream_create", [&] {
    c::given(out, "out");
    const Device on = c::device_of(device);
    if (kind < WEFT_STREAM_INLINE || kind > WEFT_STREAM_HIGH)
      c::refuse_word("kind", kind, WEFT_STREAM_HIGH, "weft_stream_kind_t");
    if (kind == (on.is_host() ? WEFT_STREAM_HIGH : WEFT_STREAM_QUEUED)) {
      throw Error(
          ErrorKind::usage,
          text("a stream of ", on, on.is_host() ? " of high priority" : " with a thread of its own"),
          on.is_host() ? "WEFT_STREAM_HIGH is for CUDA devices" : "WEFT_STREAM_QUEUED is for the host");
    }
    c::give(out, c::streams(),
            c::StreamOfDevice(kind == WEFT_STREAM_QUEUED ? Stream::queued()
                              : kind == WEFT_STREAM_HIGH ? Stream(on, StreamPriority::high)
                                                         : Stream(on)));
  });
}
weft_status_t weft_stream_progress(weft_comm_t comm, weft_stream_t* out) {
  return c::call("weft_stream_progress", [&] {
    const Communicator& of = c::comm_of(comm);
    c::given(out, "out");
    c::give(out, c::streams(), c::StreamOfDevice(of.progress_stream()));
  });
}
weft_status_t weft_stream_adopt(void* cuda_stream, int device, weft_stream_t* out) {
  return c::call("weft_stream_adopt", [&] {
    c::given(out, "out");
    c::give(out, c::streams(),
            c::StreamOfDevice(adopt_stream(static_cast<CUstream_st*>(cuda_stream), c::device_of(device))));
  });
}
weft_status_t weft_stream_native(weft_stream_t stream, void** cuda_stream) {
  return c::call("weft_stream_native", [&] {
    const Stream& mine = c::stream_of(stream);
    c::given(cuda_stream, "cuda_stream");
    *cuda_stream = native_handle(mine);
  });
}
int weft_stream_device(weft_stream_t stream) {
  return c::ask("weft_stream_device", -2,
                [&] { return c::number_of(c::streams().at(stream, "stream").device); });
}

namespace weft::c {
namespace {

/// A function of the caller, as the work of a stream.
class Function final : public Task {
 public:
  Function(int (*function)(void*), void* context) : function_(function), context_(context) {}
  bool advance() override {
    const int said = function_(context_);
    if (said != 0 && said != WEFT_AGAIN)
      throw Error(ErrorKind::system, text("a function of weft_stream_run() returned ", said),
                  "0 is success, and WEFT_AGAIN not yet");
    return said == 0;
  }

 private:
  int (*function_)(void*);
  void* context_;
};

}  // namespace
}  // namespace weft::c

weft_status_t weft_stream_run(weft_stream_t stream, int (*function)(void* context), void* context) {
  return c::call("weft_stream_run", [&] {
    const auto mine = c::streams().pin(stream, "stream");
    if (function == nullptr) c::refuse_null("function");
    mine->stream.submit(std::make_unique<c::Function>(function, context));
  });
}
weft_status_t weft_stream_copy(weft_stream_t stream, void* to, int to_device, const void* from,
                               int from_device, int64_t count, weft_dtype_t dtype) {
  return c::call("weft_stream_copy", [&] {
    const auto mine = c::streams().pin(stream, "stream");
    copy(View(to, count, c::dtype_of(dtype), c::device_of(to_device)),
         ConstView(from, count, c::dtype_of(dtype), c::device_of(from_device)), mine->stream);
  });
}
weft_status_t weft_stream_record(weft_stream_t stream, weft_event_t* out) {
  return c::call("weft_stream_record", [&] {
    const Stream& mine = c::stream_of(stream);
    c::given(out, "out");
    c::give(out, c::events(), mine.record());
  });
}
weft_status_t weft_stream_wait(weft_stream_t stream, weft_event_t event) {
  return c::call("weft_stream_wait", [&] {
    const auto mine = c::streams().pin(stream, "stream");
    mine->stream.wait(c::events().at(event, "event"));
  });
}
int weft_stream_poll(weft_stream_t stream) {
  return c::ask("weft_stream_poll", -1, [&] { return c::streams().pin(stream, "stream")->stream.poll(); });
}
weft_status_t weft_stream_synchronize(weft_stream_t stream, double seconds) {
  return c::call("weft_stream_synchronize",
                 [&] { c::streams().pin(stream, "stream")->stream.synchronize(c::deadline_of(seconds)); });
}
weft_status_t weft_stream_free(weft_stream_t stream) {
  return c::free_handle("weft_stream_free", c::streams(), stream, "stream");
}

weft_status_t weft_buffer_create(weft_comm_t comm, weft_dtype_t dtype, int64_t count, weft_buffer_t* out) {
  return c::call("weft_buffer_create", [&] {
    Communicator& of = c::comm_of(comm);
    c::given(out, "out");
    c::give(out, c::buffers(), of.allocate(c::dtype_of(dtype), count));
  });
}
void* weft_buffer_data(weft_buffer_t buffer) {
  void* const none = nullptr;
  return c::ask("weft_buffer_data", none, [&] { return c::buffers().at(buffer, "buffer").view().data(); });
}
int64_t weft_buffer_count(weft_buffer_t buffer) {
  return c::ask("weft_buffer_count", int64_t{-1}, [&] { return c::buffers().at(buffer, "buffer").count(); });
}
weft_status_t weft_buffer_free(weft_buffer_t buffer) {
  return c::free_handle("weft_buffer_free", c::buffers(), buffer, "buffer");
}
