// The key-value space of the PMIx server that started this process. libpmix is loaded when it is needed: programs without such a launcher
// need not have it. What rank 0 puts, others get from its server without a fence: they wait for no rank but rank 0, and the store that they meet
// at names who is missing.

#include "collectives/store/launcher_kvs.hpp"
#include "collectives/store/store_detail.hpp"
#include "weft/core/error.hpp"

#if WEFT_HAS_PMIX

#include <pmix.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "core/base/shared_library.hpp"

namespace weft::detail {
namespace {

struct PmixLibrary {
  decltype(&::PMIx_Init) init = nullptr;
  decltype(&::PMIx_Finalize) finalize = nullptr;
  decltype(&::PMIx_Put) put = nullptr;
  decltype(&::PMIx_Commit) commit = nullptr;
  decltype(&::PMIx_Get_nb) get_nb = nullptr;
  decltype(&::PMIx_Error_string) error_string = nullptr;
};

PmixLibrary load_pmix() {
  const SharedLibrary file("libpmix.so.2", "PMIx cannot be loaded",  // of PMIx 2 to 5
                           "install PMIx (libpmix2), or set WEFT_RENDEZVOUS to tcp://HOST:PORT");
  PmixLibrary library;
  file.require(library.init, "PMIx_Init");
  file.require(library.finalize, "PMIx_Finalize");
  file.require(library.put, "PMIx_Put");
  file.require(library.commit, "PMIx_Commit");
  file.require(library.get_nb, "PMIx_Get_nb");
  file.require(library.error_string, "PMIx_Error_string");
  return library;
}

const PmixLibrary& pmix() {
  static const PmixLibrary library = load_pmix();
  return library;
}

Error failure(const char* call, pmix_status_t status) {
  return {ErrorKind::usage, text(call, " failed: ", pmix().error_string(status)),
          "start the ranks with mpirun, prun or srun --mpi=pmix, or set WEFT_RENDEZVOUS to tcp://HOST:PORT"};
}

/// What a call of PMIx leaves on one of its threads, perhaps after the deadline: then it is not read.
struct Answer {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_there = false;
  pmix_status_t status = PMIX_SUCCESS;
  std::string words;
  std::uint32_t number = 0;

  void come(pmix_status_t with, const pmix_value_t* value = nullptr) {
    const std::lock_guard lock(mutex);
    status = with;
    if (value != nullptr && value->type == PMIX_STRING) words = value->data.string;
    if (value != nullptr && value->type == PMIX_UINT32) number = value->data.uint32;
    is_there = true;
    changed.notify_all();
  }
  bool wait(Deadline deadline) {
    std::unique_lock lock(mutex);
    const Deadline finite = at_most(std::chrono::hours(24 * 365), deadline);
    return changed.wait_until(lock, finite.end(), [this] { return is_there; });
  }
};

/// PMIx knows no deadlines: a call that does not return is left to its thread.
void within(Deadline deadline, const char* call, const std::function<pmix_status_t()>& run) {
  const auto answer = std::make_shared<Answer>();
  std::thread([answer, run] { answer->come(run()); }).detach();
  if (!answer->wait(deadline))
    throw Error(ErrorKind::timeout, text(call, " has not returned within ", seconds_text(deadline)),
                "see whether the launcher's daemon on this host is stopped");
  if (answer->status != PMIX_SUCCESS) throw failure(call, answer->status);
}

/// nullptr at the deadline.
std::shared_ptr<Answer> ask(const pmix_proc_t& process, const std::string& key, Deadline deadline) {
  auto answer = std::make_shared<Answer>();
  auto* held = new std::shared_ptr<Answer>(answer);
  const auto come = [](pmix_status_t status, pmix_value_t* value, void* holder) {
    const std::unique_ptr<std::shared_ptr<Answer>> mine(static_cast<std::shared_ptr<Answer>*>(holder));
    (*mine)->come(status, value);
  };
  const pmix_status_t status = pmix().get_nb(&process, key.c_str(), nullptr, 0, come, held);
  if (status != PMIX_SUCCESS) {
    delete held;
    throw failure("PMIx_Get_nb", status);
  }
  return answer->wait(deadline) ? answer : nullptr;
}

class Pmix final : public LauncherKvs {
 public:
  explicit Pmix(Deadline deadline) {
    (void)pmix();  // here, where its error can be caught
    const auto mine = std::make_shared<pmix_proc_t>();
    within(deadline, "PMIx_Init", [mine] { return pmix().init(mine.get(), nullptr, 0); });
    mine_ = *mine;
  }
  // Without it, launchers take the end of this process for a failure.
  ~Pmix() override {
    const auto answer = std::make_shared<Answer>();
    std::thread([answer] { answer->come(pmix().finalize(nullptr, 0)); }).detach();
    (void)answer->wait(Deadline::in(std::chrono::seconds(5)));
  }
  Pmix(const Pmix&) = delete;
  Pmix& operator=(const Pmix&) = delete;

  int rank() const { return static_cast<int>(mine_.rank); }
  int size(Deadline deadline) const {
    const auto answer = ask(of(PMIX_RANK_WILDCARD), PMIX_JOB_SIZE, deadline);
    if (answer == nullptr || answer->status != PMIX_SUCCESS)
      throw failure("PMIx_Get of the job's size", answer ? answer->status : PMIX_ERR_TIMEOUT);
    return static_cast<int>(answer->number);
  }

  void put(const std::string& key, const std::string& value, Deadline deadline) override {
    within(deadline, "PMIx_Put", [key, words = value]() mutable {
      pmix_value_t holder{};
      holder.type = PMIX_STRING;
      holder.data.string = words.data();
      const pmix_status_t status = pmix().put(PMIX_GLOBAL, key.c_str(), &holder);
      return status == PMIX_SUCCESS ? pmix().commit() : status;
    });
  }

  std::optional<std::string> get(const std::string& key, Deadline deadline) override {
    while (true) {
      const auto answer = ask(of(0), key, deadline);
      if (answer != nullptr && answer->status == PMIX_SUCCESS) return answer->words;
      if (answer != nullptr && answer->status != PMIX_ERR_NOT_FOUND)
        throw failure("PMIx_Get", answer->status);
      if (deadline.passed()) return std::nullopt;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // rank 0 has not put it yet
    }
  }

 private:
  pmix_proc_t of(pmix_rank_t rank) const {
    pmix_proc_t other = mine_;
    other.rank = rank;
    return other;
  }

  pmix_proc_t mine_{};
};

}  // namespace

PmixProcess join_pmix(Deadline deadline) {
  auto pmix = std::make_unique<Pmix>(deadline);
  const int rank = pmix->rank();
  const int size = pmix->size(deadline);
  return {rank, size, std::move(pmix)};
}

}  // namespace weft::detail

#else

namespace weft::detail {

PmixProcess join_pmix(Deadline /*deadline*/) {
  throw Error(ErrorKind::usage, "the ranks are to meet through PMIx, but this build of weft has none",
              "build weft with PMIx (libpmix-dev), or set WEFT_RENDEZVOUS to tcp://HOST:PORT");
}

}  // namespace weft::detail

#endif
