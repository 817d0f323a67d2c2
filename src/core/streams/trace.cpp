#include "weft/core/trace.hpp"

#include <fstream>
#include <iomanip>
#include <map>
#include <sstream>

#include "core/base/file_limit.hpp"
#include "core/base/strings.hpp"
#include "weft/core/error.hpp"

namespace weft {
namespace {

using detail::json_string;

double microseconds(Trace::Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace

Trace::Trace(int rank, std::size_t capacity) : rank_(rank), capacity_(capacity) {
  if (capacity == 0)
    throw Error(ErrorKind::usage, "a trace with room for 0 spans", "give it room for at least 1");
}

void Trace::span(std::string_view track, std::string_view name, Clock::time_point begin,
                 Clock::time_point end, std::vector<Figure> figures) {
  const std::lock_guard lock(mutex_);
  Span span{std::string(track), std::string(name), begin, end, std::move(figures)};
  if (ring_.size() < capacity_) {
    ring_.push_back(std::move(span));
  } else {
    ring_[recorded_ % capacity_] = std::move(span);
  }
  ++recorded_;
}

void Trace::attach(const std::string& name, std::string json) {
  const std::lock_guard lock(mutex_);
  attached_[name] = std::move(json);
}

std::size_t Trace::size() const {
  const std::lock_guard lock(mutex_);
  return ring_.size();
}

std::size_t Trace::lost() const {
  const std::lock_guard lock(mutex_);
  return recorded_ - ring_.size();
}

std::string Trace::heading() const {
  const std::lock_guard lock(mutex_);
  std::ostringstream out;
  out << "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"lost_spans\":" << recorded_ - ring_.size();
  for (const auto& [name, json] : attached_) out << ',' << json_string(name) << ':' << json;
  out << "},\"traceEvents\":[\n";
  return std::move(out).str();
}

std::string Trace::events(int rank, Clock::duration offset) const {
  const std::lock_guard lock(mutex_);
  std::ostringstream out;
  out << std::fixed << std::setprecision(3);
  out << R"({"ph":"M","name":"process_name","pid":)" << rank << R"(,"args":{"name":"rank )" << rank << "\"}}";
  std::map<std::string, std::size_t> tracks;
  for (const Span& span : ring_) {
    const auto [track, fresh] = tracks.try_emplace(span.track, tracks.size());
    if (fresh) {
      out << ",\n"
          << R"({"ph":"M","name":"thread_name","pid":)" << rank << ",\"tid\":" << track->second
          << ",\"args\":{\"name\":" << json_string(span.track) << "}}";
    }
    out << ",\n"
        << R"({"ph":"X","pid":)" << rank << ",\"tid\":" << track->second
        << ",\"name\":" << json_string(span.name)
        << ",\"ts\":" << microseconds(span.begin.time_since_epoch() + offset)
        << ",\"dur\":" << microseconds(span.end - span.begin);
    for (std::size_t i = 0; i < span.figures.size(); ++i) {
      out << (i == 0 ? ",\"args\":{" : ",") << json_string(span.figures[i].name) << ':'
          << span.figures[i].value;
    }
    out << (span.figures.empty() ? "}" : "}}");
  }
  return std::move(out).str();
}

std::string Trace::json() const {
  return heading() + events(rank_, {}) + "\n]}\n";
}

void Trace::write(const std::string& path) const {
  const detail::FileLimitIsAnError limit;
  std::ofstream file(path);
  file << json();
  file.close();
  if (!file) throw system_error(text("cannot write the trace to ", path));
}

}  // namespace weft
