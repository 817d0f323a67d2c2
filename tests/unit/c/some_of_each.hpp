#pragma once
// A handle of each kind, of one rank.

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "weft/weft.h"

namespace weft::test {

inline void expect_ok(weft_status_t status) {
  EXPECT_EQ(status, WEFT_OK) << weft_error();
}

/// Of the call that has just failed.
inline void expect_said(const std::string& part) {
  EXPECT_NE(std::string(weft_error()).find(part), std::string::npos)
      << "no '" << part << "' in: " << weft_error();
}

class SomeOfEach {
 public:
  SomeOfEach() {
    weft_world_options_t options{};
    options.size = sizeof options;
    options.ranks = 1;
    expect_ok(weft_world_from_environment(&options, &world));
    expect_ok(weft_comm_self(&comm));
    expect_ok(weft_stream_create(WEFT_HOST, WEFT_STREAM_INLINE, &stream));
    expect_ok(weft_stream_record(stream, &event));
    expect_ok(weft_comm_barrier(comm, stream, &work));
    expect_ok(weft_group_create(comm, WEFT_HOST, &group));
    expect_ok(weft_buffer_create(comm, WEFT_F32, 3, &buffer));
    const std::int64_t shape = 2;
    expect_ok(weft_layout_create(WEFT_F32, &layout));
    EXPECT_EQ(weft_layout_add(layout, "weight", &shape, 1, nullptr), 0);
    expect_ok(weft_reducer_create(comm, layout, nullptr, &reducer));
    const float values[2] = {1, 2};
    expect_ok(weft_zero_create(comm, layout, nullptr, &zero));
    expect_ok(weft_zero_load(zero, 0, values, WEFT_HOST));
    expect_ok(weft_zero_set_optimizer(zero, nullptr));
    expect_ok(weft_checkpointer_create(comm, nullptr, &checkpointer));
  }
  SomeOfEach(const SomeOfEach&) = delete;
  SomeOfEach& operator=(const SomeOfEach&) = delete;
  ~SomeOfEach() {
    if (!freed_) free_all();
  }
  void free_all() {
    freed_ = true;
    expect_ok(weft_checkpointer_free(checkpointer));
    expect_ok(weft_zero_free(zero));
    expect_ok(weft_reducer_free(reducer));
    expect_ok(weft_layout_free(layout));
    expect_ok(weft_buffer_free(buffer));
    expect_ok(weft_group_free(group));
    expect_ok(weft_work_free(work));
    expect_ok(weft_event_free(event));
    expect_ok(weft_stream_free(stream));
    expect_ok(weft_comm_free(comm));
    expect_ok(weft_world_free(world));
  }
  /// By the word that messages have for the kind.
  std::map<std::string, void*> all() const {
    return {{"world", world},
            {"communicator", comm},
            {"stream", stream},
            {"event", event},
            {"work", work},
            {"group", group},
            {"buffer", buffer},
            {"layout", layout},
            {"reducer", reducer},
            {"zero", zero},
            {"checkpointer", checkpointer}};
  }

  weft_world_t world = nullptr;
  weft_comm_t comm = nullptr;
  weft_stream_t stream = nullptr;
  weft_event_t event = nullptr;
  weft_work_t work = nullptr;
  weft_group_t group = nullptr;
  weft_buffer_t buffer = nullptr;
  weft_layout_t layout = nullptr;
  weft_reducer_t reducer = nullptr;
  weft_zero_t zero = nullptr;
  weft_checkpointer_t checkpointer = nullptr;

 private:
  bool freed_ = false;
};

}  // namespace weft::test
