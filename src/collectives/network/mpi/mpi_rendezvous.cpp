#if WEFT_HAS_MPI

#include "collectives/network/mpi/mpi_rendezvous.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "collectives/bootstrap/gathering.hpp"
#include "collectives/network/engine/wire_tags.hpp"
#include "collectives/network/mpi/process_deadline.hpp"
#include "collectives/store/store_detail.hpp"
#include "weft/core/backoff.hpp"
#include "weft/core/log.hpp"
#include "weft/interop/mpi.hpp"

namespace weft {
namespace detail {
namespace {

constexpr std::chrono::seconds grace{2};  // for a verdict on its way

/// Asks `done` under the runtime's lock until it holds or the deadline has passed.
template <class Done>
bool until(MpiRuntime& runtime, Deadline deadline, Done done) {
  Backoff backoff;
  while (true) {
    const bool last = deadline.passed();
    {
      const auto lock = runtime.enter();
      if (done()) return true;
    }
    if (last) return false;
    backoff.pause();
  }
}

}  // namespace

/// A message under way with the memory it uses.
struct MpiRendezvous::Transfer {
  std::string bytes;
  MPI_Request request = MPI_REQUEST_NULL;
  int peer = 0;
};

MpiRendezvous::MpiRendezvous(std::shared_ptr<MpiRuntime> runtime, MPI_Comm parent, Deadline deadline,
                             std::chrono::nanoseconds split_timeout)
    : runtime_(std::move(runtime)), split_timeout_(split_timeout) {
  // In memory of its own: should the wait end first, MPI still writes the result there.
  const auto duplicate = std::make_shared<std::pair<MPI_Comm, MPI_Request>>(MPI_COMM_NULL, MPI_REQUEST_NULL);
  {
    const auto lock = runtime_->enter();
    MpiRuntime::check(MPI_Comm_idup(parent, &duplicate->first, &duplicate->second), "MPI_Comm_idup");
  }
  const bool done = until(*runtime_, deadline, [&] {
    int flag = 0;
    MpiRuntime::check(MPI_Test(&duplicate->second, &flag, MPI_STATUS_IGNORE), "MPI_Test");
    return flag != 0;
  });
  if (!done) {
    runtime_->mark_broken();
    MpiRuntime::keep_for_ever(duplicate);
    throw Error(ErrorKind::timeout,
                text("not all ranks of the MPI communicator came within ", seconds_text(deadline),
                     " to make a World"),
                "every rank of the communicator must make one; see which rank is stopped");
  }
  communicator_ = duplicate->first;
  set_up();
}

MpiRendezvous::MpiRendezvous(Adopt /*adopt*/, std::shared_ptr<MpiRuntime> runtime, MPI_Comm communicator,
                             std::chrono::nanoseconds split_timeout)
    : runtime_(std::move(runtime)), split_timeout_(split_timeout), communicator_(communicator) {
  set_up();
}

void MpiRendezvous::set_up() {
  const auto lock = runtime_->enter();
  MpiRuntime::check(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  int rank = 0;
  int size = 1;
  MpiRuntime::check(MPI_Comm_rank(communicator_, &rank), "MPI_Comm_rank");
  MpiRuntime::check(MPI_Comm_size(communicator_, &size), "MPI_Comm_size");
  mine_ = RankIdentity::of_this_process(rank, size);
  void* most = nullptr;
  int is_set = 0;
  MpiRuntime::check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&most), &is_set),
                    "MPI_Comm_get_attr");
  if (is_set != 0) largest_tag_ = *static_cast<int*>(most);
}

MpiRendezvous::~MpiRendezvous() {
  // Freeing is collective: a rank that leaves by an exception must not wait for the others here.
  if (!runtime_->usable() || std::uncaught_exceptions() > 0) return;
  try {
    const auto lock = runtime_->enter();
    MPI_Comm_free(&communicator_);
  } catch (const Error& error) {
    log::warn(text("an MPI communicator was not freed: ", error.problem()));
  }
}

MpiRendezvous::Ptr MpiRendezvous::send(std::string bytes, int to, int tag) {
  auto transfer = std::make_shared<Transfer>(Transfer{std::move(bytes), MPI_REQUEST_NULL, to});
  const auto lock = runtime_->enter();
  MpiRuntime::check(MPI_Isend(transfer->bytes.data(), static_cast<int>(transfer->bytes.size()), MPI_BYTE, to,
                              tag, communicator_, &transfer->request),
                    "MPI_Isend");
  return transfer;
}

/// Starts to receive a message that has announced itself; none: nullptr. The caller holds enter().
MpiRendezvous::Ptr MpiRendezvous::receive(int from, int tag) {
  int found = 0;
  MPI_Message announced = MPI_MESSAGE_NULL;
  MPI_Status status;
  MpiRuntime::check(MPI_Improbe(from, tag, communicator_, &found, &announced, &status), "MPI_Improbe");
  if (found == 0) return nullptr;
  int bytes = 0;
  MpiRuntime::check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
  auto transfer = std::make_shared<Transfer>();
  transfer->bytes.resize(static_cast<std::size_t>(bytes));
  transfer->peer = status.MPI_SOURCE;
  MpiRuntime::check(MPI_Imrecv(transfer->bytes.data(), bytes, MPI_BYTE, &announced, &transfer->request),
                    "MPI_Imrecv");
  return transfer;
}

/// The caller holds enter().
bool MpiRendezvous::ended(const Ptr& transfer) {
  int flag = 0;
  MpiRuntime::check(MPI_Test(&transfer->request, &flag, MPI_STATUS_IGNORE), "MPI_Test");
  return flag != 0;
}

void MpiRendezvous::give_up(const std::vector<Ptr>& transfers) {
  for (const Ptr& transfer : transfers) {
    if (transfer != nullptr && transfer->request != MPI_REQUEST_NULL) MpiRuntime::keep_for_ever(transfer);
  }
  failed_ = true;
  runtime_->mark_broken();
}

std::vector<std::string> MpiRendezvous::all_gather(const std::string& note, const std::string& purpose,
                                                   Deadline deadline) {
  check_entry(purpose, note.size());
  if (failed_) {
    throw Error(ErrorKind::usage, text("the ranks cannot meet for ", purpose, ": they failed to meet before"),
                "end this process; the launcher ends the others", {mine_.rank, {}, 0});
  }
  const Arrival mine{mine_, purpose, note};
  return open_verdict(rank() == 0 ? lead(mine, deadline) : follow(mine, deadline), mine_);
}

std::string MpiRendezvous::lead(const Arrival& mine, Deadline deadline) {
  std::vector<std::optional<std::string>> arrivals(static_cast<std::size_t>(mine_.size));
  arrivals[0] = mine.encode();
  int missing = mine_.size - 1;
  std::vector<Ptr> arriving;
  until(*runtime_, deadline, [&] {
    if (Ptr next = receive(MPI_ANY_SOURCE, wire_tags::arrival)) arriving.push_back(std::move(next));
    std::erase_if(arriving, [&](const Ptr& transfer) {
      if (!ended(transfer)) return false;
      arrivals[static_cast<std::size_t>(transfer->peer)] = std::move(transfer->bytes);
      --missing;
      return true;
    });
    return missing == 0;
  });
  std::string verdict = conclude(mine, arrivals, deadline);

  std::vector<Ptr> leaving;
  for (int rank = 1; rank < mine_.size; ++rank) leaving.push_back(send(verdict, rank, wire_tags::verdict));
  const bool told = until(*runtime_, Deadline::in(grace), [&] {
    std::erase_if(leaving, [&](const Ptr& transfer) { return ended(transfer); });
    return leaving.empty();
  });
  if (missing != 0 || !told) {
    arriving.insert(arriving.end(), leaving.begin(), leaving.end());
    give_up(arriving);
  }
  return verdict;
}

std::string MpiRendezvous::follow(const Arrival& mine, Deadline deadline) {
  const Ptr sent = send(mine.encode(), 0, wire_tags::arrival);
  Ptr answer;
  const bool told = until(*runtime_, later(deadline, grace), [&] {
    if (answer == nullptr) answer = receive(0, wire_tags::verdict);
    return answer != nullptr && ended(answer) && ended(sent);
  });
  if (told) return std::move(answer->bytes);
  give_up({sent, answer});
  throw silent_error(rank(), size(), mine.purpose, deadline);
}

std::shared_ptr<Rendezvous> MpiRendezvous::split(const std::vector<int>& members) {
  const int place = place_among(members, mine_.rank, mine_.size);
  std::string group;
  for (const int member : members) group += text(member, " ");
  // No rank enters MPI_Comm_split, which knows no deadline, before all are here with a group that fits.
  const std::vector<std::string> groups = all_gather(group, "split", Deadline::in(split_timeout_));
  for (const int member : members) {
    if (groups[static_cast<std::size_t>(member)] != group) {
      throw Error(ErrorKind::mismatch,
                  text("split: rank ", mine_.rank, " wants the group ", group, "but rank ", member, " wants ",
                       groups[static_cast<std::size_t>(member)]),
                  "give the same members in the same order on each of them", {mine_.rank, {}, 0});
    }
  }
  MPI_Comm child = MPI_COMM_NULL;
  {
    const ProcessDeadline deadline(mine_.name(), "MPI_Comm_split", split_timeout_, env::timeout);
    const auto lock = runtime_->enter();
    MpiRuntime::check(MPI_Comm_split(communicator_, members.front(), place, &child), "MPI_Comm_split");
  }
  return std::shared_ptr<MpiRendezvous>(new MpiRendezvous(Adopt{}, runtime_, child, split_timeout_));
}

}  // namespace detail

World world_from_mpi(MPI_Comm comm, const WorldOptions& options, const Environment& environment) {
  if (!detail::MpiRuntime::initialised()) {
    throw Error(ErrorKind::usage, "world_from_mpi was called while MPI is not initialised",
                "call MPI_Init_thread first, or World::from_environment, which does it for you");
  }
  const auto connect_timeout = options.connect_timeout.value_or(environment.seconds(env::connect_timeout));
  const auto timeout = options.timeout.value_or(environment.seconds(env::timeout));
  return World::over(
      std::make_shared<detail::MpiRendezvous>(detail::MpiRuntime::acquire({"this rank", connect_timeout}),
                                              comm, Deadline::in(connect_timeout), timeout),
      options, environment, Launcher::mpi);
}

}  // namespace weft

#endif
