#include "collectives/bootstrap/gathering.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <set>
#include <utility>

#include "collectives/diagnosis/agree.hpp"
#include "collectives/store/store_detail.hpp"
#include "core/base/number.hpp"

namespace weft::detail {
namespace {

const std::string accepted = "notes";
const std::string timed_out = "timeout";
const std::string mismatched = "mismatch";
const std::string called_off = "lost";

Error senseless(std::size_t bytes) {
  return {ErrorKind::mismatch, text("a message of ", bytes, " bytes from another rank makes no sense"),
          "run the same version of weft on every rank"};
}

std::string pack(const std::vector<std::string>& parts) {
  std::string packed;
  for (const std::string& part : parts) {
    const auto bytes = static_cast<std::uint32_t>(part.size());
    char length[sizeof(bytes)];
    std::memcpy(length, &bytes, sizeof(bytes));
    packed.append(length, sizeof(length)).append(part);
  }
  return packed;
}

std::vector<std::string> unpack(const std::string& packed) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < packed.size();) {
    std::uint32_t bytes = 0;
    if (packed.size() - at >= sizeof(bytes)) std::memcpy(&bytes, packed.data() + at, sizeof(bytes));
    at += sizeof(bytes);
    if (at > packed.size() || packed.size() - at < bytes) {
      throw senseless(packed.size());
    }
    parts.push_back(packed.substr(at, bytes));
    at += bytes;
  }
  return parts;
}

std::string list(const std::vector<int>& ranks) {
  constexpr std::size_t most = 16;
  std::string words = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), most); ++i) words += text(i == 0 ? "" : ", ", ranks[i]);
  return ranks.size() <= most ? words : words + text(" and ", ranks.size() - most, " more");
}

std::string missing_text(const std::vector<int>& missing, int size, const std::string& purpose,
                         Deadline deadline) {
  return text(list(missing), " of ", size, " did not arrive within ", seconds_text(deadline), " for ",
              purpose);
}

constexpr const char* missing_advice =
    "see whether those ranks started or failed; WEFT_CONNECT_TIMEOUT sets how long to wait";

template <class Number>
Number number(const std::string& digits) {
  const auto value = number_of<Number>(digits);
  if (!value) throw senseless(digits.size());
  return *value;
}

}  // namespace

RankIdentity RankIdentity::of_this_process(int rank, int size) {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {"a nameless host"};
  std::random_device random;
  const auto nonce = std::uint64_t{random()} << 32 | random();
  return {rank, size, text("process ", getpid(), " on ", host.data()), nonce};
}

std::string RankIdentity::name() const {
  return text("rank ", rank, " (", process, ")");
}

std::string Arrival::encode() const {
  return pack({purpose, note, std::to_string(who.size), who.process, std::to_string(who.nonce)});
}

Arrival Arrival::decode(int rank, const std::string& bytes) {
  std::vector<std::string> parts = unpack(bytes);
  if (parts.size() != 5) throw senseless(bytes.size());
  return {{rank, number<int>(parts[2]), std::move(parts[3]), number<std::uint64_t>(parts[4])},
          std::move(parts[0]),
          std::move(parts[1])};
}

std::string Refusal::encode() const {
  return pack({problem, advice});
}

Refusal Refusal::decode(const std::string& bytes) {
  std::vector<std::string> parts = unpack(bytes);
  if (parts.size() != 2) throw senseless(bytes.size());
  return {std::move(parts[0]), std::move(parts[1])};
}

Refusal sizes_differ(const RankIdentity& one, const RankIdentity& other) {
  return {text(one.name(), " counts ", one.size, one.size == 1 ? " rank, " : " ranks, ", other.name(), " ",
               other.size),
          "give every rank the same number of ranks (WEFT_SIZE, WORLD_SIZE), or a rendezvous of its own"};
}

Refusal rank_is_taken(const RankIdentity& first, const RankIdentity& second) {
  return {text(first.name(), " is there twice: ", second.process, " is rank ", second.rank, " too"),
          "give every process a rank of its own (WEFT_RANK, RANK), and every job a rendezvous of its own"};
}

std::string EndedRank::encode() const {
  return pack({std::to_string(rank), how});
}

EndedRank EndedRank::decode(const std::string& bytes) {
  std::vector<std::string> parts = unpack(bytes);
  if (parts.size() != 2) throw senseless(bytes.size());
  return {number<int>(parts[0]), std::move(parts[1])};
}

Error lost_error(int rank, const std::string& lost, const std::string& purpose, const std::string& how) {
  return {ErrorKind::peer_lost,
          text(lost, " has ended before all ranks met for ", purpose, how.empty() ? "" : ": ", how),
          "see why it ended: its own output says it first",
          {rank, {}, 0}};
}

Error silent_error(int rank, int size, const std::string& purpose, Deadline deadline) {
  return {ErrorKind::timeout,
          text("rank 0 of ", size, " did not answer within ", seconds_text(deadline), " for ", purpose),
          "see whether rank 0 started or failed; WEFT_CONNECT_TIMEOUT sets how long to wait",
          {rank, {}, 0}};
}

std::string conclude(const Arrival& mine, const std::vector<std::optional<std::string>>& arrivals,
                     Deadline deadline) {
  std::vector<std::string> verdict{accepted, mine.who.process};
  std::vector<int> missing;
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    const int rank = static_cast<int>(i);
    if (!arrivals[i]) {
      missing.push_back(rank);
      continue;
    }
    Arrival arrival = Arrival::decode(rank, *arrivals[i]);
    if (arrival.who.size != mine.who.size) return refuse(sizes_differ(arrival.who, mine.who));
    if (arrival.purpose != mine.purpose) {
      return refuse(
          {text("rank ", rank, " came for '", arrival.purpose, "', rank 0 for '", mine.purpose, "'"),
           "every rank must make the same calls in the same order"});
    }
    verdict.push_back(std::move(arrival.note));
  }
  return missing.empty() ? pack(verdict) : time_out(missing, mine.who.size, mine.purpose, deadline);
}

std::string time_out(const std::vector<int>& missing, int size, const std::string& purpose,
                     Deadline deadline) {
  return pack({timed_out, missing_text(missing, size, purpose, deadline)});
}

std::string refuse(const Refusal& why) {
  return pack({mismatched, why.problem, why.advice});
}

std::string call_off(const Error& why) {
  return pack({called_off, Outcome(why).words()});
}

std::vector<std::string> open_verdict(const std::string& verdict, const RankIdentity& mine) {
  std::vector<std::string> parts = unpack(verdict);
  const std::string word = parts.empty() ? std::string() : parts.front();
  const ErrorContext context{mine.rank, {}, 0};
  if (word == timed_out && parts.size() == 2)
    throw Error(ErrorKind::timeout, parts[1], missing_advice, context);
  if (word == mismatched && parts.size() == 3) throw Error(ErrorKind::mismatch, parts[1], parts[2], context);
  if (word == called_off && parts.size() == 2) {
    const Outcome said = Outcome::from(parts[1]);
    if (said.why()) throw said.why()->in(context);
  }
  if (word != accepted || parts.size() < 2) throw senseless(verdict.size());
  const RankIdentity rank_0{0, static_cast<int>(parts.size()) - 2, parts[1]};
  parts.erase(parts.begin(), parts.begin() + 2);
  if (rank_0.size == mine.size) return parts;
  const Refusal why = sizes_differ(mine, rank_0);
  throw Error(ErrorKind::mismatch, why.problem, why.advice, context);
}

int place_among(const std::vector<int>& members, int rank, int size) {
  const std::set<int> different(members.begin(), members.end());
  const auto mine = std::find(members.begin(), members.end(), rank);
  if (different.size() != members.size() || mine == members.end() || *different.begin() < 0 ||
      *different.rbegin() >= size) {
    throw Error(ErrorKind::usage,
                text("split into ", members.empty() ? "no ranks" : list(members), ", asked by rank ", rank,
                     " of ", size),
                "members are different ranks of this rendezvous, this rank among them", {rank, {}, 0});
  }
  return static_cast<int>(mine - members.begin());
}

}  // namespace weft::detail
