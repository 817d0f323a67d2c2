#pragma once
// Spans of time on named tracks, written as a file that ui.perfetto.dev and chrome://tracing load.
//
// A span is recorded after it has ended, with two readings of the steady clock. Recording takes a lock, and
// memory only for the names. Spans of one track must nest or follow each other (viewers drop those that
// overlap), so every stream and communicator writes to a track of its own. When there are more than
// `capacity` spans, the oldest are overwritten, and the file says how many. Any thread may record, also
// during write().
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

  /// A number that belongs to a span; viewers show it when the span is selected.
  struct Figure {
    std::string_view name;  ///< a literal: the Trace does not copy it
    std::uint64_t value;
  };
  void span(std::string_view track, std::string_view name, Clock::time_point begin, Clock::time_point end,
            std::vector<Figure> figures = {});

  /// Adds a JSON value to the file's "otherData", for programs that read it. A later value of the same name
  /// replaces an earlier one.
  void attach(const std::string& name, std::string json);

  std::size_t size() const;
  /// How many spans were overwritten.
  std::size_t lost() const;
  /// Trace Event Format (JSON). @throws Error (system) when the file cannot be written
  void write(const std::string& path) const;
  std::string json() const;
  /// Parts of json(), for a file of several ranks: heading() is everything up to `"traceEvents":[`, events()
  /// is the events separated by commas, and `]}` ends the file.
  /// @param rank the process that viewers show the events under @param offset added to every time
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
