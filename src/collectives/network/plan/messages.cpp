// A group of messages as flows between ranks. What a rank sends to itself is a copy.

#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "collectives/network/plan/exchange.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

/// The places of each message that a rank sends to itself and of its receive: the k-th of a tag goes to the k-th.
std::vector<std::pair<std::size_t, std::size_t>> messages_to_itself(const std::vector<Transfer>& all,
                                                                    int rank) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  std::map<std::uint32_t, std::deque<std::size_t>> open;  // receives, by tag
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].peer == rank && !all[i].sends) open[all[i].tag].push_back(i);
  }
  const auto alone = [](const Transfer& one) {
    return Error(
        ErrorKind::usage,
        text("a message of ", one.count(), ' ', one.dtype(), one.with_tag(), " to this rank itself is ",
             one.sends ? "sent and not received" : "received and not sent", " in this group"),
        "put both into one group: between nodes a rank's message to itself is a copy");
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].peer != rank || !all[i].sends) continue;
    std::deque<std::size_t>& receives = open[all[i].tag];
    if (receives.empty()) throw alone(all[i]);
    const Transfer& received = all[receives.front()];
    if (received.count() != all[i].count() || received.dtype() != all[i].dtype()) {
      throw Error(ErrorKind::mismatch,
                  text("rank ", rank, " sent itself ", all[i].count(), ' ', all[i].dtype(), " and receives ",
                       received.count(), ' ', received.dtype(), all[i].with_tag()),
                  "sends and receives between two ranks match in the order of their calls");
    }
    pairs.emplace_back(i, receives.front());
    receives.pop_front();
  }
  for (const auto& [tag, receives] : open) {
    if (!receives.empty()) throw alone(all[receives.front()]);
  }
  return pairs;
}

}  // namespace

ExchangePlan plan_exchange(const Transfers& transfers, int rank) {
  ExchangePlan plan;
  plan.progress = transfers.progress;
  for (std::size_t i = 0; i < transfers.all.size(); ++i) {
    const Transfer& transfer = transfers.all[i];
    if (transfer.peer == rank) continue;
    plan.flows.push_back({.peer = transfer.peer,
                          .sends = transfer.sends,
                          .stage = static_cast<int>(transfer.tag),
                          .message = i,
                          .out = transfer.out.bytes(),
                          .in = transfer.in.bytes(),
                          .bytes = transfer.size_bytes()});
  }
  auto own = messages_to_itself(transfers.all, rank);
  if (own.empty()) return plan;
  plan.begin = [own = std::move(own), all = transfers.all, progress = plan.progress, rank] {
    for (const auto& [sent, received] : own) {
      if (all[sent].size_bytes() > 0)
        std::memmove(all[received].in.bytes(), all[sent].out.bytes(), all[sent].size_bytes());
      if (!progress) continue;
      progress->done(sent, rank);
      progress->done(received, rank);
    }
  };
  return plan;
}

}  // namespace weft::detail
