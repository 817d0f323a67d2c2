#pragma once
// The objects behind handles, and their tables.

#include <string>

#include "c/call.hpp"
#include "c/handles.hpp"
#include "weft/collectives/communicator.hpp"
#include "weft/core/buffer.hpp"
#include "weft/core/event.hpp"
#include "weft/core/stream.hpp"

namespace weft::c {

/// With what weft.h hands out as text that stays.
struct NamedCommunicator {
  explicit NamedCommunicator(Communicator given) : comm(std::move(given)), backend(comm.backend()) {}
  Communicator comm;
  std::string backend;
};
/// With what every operation asks of it.
struct StreamOfDevice {
  explicit StreamOfDevice(Stream given) : stream(std::move(given)), device(stream.device()) {}
  Stream stream;
  Device device;
};
struct GroupOfDevice {
  Group group;
  Device device;
};

inline auto& worlds() noexcept {
  return table<World, Kind::world>();
}
inline auto& communicators() noexcept {
  return table<NamedCommunicator, Kind::communicator>();
}
inline auto& streams() noexcept {
  return table<StreamOfDevice, Kind::stream>();
}
inline auto& events() noexcept {
  return table<Event, Kind::event>();
}
inline auto& works() noexcept {
  return table<Work, Kind::work>();
}
inline auto& groups() noexcept {
  return table<GroupOfDevice, Kind::group>();
}
inline auto& buffers() noexcept {
  return table<Buffer, Kind::buffer>();
}

/// @throws Error (usage), here and below, for what is no handle of the kind
inline Communicator& comm_of(weft_comm_t comm) {
  return communicators().at(comm, "comm").comm;
}
inline Stream& stream_of(weft_stream_t stream) {
  return streams().at(stream, "stream").stream;
}

/// A handle of an object, for its first owner. @param out not null: ask before the object is made
template <class Handle, class T, Kind kind>
void give(Handle* out, Table<T, kind>& table, T&& object) {
  *out = static_cast<Handle>(table.add(std::move(object)));
}
/// An operation's work, where it is wanted.
inline void give(weft_work_t* out, Work&& work) {
  if (out != nullptr) give(out, works(), std::move(work));
}
/// NULL is nothing, as for free().
template <class Handle, class T, Kind kind>
weft_status_t free_handle(const char* function, Table<T, kind>& table, Handle handle, const char* argument) {
  return call(function, [&] {
    if (handle != nullptr) table.remove(handle, argument);
  });
}

}  // namespace weft::c
