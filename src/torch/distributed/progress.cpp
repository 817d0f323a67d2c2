#include "torch/distributed/progress.hpp"

#include <torch/csrc/python_headers.h>

#include <algorithm>

#include "core/memory/per_process.hpp"
#include "torch/distributed/group.hpp"
#include "weft/core/backoff.hpp"

namespace weft::distributed {
namespace {

thread_local int level = 0;

/// Resolves futures, one after the other.
class Callbacks {
 public:
  explicit Callbacks(int own_level) : state_(std::make_shared<State>()) {
    thread_ = std::thread([state = state_, own_level] { run(*state, own_level); });
  }
  ~Callbacks() {
    {
      const std::lock_guard lock(state_->mutex);
      state_->is_stopping = true;
    }
    state_->wake.notify_one();
    if (thread_.get_id() == std::this_thread::get_id()) {
      thread_.detach();
    } else {
      thread_.join();
    }
  }
  void add(const TorchWorkPtr& work) {
    {
      const std::lock_guard lock(state_->mutex);
      state_->works.push_back(work);
    }
    state_->wake.notify_one();
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable wake;
    std::deque<TorchWorkPtr> works;
    bool is_stopping = false;
  };
  static void run(State& state, int own_level) {
    level = own_level;
    std::unique_lock lock(state.mutex);
    for (;;) {
      state.wake.wait(lock, [&] { return state.is_stopping || !state.works.empty(); });
      if (state.is_stopping) return;
      TorchWorkPtr work = std::move(state.works.front());
      state.works.pop_front();
      lock.unlock();
      work->resolve();
      work.reset();
      lock.lock();
    }
  }

  std::shared_ptr<State> state_;
  std::thread thread_;
};

constinit detail::PerProcess<std::weak_ptr<Progress>> of_each_process;

}  // namespace

int callback_level() {
  return level;
}

void without_python(const std::function<void()>& call) {
  if (Py_IsInitialized() == 0 || PyGILState_Check() == 0) return call();
  PyThreadState* state = PyEval_SaveThread();
  call();
  PyEval_RestoreThread(state);
}

/// What outlives the Progress where its thread is the one that ends it.
struct Progress::Shared {
  const detail::Origin origin;
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<TorchWorkPtr> watched;
  std::vector<TorchWorkPtr> abandoned;  ///< at the end of the program: peers may still reach what they use
  bool is_stopping = false;
  bool looks_again = false;
  std::thread thread;
  std::mutex callbacks_mutex;
  std::vector<std::unique_ptr<Callbacks>> callbacks;  ///< by level

  void run();
  bool round(const std::vector<TorchWorkPtr>& works, std::uint64_t number);
  static void rest_on(const std::vector<TorchWorkPtr>& works, std::chrono::microseconds at_most);
  bool has_work() const {
    return std::any_of(watched.begin(), watched.end(),
                       [](const TorchWorkPtr& work) { return work->is_over() || !work->is_driven(); });
  }
};

void Progress::Shared::run() {
  constexpr std::chrono::microseconds shortest_rest{20};
  constexpr std::chrono::microseconds longest_rest{1000};
  constexpr int looks_without_rest = 50;
  std::vector<TorchWorkPtr> works;
  auto rest = shortest_rest;
  int looks = 0;
  std::uint64_t number = 0;
  std::unique_lock lock(mutex);
  for (;;) {
    wake.wait(lock, [this] { return is_stopping || looks_again || has_work(); });
    if (is_stopping) return;
    if (looks_again) {
      rest = shortest_rest;
      looks = 0;
    }
    looks_again = false;
    works = watched;
    lock.unlock();
    const bool has_moved = round(works, ++number);
    const bool is_idle = !has_moved && ++looks > looks_without_rest;
    if (has_moved) {
      rest = shortest_rest;
      looks = 0;
    } else if (is_idle && !works.empty()) {
      rest_on(works, rest);
      rest = std::min(2 * rest, works.size() > 1 ? 5 * shortest_rest : longest_rest);
    }
    works.clear();
    lock.lock();
    if (has_moved) {
      const auto gone = std::stable_partition(
          watched.begin(), watched.end(), [](const TorchWorkPtr& work) { return !work->is_handed_out(); });
      works.assign(std::make_move_iterator(gone), std::make_move_iterator(watched.end()));
      watched.erase(gone, watched.end());
      lock.unlock();
      works.clear();  // may end groups
      lock.lock();
    }
  }
}

/// On the first that no caller waits for.
void Progress::Shared::rest_on(const std::vector<TorchWorkPtr>& works, std::chrono::microseconds at_most) {
  for (const TorchWorkPtr& work : works) {
    if (!work->is_driven()) return work->rest(at_most);
  }
}

/// @returns whether one is over
bool Progress::Shared::round(const std::vector<TorchWorkPtr>& works, std::uint64_t number) {
  bool has_moved = false;
  for (const TorchWorkPtr& work : works) {
    if (work->is_ordered() && work->group().held_up == number) {
      if (!work->is_driven()) work->poll();
      continue;
    }
    const bool is_over = work->is_driven() ? work->is_over() : work->poll();
    if (is_over) {
      work->announce();
      has_moved = true;
    } else if (work->is_ordered()) {
      work->group().held_up = number;
    }
  }
  return has_moved;
}

std::shared_ptr<Progress> Progress::of_process() {
  return of_each_process.use([](std::weak_ptr<Progress>& known) {
    auto progress = known.lock();
    if (!progress) known = progress = std::make_shared<Progress>();
    return progress;
  });
}

void Progress::stop_all() {
  const auto progress =
      of_each_process.use([](const std::weak_ptr<Progress>& known) { return known.lock(); });
  if (progress) progress->stop();
}

Progress::Progress() : shared_(std::make_shared<Shared>()) {}

Progress::~Progress() {
  stop();
}

void Progress::stop() {
  if (!shared_->origin.is_here()) return detail::keep_for_ever(std::shared_ptr(shared_));
  without_python([this] { end_threads(); });
}

void Progress::end_threads() {
  std::thread thread;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->is_stopping = true;
    thread = std::move(shared_->thread);
  }
  shared_->wake.notify_one();
  if (thread.joinable()) {
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }
  std::vector<std::unique_ptr<Callbacks>> callbacks;  // ends after the lock
  {
    const std::lock_guard lock(shared_->callbacks_mutex);
    callbacks.swap(shared_->callbacks);
  }
}

void Progress::watch(const TorchWorkPtr& work) {
  if (!shared_->origin.is_here()) return detail::keep_for_ever(work);  // the parent goes on with it
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->is_stopping) {
      shared_->abandoned.push_back(work);
      return;
    }
    work->watched();
    shared_->watched.push_back(work);
    shared_->looks_again = true;
    if (!shared_->thread.joinable()) shared_->thread = std::thread([shared = shared_] { shared->run(); });
  }
  shared_->wake.notify_one();
}

void Progress::forget(const TorchWork& work) {
  if (!shared_->origin.is_here()) return;
  TorchWorkPtr gone;  // goes after the lock
  const std::lock_guard lock(shared_->mutex);
  auto& watched = shared_->watched;
  const auto at = std::find_if(watched.begin(), watched.end(),
                               [&](const TorchWorkPtr& each) { return each.get() == &work; });
  if (at == watched.end()) return;
  gone = std::move(*at);
  watched.erase(at);
}

bool Progress::look_again() {
  if (!shared_->origin.is_here()) return false;
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->is_stopping) return false;
    shared_->looks_again = true;
  }
  shared_->wake.notify_one();
  return true;
}

void Progress::call_back(const TorchWorkPtr& work) {
  const std::lock_guard lock(shared_->callbacks_mutex);
  const auto at = static_cast<std::size_t>(work->level());
  if (shared_->callbacks.size() <= at) shared_->callbacks.resize(at + 1);
  if (!shared_->callbacks[at]) shared_->callbacks[at] = std::make_unique<Callbacks>(work->level() + 1);
  shared_->callbacks[at]->add(work);
}

}  // namespace weft::distributed
