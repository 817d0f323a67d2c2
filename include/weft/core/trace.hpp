#pragma once
// What happened when: spans of time on named tracks, written as a file that ui.perfetto.dev and
// chrome://tracing load.
//
// A span is recorded after it ended, with two readings of the steady clock; recording takes a lock and no
// allocation beyond the name's. Spans of one track must nest or follow each other (the viewers drop
// overlapping ones), so every stream and communicator writes to a track of its own. Beyond `capacity` spans
// the oldest are overwritten and the file says how many were. Any thread may record; write() may be called
// while others do.
//
//   Trace trace(rank);
//   const auto begin = Trace::Clock::now();
//   ...
//   trace.span("wire", "all_reduce #3", begin, Trace::Clock::now());
//   trace.write("step.json");

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

class Trace {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Trace(int rank = 0, std::size_t capacity = 1 << 16);

  /// A figure that belongs to a span; the viewers show it when the span is chosen.
  struct Figure {
    std::string_view name;  ///< lasts for ever
    std::uint64_t value;
  };
  void span(std::string_view track, std::string_view name, Clock::time_point begin, Clock::time_point end,
            std::vector<Figure> figures = {});

  /// Writes `json`, a value in that notation, beside the spans, for programs that read the file. The last one
  /// under a name counts.
  void attach(const std::string& name, std::string json);

  std::size_t size() const;
  /// Spans that were overwritten.
  std::size_t lost() const;
  /// Trace Event Format (JSON). @throws Error (system) when the file cannot be written
  void write(const std::string& path) const;
  std::string json() const;
  /// What json() consists of: `{... "traceEvents":[`, the events by commas, `]}`. For files of several ranks.
  /// @param rank under whose name they stand @param offset added to every time
  std::string heading() const;
  std::string events(int rank, Clock::duration offset) const;

 private:
  struct Span {
    std::string track;
    std::string name;
    Clock::time_point begin;
    Clock::time_point end;
    std::vector<Figure> figures;
  };

  const int rank_;
  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::vector<Span> ring_;
  std::size_t recorded_ = 0;
  std::map<std::string, std::string> attached_;
};

}  // namespace weft
