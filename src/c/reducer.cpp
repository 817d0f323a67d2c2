// GradientReducer.

#include <algorithm>
#include <cstring>

#include "c/training.hpp"

using namespace weft;

namespace weft::c {

std::shared_ptr<CommHook> hook_of(const char* hook, std::int64_t start_step) {
  if (hook == nullptr) return nullptr;
  return hook_named(hook, start_step == 0 ? 100 : std::max(start_step, std::int64_t{0}));
}

ParamId Reducer::known(int id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= ids.size())
    throw Error(ErrorKind::usage, text("a parameter of number ", id, " in a layout of ", ids.size()),
                "parameters are numbered from 0, in the order in which they were added");
  return ids[static_cast<std::size_t>(id)];
}

namespace {

/// The parameters in an order whose end comes first in backward, and by their number where they are in it.
struct Ordered {
  Layout layout;
  std::vector<ParamId> ids;
};
Ordered in_order(const Layout& layout, const int* order, int count) {
  const auto all = static_cast<int>(layout.parameters.size());
  Ordered ordered{{layout.dtype, {}}, std::vector<ParamId>(layout.parameters.size(), ParamId{-1})};
  if (order != nullptr && count != all)
    throw Error(ErrorKind::usage, text("`order` has ", count, " of ", all, " parameters"),
                "name each of them once");
  for (int i = 0; i < all; ++i) {
    const int id = order == nullptr ? i : order[all - 1 - i];
    ParamId& place = ordered.ids[layout.known(id)];
    if (place != ParamId{-1})
      throw Error(
          ErrorKind::usage,
          text("`order` names parameter ", id, " (", layout.parameters[layout.known(id)].name, ") twice"),
          "name each parameter once");
    place = ParamId{i};
    ordered.layout.parameters.push_back(layout.parameters[layout.known(id)]);
  }
  return ordered;
}

/// What a structure of results has in the size that the program knows.
template <class Result>
void write(Result* to, std::size_t size_of_one, int place, const Result& result) {
  std::memcpy(reinterpret_cast<std::byte*>(to) + static_cast<std::size_t>(place) * size_of_one, &result,
              size_of_one);
}
void check_size_of_one(const char* name, std::size_t given, std::size_t known) {
  if (given != known) refuse_size(name, given, known);
}

}  // namespace
}  // namespace weft::c

weft_status_t weft_reducer_create(weft_comm_t comm, weft_layout_t layout,
                                  const weft_reducer_options_t* options, weft_reducer_t* out) {
  return c::call("weft_reducer_create", [&] {
    const Communicator& over = c::comm_of(comm);
    const c::Layout& given_layout = c::layouts().at(layout, "layout");
    c::given(out, "out");
    const auto given = c::options_of(options, "weft_reducer_options_t");
    const c::Ordered ordered = c::in_order(given_layout, given.order, given.order_count);
    const ParamLayout parameters = ordered.layout.layout();
    ReducerOptions known;
    known.hook = c::hook_of(given.hook, given.hook_start_step);
    known.unused = c::unused_of(given.unused);
    known.uneven = static_cast<Uneven>(
        c::word_of("uneven", given.uneven, WEFT_UNEVEN_MEAN_OF_THE_REST, "weft_uneven_t"));
    known.count_bad_values = given.count_bad_values != 0;
    known.micro_batches = given.micro_batches;
    if (given.alone_bytes != 0 && given.bucket_bytes == 0)
      throw Error(ErrorKind::usage, "`alone_bytes` without `bucket_bytes`", "give both");
    if (given.alone_bytes != 0) {
      known.buckets = plan_buckets(parameters, given.bucket_bytes, given.alone_bytes);
    } else if (given.bucket_bytes != 0) {
      known.buckets = BucketBytes{given.bucket_bytes};
    }
    c::give(out, c::reducers(), c::Reducer{GradientReducer(over, parameters, std::move(known)), ordered.ids});
  });
}
void* weft_reducer_gradient(weft_reducer_t reducer, int id) {
  void* const none = nullptr;
  return c::ask("weft_reducer_gradient", none, [&] {
    c::Reducer& mine = c::reducers().at(reducer, "reducer");
    return mine.reducer.gradient(mine.known(id)).data();
  });
}
weft_status_t weft_reducer_begin_step(weft_reducer_t reducer, weft_exchange_t exchange) {
  return c::call("weft_reducer_begin_step",
                 [&] { c::reducers().at(reducer, "reducer").reducer.begin_step(c::exchange_of(exchange)); });
}
int weft_reducer_accumulating(weft_reducer_t reducer) {
  return c::ask("weft_reducer_accumulating", -1,
                [&] { return c::reducers().at(reducer, "reducer").reducer.accumulating(); });
}
weft_status_t weft_reducer_ready(weft_reducer_t reducer, int id, weft_stream_t stream) {
  return c::call("weft_reducer_ready", [&] {
    c::Reducer& mine = c::reducers().at(reducer, "reducer");
    mine.reducer.mark_ready(mine.known(id), c::stream_of(stream));
  });
}

namespace weft::c {
namespace {

/// A gradient of the caller, which lies where its stream works.
View gradient_at(Reducer& mine, ParamId id, void* gradient, const Stream& stream) {
  const ParamLayout& layout = mine.reducer.layout();
  return View(given(gradient, "gradient"), layout.count(id), layout.dtype(), stream.device());
}

}  // namespace
}  // namespace weft::c

weft_status_t weft_reducer_ready_from(weft_reducer_t reducer, int id, const void* gradient,
                                      weft_stream_t stream) {
  return c::call("weft_reducer_ready_from", [&] {
    c::Reducer& mine = c::reducers().at(reducer, "reducer");
    const Stream& on = c::stream_of(stream);
    const ParamId known = mine.known(id);
    mine.reducer.mark_ready(known, ConstView(c::gradient_at(mine, known, const_cast<void*>(gradient), on)),
                            on);
  });
}
weft_status_t weft_reducer_ready_in_place(weft_reducer_t reducer, int id, void* gradient,
                                          weft_stream_t stream, void** mean) {
  return c::call("weft_reducer_ready_in_place", [&] {
    c::Reducer& mine = c::reducers().at(reducer, "reducer");
    const Stream& on = c::stream_of(stream);
    const ParamId known = mine.known(id);
    c::given(mean, "mean");
    *mean = mine.reducer.mark_ready_in_place(known, c::gradient_at(mine, known, gradient, on), on).data();
  });
}
weft_status_t weft_reducer_poll(weft_reducer_t reducer) {
  return c::call("weft_reducer_poll", [&] { c::reducers().at(reducer, "reducer").reducer.poll(); });
}
weft_status_t weft_reducer_finish_step(weft_reducer_t reducer, weft_stream_t stream) {
  return c::call("weft_reducer_finish_step",
                 [&] { c::reducers().at(reducer, "reducer").reducer.finish_step(c::stream_of(stream)); });
}
weft_status_t weft_reducer_join(weft_reducer_t reducer, weft_stream_t stream, void (*each)(void* context),
                                void* context) {
  return c::call("weft_reducer_join", [&] {
    c::Reducer& mine = c::reducers().at(reducer, "reducer");
    std::function<void()> after;
    if (each != nullptr) after = [=] { each(context); };
    mine.reducer.join(c::stream_of(stream), after);
  });
}
int weft_reducer_used(weft_reducer_t reducer, int id) {
  return c::ask("weft_reducer_used", -1, [&] {
    c::Reducer& mine = c::reducers().at(reducer, "reducer");
    return mine.reducer.used(mine.known(id));
  });
}
int weft_reducer_bad_values(weft_reducer_t reducer, weft_bad_values_t* values, size_t size_of_one, int most) {
  return c::ask("weft_reducer_bad_values", -1, [&] {
    c::Reducer& mine = c::reducers().at(reducer, "reducer");
    c::check_size_of_one("weft_bad_values_t", size_of_one, sizeof(weft_bad_values_t));
    if (most > 0) c::given(values, "values");
    const std::vector<BadValues>& all = mine.reducer.bad_values();
    const int count = static_cast<int>(all.size());
    for (int i = 0; i < std::min(most, count); ++i) {
      const BadValues& one = all[static_cast<std::size_t>(i)];
      const auto first = std::ranges::find(mine.ids, one.first);
      c::write(values, size_of_one, i,
               {one.step, one.nans, one.infinities, one.rank, static_cast<int>(first - mine.ids.begin())});
    }
    return count;
  });
}
int weft_reducer_account(weft_reducer_t reducer, weft_step_account_t* accounts, size_t size_of_one,
                         int most) {
  return c::ask("weft_reducer_account", -1, [&] {
    c::Reducer& mine = c::reducers().at(reducer, "reducer");
    c::check_size_of_one("weft_step_account_t", size_of_one, sizeof(weft_step_account_t));
    if (most > 0) c::given(accounts, "accounts");
    const StepHistory history = mine.reducer.account();
    const int all = static_cast<int>(history.steps.size());
    const int count = std::min(std::max(most, 0), all);
    for (int i = 0; i < count; ++i) {
      const StepAccount& one = history.steps[static_cast<std::size_t>(all - count + i)];
      c::write(accounts, size_of_one, i,
               {one.step, one.seconds, one.exposed_seconds, one.link_seconds, one.overlap_seconds,
                one.slowest_seconds, one.skew_seconds, one.late_seconds, one.slowest.value_or(-1)});
    }
    return count;
  });
}
double weft_reducer_exposed_seconds(weft_reducer_t reducer) {
  return c::ask("weft_reducer_exposed_seconds", -1.0,
                [&] { return c::reducers().at(reducer, "reducer").reducer.exposed_seconds(); });
}
int64_t weft_reducer_held_bytes(weft_reducer_t reducer) {
  return c::ask("weft_reducer_held_bytes", int64_t{-1},
                [&] { return c::reducers().at(reducer, "reducer").reducer.held_bytes(); });
}
weft_status_t weft_reducer_free(weft_reducer_t reducer) {
  return c::free_handle("weft_reducer_free", c::reducers(), reducer, "reducer");
}
