#include "weft-report/profiler/texts.hpp"

#include <cstdio>

namespace weft::profiler {
namespace {

/// Text between quotation marks of JSON. Bytes that are not ASCII are written as they are where they may be UTF-8, else as '?'.
std::string json_word(std::string_view words) {
  std::string out = "\"";
  for (const char letter : words) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      out += '\\';
      out += letter;
    } else {
      out += byte < 0x20 || byte >= 0x7f ? '?' : letter;
    }
  }
  return out + '"';
}

std::string number(std::uint64_t value) {
  return std::to_string(value);
}
std::string number(std::int64_t value) {
  return std::to_string(value);
}

/// Three digits behind the point, whatever the locale is: a program may have set one with a comma.
std::string thousandths(std::int64_t value) {
  const std::int64_t whole = value / 1000;
  const std::int64_t rest = value % 1000;
  std::string digits = std::to_string(rest < 0 ? -rest : rest);
  return (value < 0 && whole == 0 ? "-0" : std::to_string(whole)) + '.' +
         std::string(3 - digits.size(), '0') + digits;
}
std::string seconds(std::int64_t nanoseconds) {
  std::string digits = std::to_string(nanoseconds < 0 ? 0 : nanoseconds);
  if (digits.size() < 10) digits.insert(0, 10 - digits.size(), '0');
  return digits.insert(digits.size() - 9, 1, '.');
}

std::string hex(std::uint64_t value) {
  std::array<char, 20> words{};
  std::snprintf(words.data(), words.size(), "%llx", static_cast<unsigned long long>(value));
  return words.data();
}

const char* state_of(const Operation& one) {
  return one.ended ? "done" : one.begun_ns != 0 ? "begun" : "issued";
}

/// Kinds that weft has, too.
bool is_known(Kind kind) {
  return kind < Kind::send;
}

std::string flight_operation(const Operation& one) {
  const Type& type = type_at(one.about.type);
  const bool has_root = one.about.kind == Kind::broadcast || one.about.kind == Kind::reduce;
  return "{\"lane\":\"device\",\"number\":" + number(one.number) +
         ",\"kind\":" + json_word(name(one.about.kind)) +
         ",\"count\":" + number(type.name.empty() ? one.bytes() : one.about.count) +
         ",\"dtype\":" + json_word(type.name.empty() ? "u8" : type.name) +
         // NCCL does not say the operator.
         ",\"op\":\"sum\",\"root\":" + number(std::int64_t{has_root ? one.about.root : 0}) + ",\"state\":\"" +
         state_of(one) + "\",\"issued_ns\":" + number(one.issued_ns) +
         ",\"begun_ns\":" + number(one.begun_ns) + ",\"ended_ns\":" + number(one.ended ? one.ended_ns : 0) +
         "}";
}

std::string trace_event(const Snapshot& communicator, const Operation& one, const Moment& moment) {
  const std::int64_t end = one.ended ? one.ended_ns : moment.steady_ns;
  return "{\"name\":" + json_word(name(one.about.kind)) +
         ",\"cat\":\"nccl\",\"ph\":\"X\",\"ts\":" + thousandths(one.begun_ns) +
         ",\"dur\":" + thousandths(end > one.begun_ns ? end - one.begun_ns : 0) +
         ",\"pid\":" + number(moment.pid) + ",\"tid\":" + number(communicator.id) +
         ",\"args\":{\"number\":" + number(one.number) + ",\"count\":" + number(one.about.count) +
         ",\"dtype\":" + json_word(type_at(one.about.type).word) +
         ",\"root\":" + number(std::int64_t{one.about.root}) + ",\"state\":\"" + state_of(one) +
         "\",\"waited_us\":" + thousandths(one.begun_ns - one.issued_ns) +
         (one.gpu_last > one.gpu_first && one.gpu_first != 0
              ? ",\"gpu_us\":" + thousandths(static_cast<std::int64_t>(one.gpu_last - one.gpu_first))
              : std::string()) +
         "}}";
}

std::string label_text(std::string_view words) {
  return json_word(words);
}

struct Family {
  const char* name;
  const char* type;
  const char* help;
};
void open(std::string& out, const Family& family) {
  out += std::string("# HELP ") + family.name + ' ' + family.help + "\n# TYPE " + family.name + ' ' +
         family.type + '\n';
}

std::string labels_of(const Snapshot& one) {
  return "{communicator=" + label_text("0x" + hex(one.about.hash)) + ",name=" + label_text(one.about.name) +
         ",rank=\"" + std::to_string(one.about.rank) + "\"}";
}

std::int64_t oldest_seconds(const Snapshot& one, std::int64_t now) {
  std::int64_t oldest = 0;
  for (const Operation& operation : one.operations) {
    if (operation.begun_ns != 0 && !operation.ended) oldest = std::max(oldest, now - operation.begun_ns);
  }
  return oldest;
}

}  // namespace

std::string folder_of(const About& about) {
  return "comm-" + hex(about.hash);
}

std::string flight_record(const Snapshot& communicator, const Moment& moment) {
  const About& about = communicator.about;
  if (about.ranks < 1 || about.rank < 0 || about.rank >= about.ranks) return {};
  std::string ranks;
  for (int rank = 0; rank < about.ranks; ++rank) ranks += (rank == 0 ? "" : ",") + std::to_string(rank);
  std::string operations;
  for (const Operation& one : communicator.operations) {
    if (one.number == 0 || !is_known(one.about.kind)) continue;
    operations += (operations.empty() ? "\n" : ",\n") + flight_operation(one);
  }
  const std::string own = about.name.empty() ? "0x" + hex(about.hash) : about.name;
  return "{\"weft_flight\":1,\"rank\":" + std::to_string(about.rank) +
         ",\"size\":" + std::to_string(about.ranks) + ",\"host\":" + json_word(moment.host) +
         ",\"pid\":" + number(moment.pid) +
         ",\"reason\":\"signal\",\n\"clock\":{\"steady_ns\":" + number(moment.steady_ns) +
         ",\"wall_ns\":" + number(moment.wall_ns) +
         "},\n\"progress\":[],\n\"communicators\":[{\"name\":" + json_word(own) + ",\"ranks\":[" + ranks +
         "],\"rank\":" + std::to_string(about.rank) + ",\"operations\":[" + operations + "]}]}\n";
}

std::string trace(const std::vector<Snapshot>& communicators, const Moment& moment) {
  std::string events;
  const auto add = [&](const std::string& event) { events += (events.empty() ? "" : ",\n") + event; };
  for (const Snapshot& one : communicators) {
    add("{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":" + number(moment.pid) +
        ",\"tid\":" + number(one.id) + ",\"args\":{\"name\":" +
        json_word((one.about.name.empty() ? "0x" + hex(one.about.hash) : one.about.name) + ", rank " +
                  std::to_string(one.about.rank)) +
        "}}");
    for (const Operation& operation : one.operations) {
      if (operation.begun_ns != 0) add(trace_event(one, operation, moment));
    }
  }
  return "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"host\":" + json_word(moment.host) +
         ",\"steady_ns\":" + number(moment.steady_ns) + ",\"wall_ns\":" + number(moment.wall_ns) +
         "},\"traceEvents\":[\n" + events + "\n]}\n";
}

std::string metrics(const std::vector<Snapshot>& communicators, const Totals& totals, const Moment& moment) {
  std::string out;
  const auto by_kind = [&](const Family& family, const auto& value) {
    open(out, family);
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      if (totals.sums[kind].operations == 0) continue;
      out += std::string(family.name) + "{op=\"" + std::string(name(static_cast<Kind>(kind))) + "\"} " +
             value(totals.sums[kind]) + '\n';
    }
  };
  by_kind({"weft_nccl_operations_total", "counter", "Operations that NCCL has enqueued, by kind."},
          [](const Sums& sums) { return number(sums.operations); });
  by_kind({"weft_nccl_operations_ended_total", "counter", "Operations of these whose last part has ended."},
          [](const Sums& sums) { return number(sums.ended); });
  by_kind({"weft_nccl_bytes_total", "counter", "Bytes of their buffers: count times the size of the type."},
          [](const Sums& sums) { return number(sums.bytes); });
  by_kind({"weft_nccl_seconds_total", "counter",
           "Time that the operations that ended took, by the GPU's clock where NCCL tells it."},
          [](const Sums& sums) { return seconds(sums.nanoseconds); });
  const auto one = [&](const Family& family, const std::string& value) {
    open(out, family);
    out += std::string(family.name) + ' ' + value + '\n';
  };
  one({"weft_nccl_busy_seconds_total", "counter",
       "Time in which at least one operation ran: the exposed time of communication is at most this."},
      seconds(totals.busy_ns));
  one({"weft_nccl_events_dropped_total", "counter", "Events of operations that were no longer kept."},
      number(totals.dropped));
  const auto by_communicator = [&](const Family& family, const auto& value) {
    open(out, family);
    for (const Snapshot& snapshot : communicators)
      out += std::string(family.name) + labels_of(snapshot) + ' ' + value(snapshot) + '\n';
  };
  by_communicator({"weft_nccl_operation_number", "gauge",
                   "Number of the newest collective. A rank whose number stays behind holds up the others."},
                  [](const Snapshot& snapshot) { return number(snapshot.collectives); });
  by_communicator(
      {"weft_nccl_oldest_operation_seconds", "gauge",
       "How long the oldest operation that runs has taken; 0 where none does."},
      [&](const Snapshot& snapshot) { return seconds(oldest_seconds(snapshot, moment.steady_ns)); });
  return out;
}

}  // namespace weft::profiler
