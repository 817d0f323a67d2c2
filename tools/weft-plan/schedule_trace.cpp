#include "schedule_trace.hpp"

#include <array>
#include <boost/json.hpp>

#include "weft/core/error.hpp"
#include "weft/pipeline/transfers.hpp"

namespace weft::plan {
namespace {

using namespace pipeline;

/// In the order in which the viewers show them.
constexpr std::array<const char*, 6> kinds{"compute", "wire out",   "wire in",
                                           "gathers", "reductions", "copies"};

std::size_t kind_of(ActionType type) {
  switch (type) {
    case ActionType::send_forward:
    case ActionType::send_backward:
      return 1;
    case ActionType::receive_forward:
    case ActionType::receive_backward:
      return 2;
    case ActionType::unshard:
      return 3;
    case ActionType::reduce_gradients:
      return 4;
    case ActionType::offload:
    case ActionType::load:
      return 5;
    default:
      return 0;
  }
}

class TraceText {
 public:
  TraceText(std::size_t devices, double microsecond) : microsecond_(microsecond), free_(devices) {
    for (std::size_t device = 0; device < devices; ++device) {
      name("process_name", device, 0, text("device ", device));
      add({{"ph", "M"},
           {"name", "process_sort_index"},
           {"pid", device},
           {"args", boost::json::object{{"sort_index", device}}}});
    }
  }

  /// The spans of one kind and device, sorted by begin.
  void span(std::size_t device, const Action& action, Nanoseconds begin, Nanoseconds end) {
    boost::json::object figures{{"stage", action.stage}};
    if (action.microbatch >= 0) figures["microbatch"] = action.microbatch;
    add({{"ph", "X"},
         {"pid", device},
         {"tid", thread(device, kind_of(action.type), begin, end)},
         {"name", text(action)},
         {"ts", static_cast<double>(begin) / microsecond_},
         {"dur", static_cast<double>(end - begin) / microsecond_},
         {"args", std::move(figures)}});
  }

  std::string json() const { return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + events_ + "\n]}\n"; }

 private:
  void add(const boost::json::object& event) {
    events_ += (events_.empty() ? "" : ",\n") + boost::json::serialize(event);
  }
  void name(const char* what, std::size_t device, std::size_t thread, const std::string& words) {
    add({{"ph", "M"},
         {"name", what},
         {"pid", device},
         {"tid", thread},
         {"args", boost::json::object{{"name", words}}}});
  }

  /// The first of the kind that is free; its number begins with the kind's, which orders them.
  std::size_t thread(std::size_t device, std::size_t kind, Nanoseconds begin, Nanoseconds end) {
    std::vector<Nanoseconds>& free = free_[device][kind];
    std::size_t lane = 0;
    while (lane < free.size() && free[lane] > begin) ++lane;
    const std::size_t number = kind * 1000 + lane;
    if (lane == free.size()) {
      free.push_back(0);
      name("thread_name", device, number, lane == 0 ? kinds[kind] : text(kinds[kind], ' ', lane + 1));
      add({{"ph", "M"},
           {"name", "thread_sort_index"},
           {"pid", device},
           {"tid", number},
           {"args", boost::json::object{{"sort_index", number}}}});
    }
    free[lane] = end;
    return number;
  }

  const double microsecond_;
  std::vector<std::array<std::vector<Nanoseconds>, kinds.size()>>
      free_;  // for each thread, the time from which it is free
  std::string events_;
};

}  // namespace

std::string schedule_trace(const Schedule& schedule, const Problem& problem, const Prediction& prediction,
                           double microsecond) {
  TraceText trace(schedule.rows.size(), microsecond);
  for (std::size_t device = 0; device < schedule.rows.size(); ++device) {
    const std::vector<Action>& row = schedule.rows[device];
    for (std::size_t entry = 0; entry < row.size(); ++entry) {
      if (is_compute(row[entry].type) || row[entry].type == ActionType::recompute)
        trace.span(device, row[entry], prediction.begins[device][entry], prediction.ends[device][entry]);
    }
  }
  for (const Transfer& one : transfers(schedule, problem, prediction))
    trace.span(static_cast<std::size_t>(one.device), one.action, one.begin, one.end);
  return trace.json();
}

}  // namespace weft::plan
