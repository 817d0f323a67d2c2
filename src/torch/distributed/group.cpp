#include "torch/distributed/group.hpp"

#include <unistd.h>

#include <sstream>
#include <thread>

#include "core/streams/interruption.hpp"
#include "torch/distributed/device/device_work.hpp"
#include "torch/distributed/errors.hpp"
#include "torch/distributed/progress.hpp"
#include "torch/distributed/signals.hpp"
#include "weft/collectives/rendezvous.hpp"
#include "weft/collectives/world.hpp"
#include "weft/core/backoff.hpp"

namespace weft::distributed {

GroupName GroupName::pair(int low, int high) const {
  const auto in_world = [this](int rank) {
    return ranks.empty() ? rank : ranks[static_cast<std::size_t>(rank)];
  };
  return {name, {in_world(low), in_world(high)}, true};
}

std::shared_ptr<Group> Group::connect(const Membership& member, GroupName name,
                                      std::chrono::milliseconds timeout) {
  auto progress = Progress::of_process();
  const RunsSignalHandlers signals;
  try {
    const World world = World::over(make_store_rendezvous(member.store, member.key, member.rank, member.size),
                                    {.connect_timeout = timeout, .timeout = timeout, .device = member.device},
                                    Environment::of_process());
    Communicator comm = weft::connect(world);
    auto lane = member.device.is_host() ? nullptr : make_lane(member.device);
    return std::make_shared<Group>(std::move(comm), std::move(name), timeout, std::move(progress),
                                   std::move(lane));
  } catch (...) {
    std::rethrow_exception(
        distributed::as_torch_error(std::current_exception(), " (of group " + name.name + ")"));
  }
}

Group::Group(Communicator comm, GroupName name, std::chrono::milliseconds timeout,
             std::shared_ptr<Progress> progress, std::unique_ptr<Lane> lane)
    : rank_(comm.rank()),
      size_(comm.size()),
      backend_(comm.backend()),
      name_(std::move(name)),
      timeout_(timeout),
      progress_(std::move(progress)),
      lane_(std::move(lane)),
      stream_(lane_ ? lane_->stream() : Stream()),
      comm_(std::move(comm)) {}

std::exception_ptr Group::as_torch_error(const std::exception_ptr& error) const {
  std::ostringstream where;
  bool is_world = true;
  for (std::size_t i = 0; i < name_.ranks.size(); ++i)
    is_world = is_world && name_.ranks[i] == static_cast<std::int64_t>(i);
  if (!is_world) {
    where << " (in group " << name_.name << ", whose ranks are these of the world:";
    for (const std::int64_t rank : name_.ranks) where << ' ' << rank;
    where << ')';
  }
  return distributed::as_torch_error(error, where.str());
}

void Group::expect_here() const {
  if (!is_here())
    std::rethrow_exception(backend_error(
        text("weft: process ", getpid(), " uses group ", name_.name, " of process ", origin_.pid(), ", rank ",
             rank(), " of ", size(),
             ", which forked it; communicate in the parent, or call init_process_group() in the "
             "child for a group of its own")));
}

void Group::expect_open() const {
  expect_here();
  if (is_closed_)
    std::rethrow_exception(
        backend_error(text("weft: group ", name_.name, " of rank ", rank(), " is closed; make a new one")));
}

void Group::start(const TorchWorkPtr& work) {
  bool is_queued = false;
  expect_here();  // another thread of the parent may have had the lock
  {
    const std::lock_guard lock(mutex_);
    expect_open();
    if (work->is_ordered()) work->number(sequence_.fetch_add(1) + 1);
    is_queued = !queue_.empty();
    if (!is_queued) {
      try {
        work->issue_next(*comm_, stream_);
      } catch (...) {
        if (!work->has_issued()) std::rethrow_exception(as_torch_error(std::current_exception()));
        work->refuse_next(
            std::current_exception());  // what is under way keeps the memory; the caller hears at the end
      }
    }
    under_way_.fetch_add(1);
    operations_.fetch_add(1);
    is_queued = is_queued || work->has_further_steps();
    if (is_queued) queue_.push_back(work);
  }
  if (work->poll()) return;
  if (work->call().is_async || is_queued) progress_->watch(work);
}

void Group::start_together(const std::vector<c10::intrusive_ptr<DeviceWork>>& works) {
  expect_here();
  {
    const std::lock_guard lock(mutex_);
    expect_open();
    try {
      hand_over(works);
    } catch (...) {
      const bool is_known = works.size() == 1 && !works.front()->has_issued();
      if (is_known) std::rethrow_exception(as_torch_error(std::current_exception()));
      for (const auto& work : works)
        work->refuse_next(std::current_exception());  // what the device has keeps the memory
    }
    under_way_.fetch_add(static_cast<int>(works.size()));
  }
  for (const auto& work : works) {
    if (!work->poll()) progress_->watch(work);
  }
}

void Group::hand_over(const std::vector<c10::intrusive_ptr<DeviceWork>>& works) {
  lane_->after_current();
  Messages messages(*comm_, name_.is_pair);
  for (const auto& work : works) {
    if (work->is_ordered()) work->number(sequence_.fetch_add(1) + 1);
    work->issue(*comm_, *lane_, messages);
  }
  const std::optional<weft::Work> sent = messages.start(stream_);
  for (const auto& work : works) work->run_end(*lane_);
  const weft::Work last(stream_.record(), "torch operation", sequence_);
  const std::shared_ptr<const Lane::Mark> mark = lane_->mark();
  for (const auto& work : works) work->handed_over(sent ? &*sent : nullptr, last, mark);
}

void Group::in_order(const std::function<void(Communicator&)>& call) {
  expect_here();
  const auto rest = [](std::chrono::microseconds at_most) {
    Backoff::sleep(at_most);
    run_signal_handlers();
  };
  for (Backoff backoff;; backoff.pause(rest)) {
    TorchWorkPtr first;
    {
      const std::lock_guard lock(mutex_);
      expect_open();
      if (queue_.empty()) {
        comm_->timeout(timeout_.load());
        try {
          const RunsSignalHandlers signals;
          return call(*comm_);
        } catch (...) {
          std::rethrow_exception(as_torch_error(std::current_exception()));
        }
      }
      first = queue_.front();
    }
    first->poll();
  }
}

// From here on by threads that may have Python's lock, for which a thread with this one may wait: they try again.
bool Group::go_on(TorchWork& work) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  try {
    work.issue_next(*comm_, stream_);
  } catch (...) {
    work.refuse_next(std::current_exception());
  }
  if (work.has_further_steps()) return true;
  queue_.pop_front();
  issue_waiting();
  return true;
}

bool Group::leave_queue(TorchWork& work) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  if (queue_.empty() || queue_.front().get() != &work) return true;
  queue_.pop_front();
  issue_waiting();
  return true;
}

void Group::issue_waiting() {
  while (!queue_.empty()) {
    TorchWork& next = *queue_.front();
    try {
      next.issue_next(*comm_, stream_);
    } catch (...) {
      next.refuse_next(std::current_exception());
    }
    if (next.has_further_steps()) return;
    queue_.pop_front();
  }
}

void Group::drive_first(const TorchWork& waiting) {
  TorchWorkPtr first;
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || queue_.empty() || queue_.front().get() == &waiting) return;
    first = queue_.front();
  }
  first->poll();
}

void Group::one_is_over() {
  under_way_.fetch_sub(1);
}

// Without the lock, which a call has that waits for other ranks in NCCL.
void Group::abort() {
  if (!is_here()) return;
  is_closed_ = true;
  give_up(Error(ErrorKind::peer_lost, text("group ", name_.name, " was aborted"), "make a new group",
                {rank(), {}, 0}));
  progress_->look_again();
}

// Not the lock of calls, which a thread may have that waits for others.
std::optional<Communicator> Group::communicator() {
  const std::lock_guard lock(leaving_);
  return comm_;
}

void Group::give_up(const Error& error) {
  if (auto comm = communicator()) comm->give_up(error);
}

Buffer Group::allocate(std::int64_t bytes) {
  expect_open();
  auto comm = communicator();
  if (!comm) expect_open();  // it was closed meanwhile
  return comm->allocate(DataType::u8, bytes, Contents::any);
}

// Where a wait was interrupted, or the threads have ended with the program, nothing drives what is under way.
void Group::close(std::chrono::milliseconds at_most, const std::string& exception) {
  if (!is_here()) return;
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  const auto rest = [](std::chrono::microseconds longest) {
    Backoff::sleep(longest);
    detail::Interruption::look();
  };
  const Deadline deadline = Deadline::in(at_most);
  for (Backoff backoff; under_way_.load() > 0 && !deadline.passed() && !was_interrupted_;
       backoff.pause(rest)) {
    if (!progress_->look_again()) break;
  }
  if (under_way_.load() == 0) {
    if (!exception.empty())
      give_up(Error(ErrorKind::system, "an exception of its program ended it: " + exception, "see its output",
                    {rank(), {}, 0}));
    return leave();
  }
  give_up(Error(
      ErrorKind::peer_lost,
      text("group ", name_.name, " was destroyed while ", under_way_.load(), " operations were under way"),
      "wait for what is called before destroy_process_group()", {rank(), {}, 0}));
}

void Group::leave() {
  std::optional<Communicator> last;  // ends after the locks
  const std::lock_guard lock(mutex_);
  const std::lock_guard leaving(leaving_);
  last.swap(comm_);
}

}  // namespace weft::distributed
