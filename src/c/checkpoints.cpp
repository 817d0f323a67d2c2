// Checkpointer. Where this build has no checkpoints, every function says so.

#include "c/training.hpp"

using namespace weft;

#if WEFT_HAS_CHECKPOINT

namespace weft::c {
namespace {

std::vector<checkpoint::Replica> replicas_of(const Layout& layout, void* const* values) {
  std::vector<checkpoint::Replica> all;
  for (const NamedValues& one : layout.values(values, Device::host())) all.push_back({one.name, one.values});
  return all;
}

}  // namespace
}  // namespace weft::c

weft_status_t weft_checkpointer_create(weft_comm_t comm, const weft_checkpointer_options_t* options,
                                       weft_checkpointer_t* out) {
  return c::call("weft_checkpointer_create", [&] {
    const Communicator& over = c::comm_of(comm);
    c::given(out, "out");
    const auto given = c::options_of(options, "weft_checkpointer_options_t");
    checkpoint::CheckpointerOptions known;
    if (given.folder != nullptr) known.folder = given.folder;
    if (given.run != nullptr) known.run = given.run;
    known.every = given.every;
    if (given.keep_last != 0) known.keep_last = given.keep_last < 0 ? 0 : given.keep_last;
    c::give(out, c::checkpointers(), checkpoint::Checkpointer(over, known));
  });
}
weft_status_t weft_checkpointer_resume_zero(weft_checkpointer_t checkpointer, weft_zero_t zero,
                                            weft_stream_t stream, int64_t* steps) {
  return c::call("weft_checkpointer_resume_zero", [&] {
    checkpoint::Checkpointer& mine = c::checkpointers().at(checkpointer, "checkpointer");
    zero::ShardedOptimizer& optimizer = c::zeros().at(zero, "zero").set_optimizer();
    const Stream& on = c::stream_of(stream);
    c::given(steps, "steps");
    *steps = mine.resume([&](const checkpoint::Checkpoint& found) { optimizer.load_state(found, on); });
  });
}
weft_status_t weft_checkpointer_after_step_zero(weft_checkpointer_t checkpointer, int64_t steps, int last,
                                                weft_zero_t zero, weft_stream_t stream, int* go_on) {
  return c::call("weft_checkpointer_after_step_zero", [&] {
    checkpoint::Checkpointer& mine = c::checkpointers().at(checkpointer, "checkpointer");
    zero::ShardedOptimizer& optimizer = c::zeros().at(zero, "zero").set_optimizer();
    const Stream& on = c::stream_of(stream);
    c::given(go_on, "go_on");
    *go_on = mine.after_step(steps, last != 0, [&] { return optimizer.state(on); }) ? 1 : 0;
  });
}
weft_status_t weft_checkpointer_resume(weft_checkpointer_t checkpointer, weft_layout_t layout,
                                       void* const* values, int64_t* steps) {
  return c::call("weft_checkpointer_resume", [&] {
    checkpoint::Checkpointer& mine = c::checkpointers().at(checkpointer, "checkpointer");
    const auto all = c::replicas_of(c::layouts().at(layout, "layout"), values);
    c::given(steps, "steps");
    *steps = mine.resume(all);
  });
}
weft_status_t weft_checkpointer_after_step(weft_checkpointer_t checkpointer, int64_t steps, int last,
                                           weft_layout_t layout, void* const* values, int* go_on) {
  return c::call("weft_checkpointer_after_step", [&] {
    checkpoint::Checkpointer& mine = c::checkpointers().at(checkpointer, "checkpointer");
    const auto all = c::replicas_of(c::layouts().at(layout, "layout"), values);
    c::given(go_on, "go_on");
    *go_on = mine.after_step(steps, last != 0, all) ? 1 : 0;
  });
}
weft_status_t weft_checkpointer_free(weft_checkpointer_t checkpointer) {
  return c::free_handle("weft_checkpointer_free", c::checkpointers(), checkpointer, "checkpointer");
}

#else

namespace weft::c {
namespace {

weft_status_t left_out(const char* function) {
  return call(function, [] {
    throw Error(ErrorKind::usage, "this weft was built without checkpoints",
                "build it where Boost.JSON and xxHash are");
  });
}

}  // namespace
}  // namespace weft::c

weft_status_t weft_checkpointer_create(weft_comm_t, const weft_checkpointer_options_t*,
                                       weft_checkpointer_t*) {
  return c::left_out("weft_checkpointer_create");
}
weft_status_t weft_checkpointer_resume_zero(weft_checkpointer_t, weft_zero_t, weft_stream_t, int64_t*) {
  return c::left_out("weft_checkpointer_resume_zero");
}
weft_status_t weft_checkpointer_after_step_zero(weft_checkpointer_t, int64_t, int, weft_zero_t, weft_stream_t,
                                                int*) {
  return c::left_out("weft_checkpointer_after_step_zero");
}
weft_status_t weft_checkpointer_resume(weft_checkpointer_t, weft_layout_t, void* const*, int64_t*) {
  return c::left_out("weft_checkpointer_resume");
}
weft_status_t weft_checkpointer_after_step(weft_checkpointer_t, int64_t, int, weft_layout_t, void* const*,
                                           int*) {
  return c::left_out("weft_checkpointer_after_step");
}
weft_status_t weft_checkpointer_free(weft_checkpointer_t checkpointer) {
  return checkpointer == nullptr ? weft_status_t{WEFT_OK} : c::left_out("weft_checkpointer_free");
}

#endif
