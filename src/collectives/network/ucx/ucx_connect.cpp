// How the ranks of a world find each other over UCX.

#include <algorithm>
#include <utility>

#include "collectives/bootstrap/lookout.hpp"
#include "collectives/network/ucx/ucx_peers.hpp"
#include "weft/core/backoff.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"

namespace weft::detail {
namespace {
constexpr std::chrono::milliseconds between_calls{200};
}

void UcxPeers::reach(const std::vector<std::string>& introductions) {
  const ErrorContext here{rank(), "connect", 0};
  const std::string mine = introductions[static_cast<std::size_t>(rank())];
  const std::string version = mine.substr(0, mine.find('\n'));
  for (int other = 0; other < size(); ++other) {
    const std::string& theirs = introductions[static_cast<std::size_t>(other)];
    const auto end = std::min(theirs.find('\n'), theirs.size() - 1);
    if (theirs.compare(0, end, version) != 0) {
      throw Error(
          ErrorKind::mismatch,
          text("rank ", other, " has UCX ", theirs.substr(0, end), ", rank ", rank(), " has UCX ", version),
          "run the same version of UCX on every node", here);
    }
    Peer& peer = peers_[static_cast<std::size_t>(other)];
    peer.all = this;
    peer.rank = other;
    peer.address = theirs.substr(end + 1);
  }
}

// An endpoint is made before the other side is known to be there, and operations would be the first to miss it. Of two ranks the one above calls, and
// is called back over the connection that it has made: where both call at a time, as after a moment without a link, UCX 1.13 loses both connections
// ("connection establishment was unsuccessful"). It may lose one all the same: then the rank above calls again. Whether the other has
// ended is the lookout's to say, for a connection breaks without that, too. UCX rests once they have met, so a rank stays until
// its own calls have gone out.
void UcxPeers::meet(Rendezvous& rendezvous, Deadline deadline) {
  has_begun_ = true;
  for (int other = 0; other < rank(); ++other) call(other);
  Lookout lookout(rendezvous);
  Backoff backoff;
  while (true) {
    while (!callers_.empty()) {  // a call may bring further ones
      const int caller = callers_.back();
      callers_.pop_back();
      call(caller);
    }
    if (std::ranges::all_of(peers_, [this](const Peer& peer) { return is_met(peer); })) return;
    if (deadline.passed()) throw not_met(deadline);
    lookout.check();
    for (Peer& peer : peers_) meet_again(peer);
    will_call("ucp_worker_progress");
    progress(nullptr);
    backoff.pause([this](std::chrono::microseconds at_most) { rest(at_most); });
  }
}

bool UcxPeers::is_met(const Peer& peer) const {
  return peer.rank == rank() || (peer.has_called && lost(peer.rank).empty() && peer.unsent == 0);
}

void UcxPeers::meet_again(Peer& peer) {
  if (lost(peer.rank).empty() || !peer.again.passed()) return;
  log::debug(text("rank ", rank(), ": UCX lost the connection to rank ", peer.rank, ": ", lost(peer.rank)));
  peer.again = Deadline::in(between_calls);
  peer.has_called = false;
  if (peer.rank < rank()) call(peer.rank);
}

void UcxPeers::call(int other) {
  Peer& peer = peers_[static_cast<std::size_t>(other)];
  if (peer.endpoint != nullptr) {
    will_call("ucp_ep_close_nbx");  // which looks after all of them
    const ucs_status_ptr_t closing = begin_to_close(peer, true);
    if (UCS_PTR_IS_PTR(closing)) finish_closing({closing}, Deadline::in(to_break_off));
  }
  peer.why = find_again(other);
  will_call("ucp_ep_create", other);
  peer.has_failed = false;
  open_endpoint(peer);
  will_call("ucp_am_send_nbx", other);
  send_note({.number = hello}, other, std::make_shared<const std::string>());
}

void UcxPeers::will_call(const char* function, int other) {
  std::vector<int> whom;
  for (const Peer& peer : peers_) {
    if (peer.address.empty()) continue;  // it has not been heard of
    if (other < 0 ? !is_met(peer) : peer.rank == other) whom.push_back(peer.rank);
  }
  if (!abort_message_ || (function == function_ && whom == whom_)) return;
  function_ = function;
  whom_ = std::move(whom);
  std::string ranks;
  for (const int one : whom_) ranks += text(ranks.empty() ? "" : ", ", "rank ", one);
  const Error said(ErrorKind::system,
                   text("UCX ends this process by an assertion of its own in ", function,
                        ranks.empty() ? "" : ", while it connects to ", ranks),
                   "a rank there has died or its host cannot be reached: start the job again. A later UCX "
                   "has no such assertion, and "
                   "WEFT_TRANSPORT=tcp needs none",
                   {rank(), "connect", 0});
  abort_message_->say(said.what());
}

Error UcxPeers::not_met(Deadline deadline) const {
  std::string missing;
  for (const Peer& peer : peers_) {
    if (is_met(peer)) continue;
    const std::string& why = lost(peer.rank).empty() ? peer.why : lost(peer.rank);
    missing += text(missing.empty() ? "" : "; ", "rank ", peer.rank, " was not heard",
                    why.empty() ? "" : ": " + why);
  }
  return Error(ErrorKind::timeout,
               text("UCX did not connect the ranks within ", deadline.allowed_seconds(), " s: ", missing),
               "let every port through between the hosts, or name the network that does with UCX_NET_DEVICES",
               {rank(), "connect", 0});
}

void UcxPeers::open_endpoint(Peer& peer) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer.address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {on_error, &peer};
  const ucs_status_t status = ucx().ucp_ep_create(worker_, &params, &peer.endpoint);
  if (status == UCS_OK) return;
  peer.endpoint = nullptr;
  throw Error(ErrorKind::system,
              text("UCX does not reach rank ", peer.rank, ": ", ucx().ucs_status_string(status)), ucx_advice,
              {rank(), "connect", 0});
}

}  // namespace weft::detail
