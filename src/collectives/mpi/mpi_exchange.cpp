#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>

#include "collectives/diagnosis/poll_deadline.hpp"
#include "collectives/kernels/reduce_kernel.hpp"
#include "collectives/mpi/mpi_tasks.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

// Small enough that Open MPI sends a segment at once over TCP: a longer one asks first, and the answer waits
// behind whatever fills the line. Whole elements of every type.
constexpr std::size_t segment_bytes = 60 << 10;
// For each flow. A flow of more is sent synchronously, so that no more than this is really on its way:
// the rest would only wait in the network's queues, which drop what does not fit (bench/results: 4 hosts at 1
// Gbit/s).
constexpr std::size_t segments_in_flight = 8;

class MpiExchange final : public Task {
 public:
  /// @param tag of the first stage; the others follow
  MpiExchange(std::shared_ptr<MpiPeers> peers, ExchangePlan plan, int tag, std::chrono::nanoseconds timeout);
  ~MpiExchange() override;
  bool advance() override;

 private:
  /// How far a flow is, in bytes from its beginning.
  struct Progress {
    std::size_t ready = 0;  ///< may be begun
    std::size_t begun = 0;
    std::size_t done = 0;
    std::deque<bool> ended{};             ///< the segments from `done` on
    bool is_begun = false;                ///< an empty message has no bytes to tell
    std::optional<std::size_t> before{};  ///< the flow before it between the same two ranks
  };
  struct Request {
    std::size_t flow;
    std::size_t begin;
    std::size_t bytes;
  };

  void begin();
  /// Begins what may be begun. True: something was.
  bool post();
  void post_segment(std::size_t index);
  /// Takes note of what has ended. True: something has.
  bool collect();
  void end(const Request& request);
  bool reduce_arrived();
  std::size_t ready(std::size_t index) const;
  bool complete() const;
  int name_of(int rank) const { return peers_->names[static_cast<std::size_t>(rank)]; }
  void check(const MPI_Status& status, int code, const Request& request) const;
  [[noreturn]] void disagree(const Flow& flow, const std::string& sent, std::size_t expected) const;
  [[noreturn]] void time_out() const;

  std::shared_ptr<MpiPeers> peers_;
  std::shared_ptr<MpiRendezvous> rendezvous_;
  ExchangePlan plan_;
  int tag_;
  std::chrono::nanoseconds timeout_;
  PollDeadline poll_deadline_;
  bool begun_ = false;
  std::vector<Progress> progress_;    // by flow
  std::vector<std::size_t> reduced_;  // bytes, by reduction
  std::vector<MPI_Request> handles_;  // in flight
  std::vector<Request> requests_;     // the same
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
};

MpiExchange::MpiExchange(std::shared_ptr<MpiPeers> peers, ExchangePlan plan, int tag,
                         std::chrono::nanoseconds timeout)
    : peers_(std::move(peers)),
      rendezvous_(peers_->rendezvous),
      plan_(std::move(plan)),
      tag_(tag),
      timeout_(timeout),
      poll_deadline_(timeout),
      progress_(plan_.flows.size()),
      reduced_(plan_.reductions.size()) {
  std::map<std::tuple<int, bool, int>, std::size_t> latest;
  for (std::size_t i = 0; i < plan_.flows.size(); ++i) {
    const Flow& flow = plan_.flows[i];
    const auto direction = std::tuple(flow.peer, flow.sends, flow.stage);
    if (const auto found = latest.find(direction); found != latest.end()) progress_[i].before = found->second;
    latest[direction] = i;
  }
}

MpiExchange::~MpiExchange() {
  if (handles_.empty()) {
    peers_->scratch.give_back(std::move(plan_.scratch));
    return;
  }
  // Given up: MPI may still write to the scratch, and can no longer be finalized in peace.
  rendezvous_->runtime()->mark_broken();
  MpiRuntime::keep_for_ever(std::make_shared<ExchangePlan>(std::move(plan_)));
}

bool MpiExchange::advance() {
  if (!begun_) begin();
  bool moved = false;
  {
    const auto entered = rendezvous_->runtime()->enter();
    moved = collect();
  }
  moved = reduce_arrived() || moved;
  {
    const auto entered = rendezvous_->runtime()->enter();
    moved = post() || moved;
  }
  if (complete()) return true;
  if (moved) {
    poll_deadline_ = PollDeadline(timeout_);  // the peers are there
  } else if (poll_deadline_.time_to_look() && poll_deadline_.exhausted()) {
    time_out();
  }
  return false;
}

void MpiExchange::begin() {
  begun_ = true;
  poll_deadline_ = PollDeadline(timeout_);  // from now: the stream may have had much to do before
  if (plan_.begin) plan_.begin();
}

bool MpiExchange::post() {
  bool any = false;
  // A segment of each in turn, so that every peer gets something to do.
  for (bool more = true; more;) {
    more = false;
    for (std::size_t i = 0; i < plan_.flows.size(); ++i) {
      const Flow& flow = plan_.flows[i];
      const Progress& own = progress_[i];
      if (own.is_begun && own.begun == flow.bytes) continue;
      if (own.ended.size() >= segments_in_flight) continue;
      if (own.before &&
          (!progress_[*own.before].is_begun || progress_[*own.before].begun < plan_.flows[*own.before].bytes))
        continue;
      if (ready(i) < std::min(flow.bytes, own.begun + segment_bytes)) continue;
      post_segment(i);
      more = any = true;
    }
  }
  return any;
}

std::size_t MpiExchange::ready(std::size_t index) const {
  const Flow& flow = plan_.flows[index];
  if (flow.made) return progress_[index].ready;
  return flow.after ? progress_[*flow.after].done : flow.bytes;
}

void MpiExchange::post_segment(std::size_t index) {
  const Flow& flow = plan_.flows[index];
  Progress& own = progress_[index];
  const std::size_t begin = own.begun;
  const std::size_t bytes = std::min(segment_bytes, flow.bytes - begin);
  const MPI_Comm comm = rendezvous_->communicator();
  const auto count = static_cast<int>(bytes);
  MPI_Request handle = MPI_REQUEST_NULL;
  if (flow.sends) {
    const bool is_long = flow.bytes > segments_in_flight * segment_bytes;
    MpiRuntime::check((is_long ? MPI_Issend : MPI_Isend)(flow.out + begin, count, MPI_BYTE, flow.peer,
                                                         tag_ + flow.stage, comm, &handle),
                      is_long ? "MPI_Issend" : "MPI_Isend");
    if (!peers_->are_near[static_cast<std::size_t>(flow.peer)]) peers_->network_bytes += bytes;
  } else {
    MpiRuntime::check(
        MPI_Irecv(flow.in + begin, count, MPI_BYTE, flow.peer, tag_ + flow.stage, comm, &handle),
        "MPI_Irecv");
  }
  own.is_begun = true;
  own.begun += bytes;
  own.ended.push_back(false);
  handles_.push_back(handle);
  requests_.push_back({index, begin, bytes});
}

bool MpiExchange::collect() {
  if (handles_.empty()) return false;
  indices_.resize(handles_.size());
  statuses_.resize(handles_.size());
  int ended = 0;
  const int code = MPI_Testsome(static_cast<int>(handles_.size()), handles_.data(), &ended, indices_.data(),
                                statuses_.data());
  if (code != MPI_ERR_IN_STATUS) MpiRuntime::check(code, "MPI_Testsome");
  if (ended == MPI_UNDEFINED || ended == 0) return false;
  for (int i = 0; i < ended; ++i) {
    const Request& request = requests_[static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)])];
    check(statuses_[static_cast<std::size_t>(i)], code, request);
    end(request);
  }
  for (std::size_t i = handles_.size(); i-- > 0;) {
    if (handles_[i] != MPI_REQUEST_NULL) continue;
    handles_[i] = handles_.back();
    requests_[i] = requests_.back();
    handles_.pop_back();
    requests_.pop_back();
  }
  return true;
}

// Segments may end in any order; what counts is up to where all have.
void MpiExchange::end(const Request& request) {
  Progress& own = progress_[request.flow];
  own.ended[(request.begin - own.done) / segment_bytes] = true;
  while (!own.ended.empty() && own.ended.front()) {
    own.ended.pop_front();
    own.done = std::min(own.done + segment_bytes, plan_.flows[request.flow].bytes);
  }
}

bool MpiExchange::reduce_arrived() {
  bool any = false;
  for (std::size_t i = 0; i < plan_.reductions.size(); ++i) {
    const Reduction& one = plan_.reductions[i];
    std::size_t arrived = one.bytes;
    for (const std::size_t flow : one.from) arrived = std::min(arrived, progress_[flow].done);
    const std::size_t begin = reduced_[i];
    if (arrived == begin) continue;
    std::vector<const std::byte*> sources;
    for (const std::byte* source : one.sources) sources.push_back(source + begin);
    std::byte* const result = one.result + begin;
    reduce(sources, {std::span(&result, 1)},
           static_cast<std::int64_t>((arrived - begin) / size_of(plan_.dtype)), plan_.dtype, one.op,
           one.divisor);
    reduced_[i] = arrived;
    for (const std::size_t flow : one.into) progress_[flow].ready = arrived;
    any = true;
  }
  return any;
}

bool MpiExchange::complete() const {
  if (!handles_.empty()) return false;
  for (std::size_t i = 0; i < plan_.flows.size(); ++i) {
    if (!progress_[i].is_begun || progress_[i].done < plan_.flows[i].bytes) return false;
  }
  for (std::size_t i = 0; i < plan_.reductions.size(); ++i) {
    if (reduced_[i] < plan_.reductions[i].bytes) return false;
  }
  return true;
}

void MpiExchange::check(const MPI_Status& status, int code, const Request& request) const {
  const Flow& flow = plan_.flows[request.flow];
  if (code == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING) {
    int error_class = MPI_SUCCESS;
    MPI_Error_class(status.MPI_ERROR, &error_class);
    if (error_class == MPI_ERR_TRUNCATE)
      disagree(flow, text("more than ", request.begin + request.bytes), flow.bytes);
    MpiRuntime::check(status.MPI_ERROR, "MPI_Testsome");
  }
  if (flow.sends) return;
  int received = 0;
  MPI_Get_count(&status, MPI_BYTE, &received);
  if (static_cast<std::size_t>(received) != request.bytes)
    disagree(flow, text(request.begin + static_cast<std::size_t>(received)), flow.bytes);
}

void MpiExchange::disagree(const Flow& flow, const std::string& sent, std::size_t expected) const {
  throw Error(ErrorKind::mismatch,
              text("rank ", name_of(flow.peer), " sent ", sent, " bytes where rank ",
                   name_of(rendezvous_->rank()), " receives ", expected),
              "issue the same operations with the same counts on every rank");
}

void MpiExchange::time_out() const {
  std::set<int> missing;
  for (const Request& request : requests_) missing.insert(plan_.flows[request.flow].peer);
  std::ostringstream names;
  for (const int rank : missing) names << (names.tellp() == 0 ? "" : ", ") << "rank " << name_of(rank);
  throw Error(ErrorKind::timeout, text("waited ", poll_deadline_.waited_seconds(), " s for ", names.str()),
              "look at what those ranks do, or raise the timeout");
}

}  // namespace

std::unique_ptr<Task> make_mpi_exchange(std::shared_ptr<MpiPeers> peers, ExchangePlan plan, int tag,
                                        std::chrono::nanoseconds timeout) {
  return std::make_unique<MpiExchange>(std::move(peers), std::move(plan), tag, timeout);
}

}  // namespace weft::detail
