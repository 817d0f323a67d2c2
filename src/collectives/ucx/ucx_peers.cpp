#include "collectives/ucx/ucx_peers.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include "collectives/bootstrap/lookout.hpp"
#include "weft/core/backoff.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"

namespace weft::detail {
namespace {

constexpr unsigned note_id = 0;  // of active messages
constexpr unsigned acknowledgement_id = 1;
constexpr std::uint32_t hello = UINT32_MAX - 1;  // a group that no rank has
constexpr std::chrono::milliseconds to_close{2000};
constexpr std::chrono::milliseconds to_break_off{100};  // who does not answer may be stopped
constexpr std::chrono::milliseconds between_calls{200};
const std::string no_ucx = "none\n";  // instead of a version
constexpr const char* advice =
    "UCX_LOG_LEVEL=info shows what UCX found; UCX_TLS and UCX_NET_DEVICES say what it may use";

void check(ucs_status_t status, const char* call) {
  if (status == UCS_OK) return;
  throw Error(ErrorKind::system, text(call, " failed: ", ucx().ucs_status_string(status)), advice);
}

/// Without RDMA nothing is gained by asking a receiver before a segment is sent: the question and its answer wait behind whatever
/// fills the line (bench/results). What is under way is bounded by acknowledgements of parts instead.
constexpr const char* never_ask = "inf";

bool has_rdma() {
  std::error_code failed;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", failed);
  return !failed && devices != std::filesystem::directory_iterator();
}

void set(ucp_config_t* config, const char* name, const char* value) {
  check(ucx().ucp_config_modify(config, name, value), "ucp_config_modify");
}

std::string version_text() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  ucx().ucp_get_version(&major, &minor, &release);
  return text(major, '.', minor);
}

}  // namespace

/// An active message under way, which lives until UCX has sent it.
struct UcxPeers::Sent {
  std::array<std::byte, sizeof(NoteHead)> head;
  std::shared_ptr<const std::string> body{};
  Peer* to = nullptr;
};

UcxPeers::UcxPeers(Rendezvous& rendezvous, const Environment& environment, Deadline deadline)
    : Peers(rendezvous.rank(), rendezvous.size()), peers_(static_cast<std::size_t>(rendezvous.size())) {
  try {
    reach(rendezvous.all_gather(introduction(environment), "connect: addresses of UCX", deadline));
    meet(rendezvous, deadline);
  } catch (const std::exception& error) {
    // Before the connections break, which the others would take for the end of this rank.
    if (const auto* const why = dynamic_cast<const Error*>(&error)) rendezvous.call_off(*why);
    give_up();
    stop();
    throw;
  }
}

/// Version and address, or why there is none: no rank waits for one that cannot come.
std::string UcxPeers::introduction(const Environment& environment) {
  try {
    start(environment);
    return text(version_text(), '\n', address());
  } catch (const Error& error) {
    return text(no_ucx, error.problem(), '\n', error.advice());
  }
}

void UcxPeers::reach(const std::vector<std::string>& introductions) {
  const ErrorContext here{rank(), "connect", 0};
  const std::string mine = introductions[static_cast<std::size_t>(rank())];
  const std::string version = mine.substr(0, mine.find('\n'));
  for (int other = 0; other < size(); ++other) {
    const std::string& theirs = introductions[static_cast<std::size_t>(other)];
    if (!theirs.starts_with(no_ucx)) continue;
    const std::string why = theirs.substr(no_ucx.size());
    const std::size_t end = std::min(why.find('\n'), why.size());
    throw Error(ErrorKind::system, text("rank ", other, " cannot use UCX: ", why.substr(0, end)),
                why.substr(std::min(end + 1, why.size())), here);
  }
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
  for (int other = 0; other < rank(); ++other) call(other);
  Lookout lookout(rendezvous);
  Backoff backoff;
  while (true) {
    for (; !callers_.empty(); callers_.pop_back()) call(callers_.back());
    if (std::ranges::all_of(peers_, [this](const Peer& peer) { return is_met(peer); })) return;
    if (deadline.passed()) throw not_met(deadline);
    lookout.check();
    for (Peer& peer : peers_) meet_again(peer);
    progress();
    backoff.pause([this](std::chrono::microseconds at_most) { rest(at_most); });
  }
}

bool UcxPeers::is_met(const Peer& peer) const {
  return peer.rank == rank() || (peer.has_called && peer.lost.empty() && peer.unsent == 0);
}

void UcxPeers::meet_again(Peer& peer) {
  if (peer.lost.empty() || !peer.again.passed()) return;
  log::debug(text("rank ", rank(), ": UCX lost the connection to rank ", peer.rank, ": ", peer.lost));
  peer.again = Deadline::in(between_calls);
  peer.has_called = false;
  if (peer.rank < rank()) call(peer.rank);
}

void UcxPeers::call(int other) {
  Peer& peer = peers_[static_cast<std::size_t>(other)];
  if (peer.endpoint != nullptr) {
    const ucs_status_ptr_t closing = begin_to_close(peer, true);
    if (UCS_PTR_IS_PTR(closing)) finish_closing({closing}, Deadline::in(to_break_off));
  }
  if (!peer.lost.empty()) --losses_;
  peer.why = std::exchange(peer.lost, {});
  open_endpoint(peer);
  send_note(hello, other, std::make_shared<const std::string>());
}

Error UcxPeers::not_met(Deadline deadline) const {
  std::string missing;
  for (const Peer& peer : peers_) {
    if (is_met(peer)) continue;
    const std::string& why = peer.lost.empty() ? peer.why : peer.lost;
    missing += text(missing.empty() ? "" : "; ", "rank ", peer.rank, " was not heard",
                    why.empty() ? "" : ": " + why);
  }
  return Error(ErrorKind::timeout,
               text("UCX did not connect the ranks within ", deadline.allowed_seconds(), " s: ", missing),
               "let every port through between the hosts, or name the network that does with UCX_NET_DEVICES",
               {rank(), "connect", 0});
}

void UcxPeers::start(const Environment& environment) {
  has_rdma_ = has_rdma();
  ucp_config_t* config = nullptr;
  check(ucx().ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
  if (!environment.has(env::ucx_keepalive))
    set(config, "KEEPALIVE_INTERVAL", std::string(env::ucx_keepalive.fallback).c_str());
  // UCX 1.13 takes the key of its TCP transport without that transport's prefix.
  if (!environment.has(env::ucx_tcp_conn_nb))
    set(config, "CONN_NB", std::string(env::ucx_tcp_conn_nb.fallback).c_str());
  if (!environment.has(env::ucx_rndv_thresh) && !has_rdma_) set(config, "RNDV_THRESH", never_ask);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.estimated_num_eps = peers_.size();
  params.name = "weft";
  const ucs_status_t status =
      ucx().ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  ucx().ucp_config_release(config);
  check(status, "ucp_init");
  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  check(ucx().ucp_worker_create(context_, &worker, &worker_), "ucp_worker_create");
  check(ucx().ucp_worker_get_efd(worker_, &wakes_), "ucp_worker_get_efd");
  listen(note_id, on_note);
  listen(acknowledgement_id, on_acknowledgement);
}

std::string UcxPeers::address() const {
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  check(ucx().ucp_worker_get_address(worker_, &address, &bytes), "ucp_worker_get_address");
  std::string copy(reinterpret_cast<const char*>(address), bytes);
  ucx().ucp_worker_release_address(worker_, address);
  return copy;
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
              text("UCX does not reach rank ", peer.rank, ": ", ucx().ucs_status_string(status)), advice,
              {rank(), "connect", 0});
}

void UcxPeers::on_error(void* which, ucp_ep_h, ucs_status_t status) {
  Peer& peer = *static_cast<Peer*>(which);
  if (!peer.lost.empty()) return;
  peer.lost = ucx().ucs_status_string(status);
  ++peer.all->losses_;
}

void UcxPeers::progress() {
  constexpr int most = 64;  // who waits also has sums to do
  for (int i = 0; i < most && ucx().ucp_worker_progress(worker_) != 0; ++i) {
  }
}

void UcxPeers::rest(std::chrono::microseconds at_most) {
  {
    const auto entered = enter();
    if (ucx().ucp_worker_arm(worker_) != UCS_OK) return;  // something has come meanwhile
  }
  rest_on(wakes_, at_most);
}

void UcxPeers::listen(unsigned id, ucp_am_recv_callback_t hear) {
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
  handler.id = id;
  handler.cb = hear;
  handler.arg = this;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  check(ucx().ucp_worker_set_am_recv_handler(worker_, &handler), "ucp_worker_set_am_recv_handler");
}

ucs_status_t UcxPeers::on_note(void* peers, const void* head, std::size_t head_bytes, void* data,
                               std::size_t bytes, const ucp_am_recv_param_t* how) {
  UcxPeers& self = *static_cast<UcxPeers*>(peers);
  NoteHead note{};
  const bool is_whole = head_bytes == sizeof(note) && (how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0;
  if (is_whole) std::memcpy(&note, head, sizeof(note));
  if (!is_whole || note.from < 0 || note.from >= self.size()) return UCS_OK;  // of a stranger
  if (note.group == hello) {
    Peer& peer = self.peers_[static_cast<std::size_t>(note.from)];
    if (note.from > self.rank()) self.callers_.push_back(note.from);  // perhaps again
    peer.has_called = true;
    return UCS_OK;
  }
  self.keep_note(note.group, {note.from, std::string(static_cast<const char*>(data), bytes)});
  return UCS_OK;
}

ucs_status_t UcxPeers::on_acknowledgement(void* peers, const void* head, std::size_t head_bytes, void*,
                                          std::size_t, const ucp_am_recv_param_t*) {
  UcxPeers& self = *static_cast<UcxPeers*>(peers);
  ucp_tag_t tag = 0;
  if (head_bytes != sizeof(tag)) return UCS_OK;  // of a stranger
  std::memcpy(&tag, head, sizeof(tag));
  self.acknowledged(tag);
  return UCS_OK;
}

void UcxPeers::send_note(std::uint32_t group, int to, const std::shared_ptr<const std::string>& body) {
  const NoteHead head{group, rank()};
  send_active(to, note_id, std::make_unique<Sent>(Sent{std::bit_cast<decltype(Sent::head)>(head), body}));
}

void UcxPeers::acknowledge(int to, std::uint64_t tag) {
  send_active(to, acknowledgement_id, std::make_unique<Sent>(Sent{std::bit_cast<decltype(Sent::head)>(tag)}));
}

void UcxPeers::send_active(int to, unsigned id, std::unique_ptr<Sent> sent) {
  if (!lost(to).empty()) return;
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = UCP_AM_SEND_FLAG_EAGER;
  sent->to = &peers_[static_cast<std::size_t>(to)];
  how.user_data = sent.get();
  how.cb.send = [](void* request, ucs_status_t, void* user_data) {
    const std::unique_ptr<Sent> gone(static_cast<Sent*>(user_data));
    --gone->to->unsent;
    ucx().ucp_request_free(request);
  };
  const void* const body = sent->body ? sent->body->data() : nullptr;
  const std::size_t bytes = sent->body ? sent->body->size() : 0;
  const ucs_status_ptr_t request =
      ucx().ucp_am_send_nbx(at(to).endpoint, id, sent->head.data(), sent->head.size(), body, bytes, &how);
  if (UCS_PTR_IS_PTR(request)) ++sent.release()->to->unsent;
}

/// Sends what is still to be sent where the rank has ended well; elsewhere what the network takes within a moment.
void UcxPeers::close_endpoints() noexcept {
  std::vector<ucs_status_ptr_t> closing;
  for (Peer& peer : peers_) {
    if (peer.endpoint == nullptr) continue;
    const ucs_status_ptr_t request = begin_to_close(peer, !peer.lost.empty() || has_given_up());
    if (UCS_PTR_IS_PTR(request)) closing.push_back(request);
  }
  finish_closing(closing, Deadline::in(has_given_up() ? to_break_off : to_close));
}

ucs_status_ptr_t UcxPeers::begin_to_close(Peer& peer, bool by_force) noexcept {
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = by_force ? UCP_EP_CLOSE_FLAG_FORCE : 0;
  return ucx().ucp_ep_close_nbx(std::exchange(peer.endpoint, nullptr), &how);
}

void UcxPeers::finish_closing(const std::vector<ucs_status_ptr_t>& closing, Deadline deadline) noexcept {
  for (const ucs_status_ptr_t request : closing) {
    while (ucx().ucp_request_check_status(request) == UCS_INPROGRESS && !deadline.passed())
      ucx().ucp_worker_progress(worker_);
    ucx().ucp_request_free(request);
  }
}

UcxPeers::~UcxPeers() {
  const auto entered = enter();
  leave();
  stop();
}

void UcxPeers::stop() noexcept {
  close_endpoints();
  if (worker_ != nullptr) ucx().ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucx().ucp_cleanup(context_);
}

}  // namespace weft::detail
