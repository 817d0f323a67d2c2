// The JSON of NCCL 2.28.7 and later, as rasDumpCommsToJSON() prints it. Members that later versions add are passed over.

#include <limits>
#include <map>

#include "core/files/json_node.hpp"
#include "weft-report/ras/forms.hpp"
#include "weft/core/error.hpp"

namespace weft::report::ras {
namespace {

using weft::detail::JsonNode;

/// 2.28.7 and 2.28.9 leave a comma out before the "status" of a missing rank.
std::string with_comma(std::string_view bytes) {
  std::string mended;
  mended.reserve(bytes.size() + 64);
  constexpr std::string_view member = "\"nvml_dev\":";
  for (;;) {
    const std::size_t at = bytes.find(member);
    if (at == std::string_view::npos) break;
    const std::size_t number = std::min(bytes.find_first_not_of(' ', at + member.size()), bytes.size());
    const std::size_t end = std::min(bytes.find_first_not_of("-0123456789", number), bytes.size());
    const std::size_t next = std::min(bytes.find_first_not_of(" \t\r\n", end), bytes.size());
    mended += bytes.substr(0, end);
    if (bytes.substr(next).starts_with("\"status\"")) mended += ',';
    bytes.remove_prefix(end);
  }
  return mended += bytes;
}

int count_in(const JsonNode& node) {
  return static_cast<int>(node.integer(0, std::numeric_limits<int>::max()));
}
std::int64_t number_in(const JsonNode& node) {
  return node.integer(std::numeric_limits<std::int64_t>::min());
}

Member member_in(const JsonNode& node) {
  const std::int64_t cuda = number_in(node.member("cuda_dev"));
  const std::int64_t nvml = number_in(node.member("nvml_dev"));
  Member member{.rank = static_cast<int>(node.member("rank").integer(std::numeric_limits<int>::min(),
                                                                     std::numeric_limits<int>::max()))};
  member.process = {.node = node.member("host").string(),
                    .pid = number_in(node.member("pid")),
                    .gpus = cuda == nvml ? text(cuda) : text(cuda, " (NVML ", nvml, ')')};
  if (!member.process.known()) member.process.node.clear();
  return member;
}

// ncclResult_t
constexpr std::int64_t success = 0;
constexpr std::int64_t in_progress = 7;

bool failed(std::int64_t result) {
  return result != success && result != in_progress;
}

/// In the words of the text, which has none for a time-out.
std::string words_of(std::int64_t result) {
  switch (result) {
    case 1:
      return "Unhandled CUDA error";
    case 2:
      return "System error";
    case 3:
      return "Internal error";
    case 4:
      return "Invalid argument";
    case 5:
      return "Invalid usage";
    case 6:
      return std::string(remote_error);
    case 8:
      return "Timeout";
    default:
      return text("error ", result);
  }
}

/// rasClientRunComms() decides in this order.
Status status_in(const JsonNode& status) {
  if (status.member("abort_flag").boolean()) return Status::abort;
  if (status.member("finalize_called").boolean() || status.member("destroy_flag").boolean())
    return Status::finalize;
  return number_in(status.member("init_state")) == success ? Status::running : Status::init;
}

void add(Share& who, Member member) {
  ++who.size;
  who.named.push_back(std::move(member));
}

/// Ranks that say the same, in a communicator.
struct Shares {
  std::map<Status, Share> statuses{};
  std::map<std::pair<bool, std::int64_t>, Share> failures{};
  std::vector<std::string> types{};
  std::map<std::string, std::map<std::uint64_t, Share>> launched{};
};

void add_rank(const JsonNode& node, Shares& all) {
  const Member member = member_in(node);
  const JsonNode status = node.member("status");
  add(all.statuses[status_in(status)], member);
  const auto note = [&](bool at_init, std::int64_t result) {
    if (failed(result)) add(all.failures[{at_init, result}], member);
  };
  note(true, number_in(status.member("init_state")));
  note(false, number_in(status.member("async_error")));
  node.member("collective_counts").each_member([&](const std::string& type, const JsonNode& count) {
    if (!all.launched.contains(type)) all.types.push_back(type);
    add(all.launched[type][static_cast<std::uint64_t>(count.integer(0))], member);
  });
}

void add_once(Processes& list, const Process& process) {
  if (std::ranges::any_of(list.named, [&](const Process& one) { return one.same_as(process); })) return;
  ++list.size;
  list.named.push_back(process);
}

void add_missing(const JsonNode& node, Communicator& communicator, Shares& all, Answer& answer) {
  const Member member = member_in(node);
  const JsonNode status = node.member("status");
  const bool dead = status.member("considered_dead").boolean();
  if (!dead && !status.member("unresponsive").boolean()) {
    add(all.statuses[Status::no_communicator], member);
    return;
  }
  add(communicator.unanswered, member);
  add_once(dead ? answer.dead : answer.silent, member.process);
}

Communicator communicator_in(const JsonNode& node, Answer& answer) {
  const std::string hash = plain_hash(node.member("hash").string());
  Communicator one{.name = hash,
                   .hash = text(hash, ' ', node.member("secondary_hash").string()),
                   .size = count_in(node.member("size"))};
  Shares all;
  node.member("ranks").each([&](const JsonNode& rank) { add_rank(rank, all); });
  node.member("missing_ranks").each([&](const JsonNode& rank) { add_missing(rank, one, all, answer); });
  for (auto& [status, who] : all.statuses) one.statuses.push_back({.status = status, .who = std::move(who)});
  for (auto& [key, who] : all.failures)
    one.failures.push_back({.what = words_of(key.second), .at_init = key.first, .who = std::move(who)});
  for (const std::string& type : all.types) {
    Collective collective{.type = type};
    for (auto& [operations, who] : all.launched[type])
      collective.levels.push_back({.operations = operations, .who = std::move(who)});
    one.collectives.push_back(std::move(collective));
  }
  return one;
}

}  // namespace

Answer parse_json(std::string_view bytes, const std::string& file) {
  boost::json::error_code error;
  boost::json::stream_parser parser;
  const std::string mended = with_comma(bytes);
  const std::size_t taken = parser.write_some(mended, error);
  if (!error && !parser.done()) parser.finish(error);
  if (error == boost::json::error::incomplete)
    throw Error(ErrorKind::usage,
                text(file, ": the answer of RAS ends in the middle, after ", bytes.size(), " bytes"),
                "save all of it: the process may have ended while it answered");
  if (error)
    throw Error(ErrorKind::usage, text(file, ": is no JSON of RAS: ", error.message(), " at byte ", taken),
                "name the answer to STATUS of NCCL 2.28.7 or later");
  const boost::json::value value = parser.release();
  const JsonNode root(file, value);
  Answer answer{.file = file, .form = Form::json};
  answer.nccl = root.member("nccl_version").string();
  answer.taken = root.member("timestamp").string();
  answer.timeouts = count_in(root.member("ras").member("timeouts_count"));
  root.member("communicators").each([&](const JsonNode& one) {
    answer.communicators.push_back(communicator_in(one, answer));
  });
  answer.communicator_count = static_cast<int>(answer.communicators.size());
  return answer;
}

}  // namespace weft::report::ras
