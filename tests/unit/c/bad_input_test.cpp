// What C cannot say by its types: every handle of every function as NULL, freed, of another kind and as any address; NULL elsewhere; numbers
// that are no words.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <regex>
#include <set>
#include <vector>

#include "unit/c/some_of_each.hpp"

namespace weft::test {
namespace {

/// A call whose arguments are right, but for one handle.
struct Call {
  std::string function;
  std::string kind;
  std::string argument;
  std::function<bool(void*)> fails;  ///< calls it with this handle
};

std::array<float, 8> memory{};
void nothing(void* /*context*/) {}
int done(void* /*context*/) {
  return 0;
}

/// Of the functions that train.
std::vector<Call> calls_of_training(const SomeOfEach& some) {
  std::vector<Call> all;
  const auto status = [&](const char* function, const char* kind, const char* argument, auto call) {
    all.push_back({function, kind, argument, [call](void* handle) { return call(handle) != WEFT_OK; }});
  };
  const auto value = [&](const char* function, const char* kind, const char* argument, auto call,
                         auto error) {
    all.push_back({function, kind, argument, [call, error](void* handle) { return call(handle) == error; }});
  };
  const auto comm = [](void* h) { return static_cast<weft_comm_t>(h); };
  const auto stream = [](void* h) { return static_cast<weft_stream_t>(h); };
  const auto layout = [](void* h) { return static_cast<weft_layout_t>(h); };
  const auto reducer = [](void* h) { return static_cast<weft_reducer_t>(h); };
  const auto zero = [](void* h) { return static_cast<weft_zero_t>(h); };
  const auto checkpointer = [](void* h) { return static_cast<weft_checkpointer_t>(h); };
  const weft_comm_t self = some.comm;
  const weft_layout_t one = some.layout;
  const weft_reducer_t means = some.reducer;
  const weft_zero_t shards = some.zero;
  const weft_checkpointer_t saving = some.checkpointer;
  const weft_stream_t lane = some.stream;
  float* const data = memory.data();
  static void* values[1] = {memory.data()};
  static const std::int64_t shape[] = {2};
  static weft_reducer_t new_reducer;
  static weft_zero_t new_zero;
  static weft_checkpointer_t new_checkpointer;
  static std::int64_t number;
  static int flag;
  static void* place;

  status("weft_comm_count_step", "communicator", "comm",
         [=](void* h) { return weft_comm_count_step(comm(h), 1); });
  status("weft_comm_metrics", "communicator", "comm", [=](void* h) {
    return weft_comm_metrics(
        comm(h), [](void*, const char*, const char*, double) {}, nullptr);
  });
  value(
      "weft_layout_add", "layout", "layout",
      [=](void* h) { return weft_layout_add(layout(h), "more", shape, 1, nullptr); }, -1);
  value(
      "weft_layout_parameters", "layout", "layout",
      [=](void* h) { return weft_layout_parameters(layout(h)); }, -1);
  value(
      "weft_layout_count", "layout", "layout", [=](void* h) { return weft_layout_count(layout(h), 0); }, -1);
  status("weft_layout_free", "layout", "layout", [=](void* h) { return weft_layout_free(layout(h)); });
  status("weft_sync_initial_values", "communicator", "comm",
         [=](void* h) { return weft_sync_initial_values(comm(h), one, values, WEFT_HOST, WEFT_COMPARE); });
  status("weft_sync_initial_values", "layout", "layout",
         [=](void* h) { return weft_sync_initial_values(self, layout(h), values, WEFT_HOST, WEFT_COMPARE); });
  status("weft_reducer_create", "communicator", "comm",
         [=](void* h) { return weft_reducer_create(comm(h), one, nullptr, &new_reducer); });
  status("weft_reducer_create", "layout", "layout",
         [=](void* h) { return weft_reducer_create(self, layout(h), nullptr, &new_reducer); });
  value(
      "weft_reducer_gradient", "reducer", "reducer",
      [=](void* h) { return weft_reducer_gradient(reducer(h), 0); }, nullptr);
  status("weft_reducer_begin_step", "reducer", "reducer",
         [=](void* h) { return weft_reducer_begin_step(reducer(h), WEFT_EXCHANGE_NOW); });
  value(
      "weft_reducer_accumulating", "reducer", "reducer",
      [=](void* h) { return weft_reducer_accumulating(reducer(h)); }, -1);
  status("weft_reducer_ready", "reducer", "reducer",
         [=](void* h) { return weft_reducer_ready(reducer(h), 0, lane); });
  status("weft_reducer_ready", "stream", "stream",
         [=](void* h) { return weft_reducer_ready(means, 0, stream(h)); });
  status("weft_reducer_ready_from", "reducer", "reducer",
         [=](void* h) { return weft_reducer_ready_from(reducer(h), 0, data, lane); });
  status("weft_reducer_ready_from", "stream", "stream",
         [=](void* h) { return weft_reducer_ready_from(means, 0, data, stream(h)); });
  status("weft_reducer_ready_in_place", "reducer", "reducer",
         [=](void* h) { return weft_reducer_ready_in_place(reducer(h), 0, data, lane, &place); });
  status("weft_reducer_ready_in_place", "stream", "stream",
         [=](void* h) { return weft_reducer_ready_in_place(means, 0, data, stream(h), &place); });
  status("weft_reducer_poll", "reducer", "reducer", [=](void* h) { return weft_reducer_poll(reducer(h)); });
  status("weft_reducer_finish_step", "reducer", "reducer",
         [=](void* h) { return weft_reducer_finish_step(reducer(h), lane); });
  status("weft_reducer_finish_step", "stream", "stream",
         [=](void* h) { return weft_reducer_finish_step(means, stream(h)); });
  status("weft_reducer_join", "reducer", "reducer",
         [=](void* h) { return weft_reducer_join(reducer(h), lane, nullptr, nullptr); });
  status("weft_reducer_join", "stream", "stream",
         [=](void* h) { return weft_reducer_join(means, stream(h), nullptr, nullptr); });
  value(
      "weft_reducer_used", "reducer", "reducer", [=](void* h) { return weft_reducer_used(reducer(h), 0); },
      -1);
  value(
      "weft_reducer_bad_values", "reducer", "reducer",
      [=](void* h) { return weft_reducer_bad_values(reducer(h), nullptr, sizeof(weft_bad_values_t), 0); },
      -1);
  value(
      "weft_reducer_account", "reducer", "reducer",
      [=](void* h) { return weft_reducer_account(reducer(h), nullptr, sizeof(weft_step_account_t), 0); }, -1);
  value(
      "weft_reducer_exposed_seconds", "reducer", "reducer",
      [=](void* h) { return weft_reducer_exposed_seconds(reducer(h)); }, -1.0);
  value(
      "weft_reducer_held_bytes", "reducer", "reducer",
      [=](void* h) { return weft_reducer_held_bytes(reducer(h)); }, -1);
  status("weft_reducer_free", "reducer", "reducer", [=](void* h) { return weft_reducer_free(reducer(h)); });
  status("weft_zero_create", "communicator", "comm",
         [=](void* h) { return weft_zero_create(comm(h), one, nullptr, &new_zero); });
  status("weft_zero_create", "layout", "layout",
         [=](void* h) { return weft_zero_create(self, layout(h), nullptr, &new_zero); });
  status("weft_zero_load", "zero", "zero",
         [=](void* h) { return weft_zero_load(zero(h), 0, data, WEFT_HOST); });
  status("weft_zero_set_optimizer", "zero", "zero",
         [=](void* h) { return weft_zero_set_optimizer(zero(h), nullptr); });
  status("weft_zero_whole", "zero", "zero", [=](void* h) { return weft_zero_whole(zero(h), 0, data); });
  value(
      "weft_zero_units", "zero", "zero", [=](void* h) { return weft_zero_units(zero(h)); }, -1);
  value(
      "weft_zero_unit_of", "zero", "zero", [=](void* h) { return weft_zero_unit_of(zero(h), 0); }, -1);
  status("weft_zero_gather", "zero", "zero", [=](void* h) { return weft_zero_gather(zero(h), 0, lane); });
  status("weft_zero_gather", "stream", "stream",
         [=](void* h) { return weft_zero_gather(shards, 0, stream(h)); });
  status("weft_zero_release", "zero", "zero", [=](void* h) { return weft_zero_release(zero(h), 0); });
  value(
      "weft_zero_parameter", "zero", "zero", [=](void* h) { return weft_zero_parameter(zero(h), 0); },
      nullptr);
  status("weft_zero_begin_step", "zero", "zero",
         [=](void* h) { return weft_zero_begin_step(zero(h), WEFT_EXCHANGE_NOW); });
  value(
      "weft_zero_accumulating", "zero", "zero", [=](void* h) { return weft_zero_accumulating(zero(h)); }, -1);
  value(
      "weft_zero_gradient", "zero", "zero", [=](void* h) { return weft_zero_gradient(zero(h), 0, lane); },
      nullptr);
  value(
      "weft_zero_gradient", "stream", "stream",
      [=](void* h) { return weft_zero_gradient(shards, 0, stream(h)); }, nullptr);
  status("weft_zero_ready", "zero", "zero", [=](void* h) { return weft_zero_ready(zero(h), 0, lane); });
  status("weft_zero_ready", "stream", "stream",
         [=](void* h) { return weft_zero_ready(shards, 0, stream(h)); });
  status("weft_zero_poll", "zero", "zero", [=](void* h) { return weft_zero_poll(zero(h)); });
  status("weft_zero_finish_step", "zero", "zero",
         [=](void* h) { return weft_zero_finish_step(zero(h), lane); });
  status("weft_zero_finish_step", "stream", "stream",
         [=](void* h) { return weft_zero_finish_step(shards, stream(h)); });
  status("weft_zero_step", "zero", "zero",
         [=](void* h) { return weft_zero_step(zero(h), lane, WEFT_OWN_RATE, nullptr); });
  status("weft_zero_step", "stream", "stream",
         [=](void* h) { return weft_zero_step(shards, stream(h), WEFT_OWN_RATE, nullptr); });
  value(
      "weft_zero_loss_scale", "zero", "zero", [=](void* h) { return weft_zero_loss_scale(zero(h)); }, -1.0);
  value(
      "weft_zero_steps", "zero", "zero", [=](void* h) { return weft_zero_steps(zero(h)); }, -1);
  value(
      "weft_zero_exposed_seconds", "zero", "zero",
      [=](void* h) { return weft_zero_exposed_seconds(zero(h)); }, -1.0);
  value(
      "weft_zero_held_bytes", "zero", "zero", [=](void* h) { return weft_zero_held_bytes(zero(h)); }, -1);
  status("weft_zero_free", "zero", "zero", [=](void* h) { return weft_zero_free(zero(h)); });
  status("weft_checkpointer_create", "communicator", "comm",
         [=](void* h) { return weft_checkpointer_create(comm(h), nullptr, &new_checkpointer); });
  status("weft_checkpointer_resume_zero", "checkpointer", "checkpointer",
         [=](void* h) { return weft_checkpointer_resume_zero(checkpointer(h), shards, lane, &number); });
  status("weft_checkpointer_resume_zero", "zero", "zero",
         [=](void* h) { return weft_checkpointer_resume_zero(saving, zero(h), lane, &number); });
  status("weft_checkpointer_resume_zero", "stream", "stream",
         [=](void* h) { return weft_checkpointer_resume_zero(saving, shards, stream(h), &number); });
  status("weft_checkpointer_after_step_zero", "checkpointer", "checkpointer", [=](void* h) {
    return weft_checkpointer_after_step_zero(checkpointer(h), 1, 0, shards, lane, &flag);
  });
  status("weft_checkpointer_after_step_zero", "zero", "zero",
         [=](void* h) { return weft_checkpointer_after_step_zero(saving, 1, 0, zero(h), lane, &flag); });
  status("weft_checkpointer_after_step_zero", "stream", "stream",
         [=](void* h) { return weft_checkpointer_after_step_zero(saving, 1, 0, shards, stream(h), &flag); });
  status("weft_checkpointer_resume", "checkpointer", "checkpointer",
         [=](void* h) { return weft_checkpointer_resume(checkpointer(h), one, values, &number); });
  status("weft_checkpointer_resume", "layout", "layout",
         [=](void* h) { return weft_checkpointer_resume(saving, layout(h), values, &number); });
  status("weft_checkpointer_after_step", "checkpointer", "checkpointer",
         [=](void* h) { return weft_checkpointer_after_step(checkpointer(h), 1, 0, one, values, &flag); });
  status("weft_checkpointer_after_step", "layout", "layout",
         [=](void* h) { return weft_checkpointer_after_step(saving, 1, 0, layout(h), values, &flag); });
  status("weft_checkpointer_free", "checkpointer", "checkpointer",
         [=](void* h) { return weft_checkpointer_free(checkpointer(h)); });
  return all;
}

/// All of them.
std::vector<Call> all_calls(const SomeOfEach& some) {
  std::vector<Call> all = calls_of_training(some);
  const auto status = [&](const char* function, const char* kind, const char* argument, auto call) {
    all.push_back({function, kind, argument, [call](void* handle) { return call(handle) != WEFT_OK; }});
  };
  const auto value = [&](const char* function, const char* kind, const char* argument, auto call,
                         auto error) {
    all.push_back({function, kind, argument, [call, error](void* handle) { return call(handle) == error; }});
  };
  const auto world = [](void* h) { return static_cast<weft_world_t>(h); };
  const auto comm = [](void* h) { return static_cast<weft_comm_t>(h); };
  const auto stream = [](void* h) { return static_cast<weft_stream_t>(h); };
  const auto event = [](void* h) { return static_cast<weft_event_t>(h); };
  const auto work = [](void* h) { return static_cast<weft_work_t>(h); };
  const auto group = [](void* h) { return static_cast<weft_group_t>(h); };
  const auto buffer = [](void* h) { return static_cast<weft_buffer_t>(h); };
  const weft_comm_t self = some.comm;
  const weft_stream_t lane = some.stream;
  float* const data = memory.data();
  static weft_comm_t new_comm;
  static weft_stream_t new_stream;
  static weft_event_t new_event;
  static weft_group_t new_group;
  static weft_buffer_t new_buffer;

  value(
      "weft_world_rank", "world", "world", [=](void* h) { return weft_world_rank(world(h)); }, -1);
  value(
      "weft_world_size", "world", "world", [=](void* h) { return weft_world_size(world(h)); }, -1);
  value(
      "weft_world_device", "world", "world", [=](void* h) { return weft_world_device(world(h)); }, -2);
  status("weft_world_free", "world", "world", [=](void* h) { return weft_world_free(world(h)); });
  status("weft_comm_connect", "world", "world",
         [=](void* h) { return weft_comm_connect(world(h), nullptr, &new_comm); });
  status("weft_comm_split", "communicator", "comm",
         [=](void* h) { return weft_comm_split(comm(h), 0, 0, &new_comm); });
  status("weft_comm_free", "communicator", "comm", [=](void* h) { return weft_comm_free(comm(h)); });
  value(
      "weft_comm_rank", "communicator", "comm", [=](void* h) { return weft_comm_rank(comm(h)); }, -1);
  value(
      "weft_comm_size", "communicator", "comm", [=](void* h) { return weft_comm_size(comm(h)); }, -1);
  value(
      "weft_comm_device", "communicator", "comm", [=](void* h) { return weft_comm_device(comm(h)); }, -2);
  value(
      "weft_comm_backend", "communicator", "comm", [=](void* h) { return weft_comm_backend(comm(h)); },
      nullptr);
  value(
      "weft_comm_nodes", "communicator", "comm", [=](void* h) { return weft_comm_nodes(comm(h)); }, -1);
  value(
      "weft_comm_node_of", "communicator", "comm", [=](void* h) { return weft_comm_node_of(comm(h), 0); },
      -1);
  value(
      "weft_comm_any_thread", "communicator", "comm", [=](void* h) { return weft_comm_any_thread(comm(h)); },
      -1);
  value(
      "weft_comm_timeout", "communicator", "comm", [=](void* h) { return weft_comm_timeout(comm(h)); }, -1.0);
  status("weft_comm_set_timeout", "communicator", "comm",
         [=](void* h) { return weft_comm_set_timeout(comm(h), 1); });
  status("weft_comm_slow_after", "communicator", "comm",
         [=](void* h) { return weft_comm_slow_after(comm(h), 1); });
  value(
      "weft_comm_wire_bytes", "communicator", "comm", [=](void* h) { return weft_comm_wire_bytes(comm(h)); },
      -1);
  value(
      "weft_comm_network_bytes", "communicator", "comm",
      [=](void* h) { return weft_comm_network_bytes(comm(h)); }, -1);
  value(
      "weft_comm_explain", "communicator", "comm",
      [=](void* h) { return weft_comm_explain(comm(h), WEFT_BARRIER, WEFT_F32, 0, WEFT_SUM, nullptr, 0); },
      -1);
  status("weft_comm_give_up", "communicator", "comm",
         [=](void* h) { return weft_comm_give_up(comm(h), WEFT_SYSTEM, "no more"); });
  const auto collective = [&](const char* function, auto call) {
    status(function, "communicator", "comm", [=](void* h) { return call(comm(h), lane); });
    status(function, "stream", "stream", [=](void* h) { return call(self, stream(h)); });
  };
  collective("weft_comm_all_reduce", [=](weft_comm_t c, weft_stream_t s) {
    return weft_comm_all_reduce(c, data, data, 2, WEFT_F32, WEFT_SUM, s, nullptr);
  });
  collective("weft_comm_reduce_scatter", [=](weft_comm_t c, weft_stream_t s) {
    return weft_comm_reduce_scatter(c, data, data, 2, WEFT_F32, WEFT_SUM, s, nullptr);
  });
  collective("weft_comm_all_gather", [=](weft_comm_t c, weft_stream_t s) {
    return weft_comm_all_gather(c, data, data, 2, WEFT_F32, s, nullptr);
  });
  collective("weft_comm_broadcast", [=](weft_comm_t c, weft_stream_t s) {
    return weft_comm_broadcast(c, data, 2, WEFT_F32, 0, s, nullptr);
  });
  collective("weft_comm_reduce", [=](weft_comm_t c, weft_stream_t s) {
    return weft_comm_reduce(c, data, data, 2, WEFT_F32, WEFT_SUM, 0, s, nullptr);
  });
  collective("weft_comm_all_to_all", [=](weft_comm_t c, weft_stream_t s) {
    return weft_comm_all_to_all(c, data, data + 4, 2, WEFT_F32, s, nullptr);
  });
  collective("weft_comm_barrier",
             [=](weft_comm_t c, weft_stream_t s) { return weft_comm_barrier(c, s, nullptr); });
  status("weft_group_create", "communicator", "comm",
         [=](void* h) { return weft_group_create(comm(h), WEFT_HOST, &new_group); });
  status("weft_group_send", "group", "group",
         [=](void* h) { return weft_group_send(group(h), data, 2, WEFT_F32, 0, 0); });
  status("weft_group_receive", "group", "group",
         [=](void* h) { return weft_group_receive(group(h), data, 2, WEFT_F32, 0, 0); });
  status("weft_group_receive_any", "group", "group",
         [=](void* h) { return weft_group_receive_any(group(h), data, 2, WEFT_F32, 0); });
  status("weft_group_start", "group", "group",
         [=](void* h) { return weft_group_start(group(h), lane, nullptr); });
  status("weft_group_start", "stream", "stream",
         [=, mine = some.group](void* h) { return weft_group_start(mine, stream(h), nullptr); });
  status("weft_group_free", "group", "group", [=](void* h) { return weft_group_free(group(h)); });
  value(
      "weft_work_done", "work", "work", [=](void* h) { return weft_work_done(work(h)); }, -1);
  status("weft_work_status", "work", "work", [=](void* h) { return weft_work_status(work(h)); });
  status("weft_work_wait", "work", "work", [=](void* h) { return weft_work_wait(work(h), 1); });
  status("weft_work_then", "work", "work",
         [=](void* h) { return weft_work_then(work(h), nothing, nullptr); });
  value(
      "weft_work_source", "work", "work", [=](void* h) { return weft_work_source(work(h), 0); }, -1);
  value(
      "weft_work_operation", "work", "work", [=](void* h) { return weft_work_operation(work(h)); }, nullptr);
  value(
      "weft_work_number", "work", "work", [=](void* h) { return weft_work_number(work(h)); }, -1);
  status("weft_work_event", "work", "work", [=](void* h) { return weft_work_event(work(h), &new_event); });
  status("weft_work_free", "work", "work", [=](void* h) { return weft_work_free(work(h)); });
  status("weft_stream_progress", "communicator", "comm",
         [=](void* h) { return weft_stream_progress(comm(h), &new_stream); });
  status("weft_stream_native", "stream", "stream", [=](void* h) {
    void* native = nullptr;
    return weft_stream_native(stream(h), &native);
  });
  value(
      "weft_stream_device", "stream", "stream", [=](void* h) { return weft_stream_device(stream(h)); }, -2);
  status("weft_stream_run", "stream", "stream",
         [=](void* h) { return weft_stream_run(stream(h), done, nullptr); });
  status("weft_stream_copy", "stream", "stream", [=](void* h) {
    return weft_stream_copy(stream(h), data, WEFT_HOST, data + 4, WEFT_HOST, 2, WEFT_F32);
  });
  status("weft_stream_record", "stream", "stream",
         [=](void* h) { return weft_stream_record(stream(h), &new_event); });
  status("weft_stream_wait", "stream", "stream",
         [=, mine = some.event](void* h) { return weft_stream_wait(stream(h), mine); });
  status("weft_stream_wait", "event", "event", [=](void* h) { return weft_stream_wait(lane, event(h)); });
  value(
      "weft_stream_poll", "stream", "stream", [=](void* h) { return weft_stream_poll(stream(h)); }, -1);
  status("weft_stream_synchronize", "stream", "stream",
         [=](void* h) { return weft_stream_synchronize(stream(h), 1); });
  status("weft_stream_free", "stream", "stream", [=](void* h) { return weft_stream_free(stream(h)); });
  value(
      "weft_event_done", "event", "event", [=](void* h) { return weft_event_done(event(h)); }, -1);
  status("weft_event_status", "event", "event", [=](void* h) { return weft_event_status(event(h)); });
  status("weft_event_wait", "event", "event", [=](void* h) { return weft_event_wait(event(h), 1); });
  status("weft_event_then", "event", "event",
         [=](void* h) { return weft_event_then(event(h), nothing, nullptr); });
  status("weft_event_free", "event", "event", [=](void* h) { return weft_event_free(event(h)); });
  status("weft_buffer_create", "communicator", "comm",
         [=](void* h) { return weft_buffer_create(comm(h), WEFT_F32, 2, &new_buffer); });
  value(
      "weft_buffer_data", "buffer", "buffer", [=](void* h) { return weft_buffer_data(buffer(h)); }, nullptr);
  value(
      "weft_buffer_count", "buffer", "buffer", [=](void* h) { return weft_buffer_count(buffer(h)); }, -1);
  status("weft_buffer_free", "buffer", "buffer", [=](void* h) { return weft_buffer_free(buffer(h)); });
  return all;
}

TEST(BadInput, EveryFunctionOfTheHeaderThatTakesAHandleIsTriedHere) {
  std::ifstream map(WEFT_SOURCE_DIR "/src/c/symbols.map");
  std::set<std::string> shown;
  const std::regex is_name(R"(^ +(weft_\w+);)");
  for (std::string line; std::getline(map, line);) {
    if (std::smatch found; std::regex_search(line, found, is_name)) shown.insert(found[1]);
  }
  std::set<std::string> tried{"weft_error",  // these take none
                              "weft_last_status",  "weft_exit_code",           "weft_status_name",
                              "weft_version",      "weft_built_with",          "weft_world_from_environment",
                              "weft_comm_self",    "weft_comm_run_as_threads", "weft_stream_create",
                              "weft_stream_adopt", "weft_layout_create",       "weft_optimizer_defaults"};
  const SomeOfEach some;
  for (const Call& one : all_calls(some)) tried.insert(one.function);
  EXPECT_EQ(tried, shown);
}

TEST(BadInput, AHandleThatIsNoneOfItsKindIsAnErrorThatSaysWhatItIs) {
  const SomeOfEach some;
  SomeOfEach gone;
  const auto freed = gone.all();
  gone.free_all();
  int here = 0;
  const auto address = [](std::uintptr_t bits) { return reinterpret_cast<void*>(bits); };
  const std::vector<void*> addresses{&here,
                                     memory.data(),
                                     address(1),
                                     address(31),
                                     address(~std::uintptr_t{0}),
                                     address(std::uintptr_t{1} << 63),
                                     address(0x7fffffff)};
  for (const Call& one : all_calls(some)) {
    SCOPED_TRACE(one.function + " with " + one.argument);
    const auto expect_refused = [&](void* handle, const std::string& said) {
      ASSERT_TRUE(one.fails(handle)) << said;
      EXPECT_EQ(weft_last_status(), WEFT_USAGE);
      expect_said(one.function + ": `" + one.argument + "` is " + said);
    };
    if (one.function.ends_with("_free")) {
      EXPECT_FALSE(one.fails(nullptr)) << "NULL is nothing, as for free()";
    } else {
      expect_refused(nullptr, "NULL; give the handle of a " + one.kind);
    }
    expect_refused(freed.at(one.kind), "a " + one.kind + " that was freed");
    for (const auto& [kind, handle] : some.all()) {
      if (kind != one.kind) expect_refused(handle, "the handle of a " + kind + ", not of a " + one.kind);
    }
    for (const auto& [kind, handle] : freed) {
      if (kind != one.kind) expect_refused(handle, "the handle of a " + kind + ", not of a " + one.kind);
    }
    for (void* const any : addresses) expect_refused(any, "no handle that weft gave");
  }
}

TEST(BadInput, NullElsewhereIsNamed) {
  const SomeOfEach some;
  const auto refused = [](weft_status_t status, const std::string& said) {
    EXPECT_EQ(status, WEFT_USAGE);
    expect_said(said);
  };
  refused(weft_world_from_environment(nullptr, nullptr), "weft_world_from_environment: `out` is NULL");
  refused(weft_comm_connect(some.world, nullptr, nullptr), "weft_comm_connect: `out` is NULL");
  refused(weft_comm_self(nullptr), "weft_comm_self: `out` is NULL");
  refused(weft_comm_split(some.comm, 0, 0, nullptr), "`out` is NULL");
  refused(weft_comm_run_as_threads(1, nullptr, nullptr, nullptr), "weft_comm_run_as_threads: `body` is NULL");
  refused(weft_comm_give_up(some.comm, WEFT_SYSTEM, nullptr), "`why` is NULL");
  refused(weft_group_create(some.comm, WEFT_HOST, nullptr), "`out` is NULL");
  refused(weft_work_then(some.work, nullptr, nullptr), "`function` is NULL");
  refused(weft_work_event(some.work, nullptr), "`out` is NULL");
  refused(weft_event_then(some.event, nullptr, nullptr), "`function` is NULL");
  refused(weft_stream_create(WEFT_HOST, WEFT_STREAM_INLINE, nullptr), "`out` is NULL");
  refused(weft_stream_progress(some.comm, nullptr), "`out` is NULL");
  refused(weft_stream_adopt(nullptr, 0, nullptr), "`out` is NULL");
  refused(weft_stream_run(some.stream, nullptr, nullptr), "`function` is NULL");
  refused(weft_stream_record(some.stream, nullptr), "`out` is NULL");
  refused(weft_stream_native(some.stream, nullptr), "`cuda_stream` is NULL");
  refused(weft_buffer_create(some.comm, WEFT_F32, 1, nullptr), "`out` is NULL");
  void* const value = memory.data();
  std::int64_t number = 0;
  refused(weft_layout_create(WEFT_F32, nullptr), "`out` is NULL");
  refused(weft_reducer_create(some.comm, some.layout, nullptr, nullptr), "`out` is NULL");
  refused(weft_reducer_ready_from(some.reducer, 0, nullptr, some.stream), "`gradient` is NULL");
  refused(weft_reducer_ready_in_place(some.reducer, 0, value, some.stream, nullptr), "`mean` is NULL");
  refused(weft_zero_create(some.comm, some.layout, nullptr, nullptr), "`out` is NULL");
  refused(weft_zero_load(some.zero, 0, nullptr, WEFT_HOST), "`values` is NULL");
  refused(weft_zero_whole(some.zero, 0, nullptr), "`values` is NULL");
  refused(weft_optimizer_defaults(WEFT_ADAM, nullptr), "`options` is NULL");
  refused(weft_checkpointer_create(some.comm, nullptr, nullptr), "`out` is NULL");
  refused(weft_checkpointer_resume(some.checkpointer, some.layout, nullptr, &number), "`values` is NULL");
  refused(weft_checkpointer_resume(some.checkpointer, some.layout, &value, nullptr), "`steps` is NULL");
  refused(weft_checkpointer_after_step(some.checkpointer, 1, 0, some.layout, &value, nullptr),
          "`go_on` is NULL");
  refused(weft_checkpointer_after_step_zero(some.checkpointer, 1, 0, some.zero, some.stream, nullptr),
          "`go_on` is NULL");
  EXPECT_EQ(weft_reducer_account(some.reducer, nullptr, sizeof(weft_step_account_t), 1), -1);
  expect_said("`accounts` is NULL");
  EXPECT_EQ(weft_reducer_bad_values(some.reducer, nullptr, sizeof(weft_bad_values_t), 1), -1);
  expect_said("`values` is NULL");
  EXPECT_EQ(weft_comm_explain(some.comm, WEFT_BARRIER, WEFT_F32, 0, WEFT_SUM, nullptr, 1), -1);
  expect_said("`text` is NULL");
  refused(weft_comm_all_reduce(some.comm, nullptr, nullptr, 1, WEFT_F32, WEFT_SUM, some.stream, nullptr),
          "a view of 1 elements at address");
  expect_ok(weft_comm_all_reduce(some.comm, nullptr, nullptr, 0, WEFT_F32, WEFT_SUM, some.stream, nullptr));
}

TEST(BadInput, NumbersThatAreNoWordsAreNamed) {
  const SomeOfEach some;
  float* const data = memory.data();
  const auto refused = [](weft_status_t status, const std::string& said) {
    EXPECT_EQ(status, WEFT_USAGE);
    expect_said(said);
  };
  for (const int dtype : {-1, 11, 255, std::numeric_limits<int>::max()}) {
    refused(weft_comm_broadcast(some.comm, data, 1, dtype, 0, some.stream, nullptr),
            "weft_comm_broadcast: `dtype` is " + std::to_string(dtype) +
                ", none of weft_dtype_t; weft.h has 0 to 10");
    refused(weft_buffer_create(some.comm, dtype, 1, nullptr), "`out` is NULL");
    weft_buffer_t buffer = nullptr;
    refused(weft_buffer_create(some.comm, dtype, 1, &buffer), "none of weft_dtype_t");
  }
  for (const int op : {-1, 8, 256}) {
    refused(weft_comm_all_reduce(some.comm, data, data, 1, WEFT_F32, op, some.stream, nullptr),
            "`op` is " + std::to_string(op) + ", none of weft_op_t; weft.h has 0 to 7");
  }
  weft_stream_t stream = nullptr;
  refused(weft_stream_create(-2, WEFT_STREAM_INLINE, &stream), "a device of number -2; give WEFT_HOST");
  refused(weft_stream_create(WEFT_HOST, 3, &stream), "`kind` is 3, none of weft_stream_kind_t");
  refused(weft_stream_create(WEFT_HOST, WEFT_STREAM_HIGH, &stream), "a stream of host of high priority");
  refused(weft_stream_create(0, WEFT_STREAM_QUEUED, &stream), "a stream of cuda:0 with a thread of its own");
  refused(weft_comm_give_up(some.comm, WEFT_OK, "why"),
          "`kind` is 0, the status of no error; give one of 1 to 6");
  refused(weft_comm_give_up(some.comm, 7, "why"), "`kind` is 7");
  refused(weft_comm_broadcast(some.comm, data, -1, WEFT_F32, 0, some.stream, nullptr),
          "a view of -1 elements");
  refused(weft_comm_broadcast(some.comm, data, 1, WEFT_F32, 1, some.stream, nullptr),
          "broadcast: root 1 of 1 ranks");
  for (const double seconds : {-1.0, std::nan(""), -std::numeric_limits<double>::infinity()})
    refused(weft_comm_set_timeout(some.comm, seconds), "`seconds` is ");
  refused(weft_comm_set_timeout(some.comm, 0), "a timeout of 0 s");
  refused(weft_work_wait(some.work, std::nan("")), "`seconds` is nan s");
  expect_ok(weft_work_wait(some.work, WEFT_NO_DEADLINE));
  expect_ok(weft_comm_set_timeout(some.comm, std::numeric_limits<double>::infinity()));
  EXPECT_GT(weft_comm_timeout(some.comm), 9e9);
  refused(weft_comm_run_as_threads(
              0, nullptr, [](weft_comm_t, void*) { return int{WEFT_OK}; }, nullptr),
          "run_as_threads with 0 ranks");
  weft_buffer_t buffer = nullptr;
  EXPECT_NE(weft_buffer_create(some.comm, WEFT_F32, -1, &buffer), WEFT_OK);
#ifndef __SANITIZE_THREAD__  // whose allocator ends a program that asks for so much
  EXPECT_NE(weft_buffer_create(some.comm, WEFT_F64, std::int64_t{1} << 60, &buffer), WEFT_OK);
#endif
}

}  // namespace
}  // namespace weft::test
