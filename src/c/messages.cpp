// Groups of sends and receives.

#include "c/objects.hpp"

using namespace weft;

weft_status_t weft_group_create(weft_comm_t comm, int device, weft_group_t* out) {
  return c::call("weft_group_create", [&] {
    const Communicator& of = c::comm_of(comm);
    c::given(out, "out");
    c::give(out, c::groups(), c::GroupOfDevice{Group(of), c::device_of(device)});
  });
}
weft_status_t weft_group_send(weft_group_t group, const void* data, int64_t count, weft_dtype_t dtype,
                              int peer, uint32_t tag) {
  return c::call("weft_group_send", [&] {
    auto& mine = c::groups().at(group, "group");
    mine.group.send(ConstView(data, count, c::dtype_of(dtype), mine.device), peer, tag);
  });
}
weft_status_t weft_group_receive(weft_group_t group, void* data, int64_t count, weft_dtype_t dtype, int peer,
                                 uint32_t tag) {
  return c::call("weft_group_receive", [&] {
    auto& mine = c::groups().at(group, "group");
    mine.group.receive(View(data, count, c::dtype_of(dtype), mine.device), peer, tag);
  });
}
weft_status_t weft_group_receive_any(weft_group_t group, void* data, int64_t count, weft_dtype_t dtype,
                                     uint32_t tag) {
  return c::call("weft_group_receive_any", [&] {
    auto& mine = c::groups().at(group, "group");
    mine.group.receive_any(View(data, count, c::dtype_of(dtype), mine.device), tag);
  });
}
weft_status_t weft_group_start(weft_group_t group, weft_stream_t stream, weft_work_t* work) {
  return c::call("weft_group_start",
                 [&] { c::give(work, c::groups().at(group, "group").group.start(c::stream_of(stream))); });
}
weft_status_t weft_group_free(weft_group_t group) {
  return c::free_handle("weft_group_free", c::groups(), group, "group");
}
