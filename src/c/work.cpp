// Works and events: what may be asked, and waited for, by any thread. Whatever frees a handle meanwhile, the object stays until then.

#include "c/objects.hpp"

using namespace weft;

int weft_work_done(weft_work_t work) {
  return c::ask("weft_work_done", -1, [&] { return c::works().pin(work, "work")->done(); });
}
weft_status_t weft_work_status(weft_work_t work) {
  return c::call("weft_work_status", [&] {
    if (const auto error = c::works().pin(work, "work")->error()) std::rethrow_exception(error);
  });
}
weft_status_t weft_work_wait(weft_work_t work, double seconds) {
  return c::call("weft_work_wait", [&] { c::works().pin(work, "work")->wait(c::deadline_of(seconds)); });
}
weft_status_t weft_work_then(weft_work_t work, void (*function)(void* context), void* context) {
  return c::call("weft_work_then", [&] {
    const auto mine = c::works().pin(work, "work");
    if (function == nullptr) c::refuse_null("function");
    mine->then([=] { function(context); });
  });
}
int weft_work_source(weft_work_t work, size_t receive) {
  return c::ask("weft_work_source", -1, [&] { return c::works().at(work, "work").source(receive); });
}
const char* weft_work_operation(weft_work_t work) {
  const char* const none = nullptr;
  return c::ask("weft_work_operation", none, [&] { return c::works().at(work, "work").operation().data(); });
}
int64_t weft_work_number(weft_work_t work) {
  return c::ask("weft_work_number", int64_t{-1}, [&] { return c::works().at(work, "work").number(); });
}
weft_status_t weft_work_event(weft_work_t work, weft_event_t* out) {
  return c::call("weft_work_event", [&] {
    const Work& mine = c::works().at(work, "work");
    c::given(out, "out");
    c::give(out, c::events(), Event(mine.event()));
  });
}
weft_status_t weft_work_free(weft_work_t work) {
  return c::free_handle("weft_work_free", c::works(), work, "work");
}

int weft_event_done(weft_event_t event) {
  return c::ask("weft_event_done", -1, [&] { return c::events().pin(event, "event")->done(); });
}
weft_status_t weft_event_status(weft_event_t event) {
  return c::call("weft_event_status", [&] {
    if (const auto error = c::events().pin(event, "event")->error()) std::rethrow_exception(error);
  });
}
weft_status_t weft_event_wait(weft_event_t event, double seconds) {
  return c::call("weft_event_wait", [&] { c::events().pin(event, "event")->wait(c::deadline_of(seconds)); });
}
weft_status_t weft_event_then(weft_event_t event, void (*function)(void* context), void* context) {
  return c::call("weft_event_then", [&] {
    const auto mine = c::events().pin(event, "event");
    if (function == nullptr) c::refuse_null("function");
    mine->then([=] { function(context); });
  });
}
weft_status_t weft_event_free(weft_event_t event) {
  return c::free_handle("weft_event_free", c::events(), event, "event");
}
