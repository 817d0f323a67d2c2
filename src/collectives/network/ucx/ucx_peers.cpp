#include "collectives/network/ucx/ucx_peers.hpp"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "collectives/diagnosis/agree.hpp"
#include "core/streams/interruption.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

constexpr unsigned note_id = 0;  // of active messages
constexpr unsigned acknowledgement_id = 1;
constexpr std::chrono::milliseconds to_close{2000};
constexpr std::chrono::seconds a_moment{5};

void check(ucs_status_t status, const char* call) {
  if (status == UCS_OK) return;
  throw Error(ErrorKind::system, text(call, " failed: ", ucx().ucs_status_string(status)), ucx_advice);
}

/// Without RDMA nothing is gained by asking a receiver before a segment is sent: the question and its answer wait behind whatever
/// fills the line (bench/results). What is under way is bounded by acknowledgements of parts instead.
constexpr const char* never_ask = "inf";

bool has_rdma() {
  std::error_code failed;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", failed);
  return !failed && devices != std::filesystem::directory_iterator();
}

/// UCX leaves out an interface without a link, for good, and a link may be down for a moment. Waits where there are only such interfaces.
void wait_for_a_link(Deadline deadline) {
  for (bool waits = true; waits && !deadline.passed();) {
    ifaddrs* first = nullptr;
    if (getifaddrs(&first) != 0) return;
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(first, &freeifaddrs);
    waits = false;
    for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
      if ((one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
      if ((one->ifa_flags & IFF_RUNNING) != 0) return;
      waits = true;
    }
    if (!waits) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    Interruption::look();
  }
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
  abort_message_.emplace();
  will_call("ucp_init");
  try {
    // Before the connections break, which the others would take for the end of this rank.
    or_call_off(rendezvous, [&] {
      expect_own_ucx(rendezvous.rank());
      wait_for_a_link(Deadline::in(std::min<std::chrono::nanoseconds>(a_moment, deadline.left() / 2)));
      reach(agree(
          rendezvous, "connect: addresses of UCX", deadline, [&] { return introduction(environment); },
          "use UCX"));
      meet(rendezvous, deadline);
    });
    abort_message_.reset();
  } catch (...) {
    give_up();
    has_begun_ ? leave_to_the_end() : stop();
    abort_message_.reset();
    throw;
  }
}

/// Version and address.
std::string UcxPeers::introduction(const Environment& environment) {
  start(environment);
  return text(version_text(), '\n', address());
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

void UcxPeers::on_error(void* which, ucp_ep_h, ucs_status_t status) {
  Peer& peer = *static_cast<Peer*>(which);
  if (!std::exchange(peer.has_failed, true)) peer.all->lose(peer.rank, ucx().ucs_status_string(status));
}

void UcxPeers::progress(Messages* /*whose*/) {
  constexpr int most = 64;  // who waits also has sums to do
  for (int i = 0; i < most && !is_frozen_ && ucx().ucp_worker_progress(worker_) != 0; ++i) {
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

void UcxPeers::send_note(const RankGroup& group, int to, const std::shared_ptr<const std::string>& body) {
  const NoteHead head{group.number, rank()};
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
  if (is_frozen_) return;  // they end with the worker
  std::vector<ucs_status_ptr_t> closing;
  for (Peer& peer : peers_) {
    if (peer.endpoint == nullptr) continue;
    const ucs_status_ptr_t request = begin_to_close(peer, !lost(peer.rank).empty() || has_given_up());
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

// Where a connection is only half made, UCX 1.13 ends the process in ucp_worker_destroy() and ucp_ep_close_nbx(), by an assertion that no message of a
// handshake waits there; what this rank has to say would be lost with it. The kernel closes the connections when the process ends.
void UcxPeers::leave_to_the_end() noexcept {
  struct Unclosed {
    ucp_context_h context;
    ucp_worker_h worker;
    std::vector<Peer> peers;  // to which UCX has pointers
  };
  try {
    static std::mutex mutex;
    static auto* const kept =
        new std::list<Unclosed>;  // not destroyed: UCX's own threads may use them until the end
    const std::lock_guard lock(mutex);
    kept->push_back({context_, worker_, std::move(peers_)});
  } catch (
      ...) {  // NOLINT(bugprone-empty-catch): no memory for the list; the process keeps them all the same
  }
}

void UcxPeers::stop() noexcept {
  close_endpoints();
  if (worker_ != nullptr) ucx().ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucx().ucp_cleanup(context_);
}

}  // namespace weft::detail
