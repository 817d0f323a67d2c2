#include "collectives/backends/mpi.hpp"

#include <algorithm>
#include <set>

#include "collectives/algorithms/exchange.hpp"
#include "collectives/algorithms/shared_ground.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

// MPI counts are int; longer messages travel in segments.
constexpr std::size_t segment_bytes = std::size_t{1} << 30;
// Collectives of one communicator follow each other and MPI keeps the order of a pair, so tags only guard
// against programs that go astray; the smallest limit MPI promises is 32767.
constexpr int tags = 16384;
constexpr int transfer_tag = tags;

class MpiExchange final : public Task {
 public:
  MpiExchange(std::shared_ptr<MpiRendezvous> rendezvous, ExchangePlan plan, int tag,
              std::chrono::nanoseconds timeout)
      : rendezvous_(std::move(rendezvous)),
        plan_(std::move(plan)),
        tag_(tag),
        timeout_(timeout),
        patience_(timeout) {}

  ~MpiExchange() override {
    if (requests_.empty()) return;
    // Given up: MPI may still write to the scratch, and can no longer be finalized in peace.
    rendezvous_->runtime()->mark_broken();
    MpiRuntime::keep_for_ever(std::make_shared<ExchangePlan>(std::move(plan_)));
  }

  bool advance() override {
    for (; phase_ < plan_.phases.size(); ++phase_, posted_ = false) {
      if (!posted_) post();
      if (!arrived()) {
        if (patience_.time_to_look() && patience_.exhausted()) time_out();
        return false;
      }
      if (plan_.phases[phase_].then) plan_.phases[phase_].then();
    }
    return true;
  }

 private:
  struct Pending {
    const Message* message;
    std::size_t bytes;
  };

  void post() {
    posted_ = true;
    if (phase_ == 0) patience_ = Patience(timeout_);  // from now: the stream may have had much to do before
    const auto entered = rendezvous_->runtime()->enter();
    for (const Message& message : plan_.phases[phase_].messages) {
      std::size_t begin = 0;
      do {
        const std::size_t bytes = std::min(segment_bytes, message.bytes - begin);
        post(message, begin, bytes);
        begin += bytes;
      } while (begin < message.bytes);
    }
  }

  void post(const Message& message, std::size_t begin, std::size_t bytes) {
    MPI_Request request = MPI_REQUEST_NULL;
    const auto count = static_cast<int>(bytes);
    const MPI_Comm comm = rendezvous_->communicator();
    if (message.sends) {
      MpiRuntime::check(MPI_Isend(message.out + begin, count, MPI_BYTE, message.peer, tag_, comm, &request),
                        "MPI_Isend");
    } else {
      MpiRuntime::check(MPI_Irecv(message.in + begin, count, MPI_BYTE, message.peer, tag_, comm, &request),
                        "MPI_Irecv");
    }
    requests_.push_back(request);
    pending_.push_back({&message, bytes});
  }

  bool arrived() {
    if (requests_.empty()) return true;
    int completed = 0;
    indices_.resize(requests_.size());
    statuses_.resize(requests_.size());
    {
      const auto entered = rendezvous_->runtime()->enter();
      const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &completed,
                                    indices_.data(), statuses_.data());
      if (code != MPI_ERR_IN_STATUS) MpiRuntime::check(code, "MPI_Testsome");
      if (completed == MPI_UNDEFINED) completed = 0;
      for (int i = 0; i < completed; ++i)
        check(statuses_[static_cast<std::size_t>(i)], code, indices_[static_cast<std::size_t>(i)]);
    }
    if (std::ranges::any_of(requests_, [](MPI_Request request) { return request != MPI_REQUEST_NULL; }))
      return false;
    requests_.clear();
    pending_.clear();
    return true;
  }

  void check(const MPI_Status& status, int code, int index) const {
    const Pending& pending = pending_[static_cast<std::size_t>(index)];
    if (code == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING) {
      int error_class = MPI_SUCCESS;
      MPI_Error_class(status.MPI_ERROR, &error_class);
      if (error_class == MPI_ERR_TRUNCATE)
        disagree(*pending.message, text("more than ", pending.bytes), pending.bytes);
      MpiRuntime::check(status.MPI_ERROR, "MPI_Testsome");
    }
    if (pending.message->sends) return;
    int received = 0;
    MPI_Get_count(&status, MPI_BYTE, &received);
    if (static_cast<std::size_t>(received) != pending.bytes)
      disagree(*pending.message, text(received), pending.bytes);
  }

  [[noreturn]] void disagree(const Message& message, const std::string& sent, std::size_t expected) const {
    throw Error(ErrorKind::mismatch,
                text("rank ", message.peer, " sent ", sent, " bytes where rank ", rendezvous_->rank(),
                     " receives ", expected),
                "issue the same operations with the same counts on every rank");
  }

  [[noreturn]] void time_out() const {
    std::set<int> missing;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] != MPI_REQUEST_NULL) missing.insert(pending_[i].message->peer);
    }
    std::ostringstream names;
    for (const int rank : missing) names << (names.tellp() == 0 ? "" : ", ") << "rank " << rank;
    throw Error(ErrorKind::timeout, text("waited ", patience_.waited_seconds(), " s for ", names.str()),
                "look at what those ranks do, or raise the timeout");
  }

  std::shared_ptr<MpiRendezvous> rendezvous_;
  ExchangePlan plan_;
  int tag_;
  std::chrono::nanoseconds timeout_;
  Patience patience_;
  std::size_t phase_ = 0;
  bool posted_ = false;
  std::vector<MPI_Request> requests_;
  std::vector<Pending> pending_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
};

class MpiBackend final : public Backend {
 public:
  MpiBackend(std::shared_ptr<MpiRendezvous> rendezvous, std::chrono::nanoseconds timeout)
      : rendezvous_(std::move(rendezvous)), timeout_(timeout) {}

  std::string name() const override { return "host (MPI)"; }
  bool any_thread() const override { return rendezvous_->runtime()->any_thread(); }

  std::unique_ptr<Task> start(const Operation& operation, const Stream&) override {
    return std::make_unique<MpiExchange>(rendezvous_,
                                         plan_exchange(operation, rendezvous_->rank(), rendezvous_->size()),
                                         static_cast<int>(operation.number % tags), timeout_);
  }
  std::unique_ptr<Task> start(std::vector<Transfer> transfers, const Stream&) override {
    return std::make_unique<MpiExchange>(rendezvous_, plan_exchange(transfers), transfer_tag, timeout_);
  }
  Buffer allocate(DataType dtype, std::int64_t count) override { return Buffer::on_host(dtype, count); }

  std::shared_ptr<Backend> split(const std::vector<int>&,
                                 const std::shared_ptr<Rendezvous>& rendezvous) override {
    return make_mpi_backend(std::dynamic_pointer_cast<MpiRendezvous>(rendezvous), timeout_);
  }

  // Peers on other nodes cannot be told; the launcher ends them when this rank ends without finalizing MPI.
  void give_up(const std::string&) noexcept override { rendezvous_->runtime()->mark_broken(); }

 private:
  std::shared_ptr<MpiRendezvous> rendezvous_;
  std::chrono::nanoseconds timeout_;
};

}  // namespace

std::shared_ptr<Backend> make_mpi_backend(std::shared_ptr<MpiRendezvous> rendezvous,
                                          std::chrono::nanoseconds timeout) {
  return std::make_shared<MpiBackend>(std::move(rendezvous), timeout);
}

}  // namespace weft::detail
