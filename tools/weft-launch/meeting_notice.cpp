#include "meeting_notice.hpp"

#include <algorithm>

#include "collectives/bootstrap/gathering.hpp"
#include "collectives/sockets/job_token.hpp"
#include "options.hpp"
#include "weft/collectives/store.hpp"
#include "weft/core/deadline.hpp"
#include "weft/core/env.hpp"
#include "weft/core/error.hpp"

namespace weft::launch {
namespace {

constexpr std::chrono::milliseconds attempt{300};
constexpr std::chrono::milliseconds between_attempts{50};

Environment parsed(const std::vector<std::string>& lines) {
  Environment::Values values;
  for (const std::string& line : lines) {
    const std::size_t end = std::min(line.find('='), line.size() - 1);
    values.insert_or_assign(line.substr(0, end), line.substr(end + 1));
  }
  return Environment(std::move(values));
}

}  // namespace

MeetingNotice::~MeetingNotice() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void MeetingNotice::tell(const std::vector<std::string>& environment, int rank, const std::string& how) {
  if (thread_.joinable()) return;
  is_working_ = true;
  thread_ = std::thread([this, environment, rank, how] { work(environment, rank, how); });
}

bool MeetingNotice::is_telling() {
  const std::lock_guard lock(mutex_);
  return is_working_;
}

bool MeetingNotice::pause(std::chrono::nanoseconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [this] { return is_over_; });
}

// Rank 0 may not listen yet, so that one attempt is not enough.
void MeetingNotice::work(const std::vector<std::string>& environment, int rank, const std::string& how) {
  const Deadline deadline = Deadline::in(to_notice);
  try {
    const Environment of_rank = parsed(environment);
    const std::string place = of_rank.value(env::rendezvous);
    const bool is_tcp = place.starts_with("tcp:");
    const StoreOptions options{.token = is_tcp ? detail::job_token(of_rank) : "",
                               .bind = of_rank.value(env::bind)};
    do {
      try {
        const auto store = open_store(place, rank, Deadline::in(attempt), options);
        store->set(detail::EndedRank::key, detail::EndedRank{rank, how}.encode());
        if (rank == 0) (void)pause(deadline.left());
        break;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::timeout)
          break;  // another was first, or what is there is no meeting of this job
      }
    } while (!deadline.passed() && pause(between_attempts));
  } catch (
      const Error&) {  // NOLINT(bugprone-empty-catch): the rank itself had the same settings, and has said what is wrong with them
  }
  const std::lock_guard lock(mutex_);
  is_working_ = false;
}

}  // namespace weft::launch
