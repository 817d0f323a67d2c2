#include "weft/collectives/rendezvous.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <utility>

#include "collectives/bootstrap/gathering.hpp"
#include "collectives/store/store_detail.hpp"

namespace weft {
namespace detail {
namespace {

const std::string accepted = "notes";
const std::string timed_out = "timeout";
const std::string mismatched = "mismatch";

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
      throw Error(ErrorKind::mismatch,
                  text("a message of ", packed.size(), " bytes from another rank makes no sense"),
                  "run the same version of weft on every rank");
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

}  // namespace

std::string encode_arrival(const std::string& purpose, const std::string& note) {
  return pack({purpose, note});
}

Error missing_error(int rank, const std::vector<int>& missing, int size, const std::string& purpose,
                    Deadline deadline) {
  return {ErrorKind::timeout, missing_text(missing, size, purpose, deadline), missing_advice, {rank, {}, 0}};
}

Error silent_error(int rank, int size, const std::string& purpose, Deadline deadline) {
  return {ErrorKind::timeout,
          text("rank 0 of ", size, " did not answer within ", seconds_text(deadline), " for ", purpose),
          "see whether rank 0 started or failed; WEFT_CONNECT_TIMEOUT sets how long to wait",
          {rank, {}, 0}};
}

std::string conclude(const std::vector<std::optional<std::string>>& arrivals, const std::string& purpose,
                     Deadline deadline) {
  std::vector<std::string> verdict{accepted};
  std::vector<int> missing;
  for (std::size_t rank = 0; rank < arrivals.size(); ++rank) {
    if (!arrivals[rank]) {
      missing.push_back(static_cast<int>(rank));
      continue;
    }
    std::vector<std::string> arrival = unpack(*arrivals[rank]);
    arrival.resize(2);
    if (arrival[0] != purpose) {
      return pack(
          {mismatched, text("rank ", rank, " came for '", arrival[0], "', rank 0 for '", purpose, "'")});
    }
    verdict.push_back(std::move(arrival[1]));
  }
  if (missing.empty()) return pack(verdict);
  return pack({timed_out, missing_text(missing, static_cast<int>(arrivals.size()), purpose, deadline)});
}

std::vector<std::string> open_verdict(const std::string& verdict, int rank) {
  std::vector<std::string> parts = unpack(verdict);
  const std::string word = parts.empty() ? std::string() : parts.front();
  if (word == accepted) {
    parts.erase(parts.begin());
    return parts;
  }
  parts.resize(2);
  if (word == timed_out) throw Error(ErrorKind::timeout, parts[1], missing_advice, {rank, {}, 0});
  throw Error(ErrorKind::mismatch, parts[1], "every rank must make the same calls in the same order",
              {rank, {}, 0});
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

}  // namespace detail

namespace {

/// What rank 0 still has to do when all ranks have arrived: one write.
constexpr std::chrono::seconds grace{5};

class StoreRendezvous final : public Rendezvous {
 public:
  StoreRendezvous(std::shared_ptr<Store> store, std::string name, int rank, int size)
      : store_(std::move(store)), name_(std::move(name)), rank_(rank), size_(size) {
    if (store_ == nullptr || size < 1 || rank < 0 || rank >= size) {
      throw Error(ErrorKind::usage,
                  text("a rendezvous for rank ", rank, " of ", size, store_ ? "" : " without a store"),
                  "ranks count from 0 to size - 1");
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::vector<std::string> all_gather(const std::string& note, const std::string& purpose,
                                      Deadline deadline) override {
    const std::string round = text(name_, "/", ++rounds_, "/");
    const std::string arrival = detail::encode_arrival(purpose, note);
    store_->set(round + std::to_string(rank_), arrival);
    return detail::open_verdict(
        rank_ == 0 ? lead(round, purpose, deadline) : follow(round, purpose, deadline), rank_);
  }

  std::shared_ptr<Rendezvous> split(const std::vector<int>& members) override {
    const int place = detail::place_among(members, rank_, size_);
    // The counter tells apart one split from the next, the first member the groups of one split.
    std::string child = text(name_, ".", ++splits_, ".", members.front());
    return make_store_rendezvous(store_, std::move(child), place, static_cast<int>(members.size()));
  }

 private:
  std::string lead(const std::string& round, const std::string& purpose, Deadline deadline) {
    std::vector<std::optional<std::string>> arrivals;
    for (int rank = 0; rank < size_; ++rank)
      arrivals.push_back(store_->get(round + std::to_string(rank), deadline));
    std::string verdict = detail::conclude(arrivals, purpose, deadline);
    store_->set(round + "verdict", verdict);
    return verdict;
  }

  std::string follow(const std::string& round, const std::string& purpose, Deadline deadline) {
    if (auto verdict = store_->get(round + "verdict", deadline)) return *verdict;
    std::vector<int> missing;
    for (int rank = 0; rank < size_; ++rank) {
      if (!store_->get(round + std::to_string(rank), Deadline::in({}))) missing.push_back(rank);
    }
    if (!missing.empty()) throw detail::missing_error(rank_, missing, size_, purpose, deadline);
    if (auto verdict = store_->get(round + "verdict", Deadline::in(grace))) return *verdict;
    throw detail::silent_error(rank_, size_, purpose, deadline);
  }

  const std::shared_ptr<Store> store_;
  const std::string name_;
  const int rank_;
  const int size_;
  std::uint64_t rounds_ = 0;
  std::uint64_t splits_ = 0;
};

}  // namespace

std::shared_ptr<Rendezvous> make_store_rendezvous(std::shared_ptr<Store> store, std::string name, int rank,
                                                  int size) {
  return std::make_shared<StoreRendezvous>(std::move(store), std::move(name), rank, size);
}

}  // namespace weft
