#include "weft/checkpoint/checkpointer.hpp"

#include <optional>
#include <span>
#include <utility>

#include "collectives/diagnosis/used_by_one.hpp"
#include "weft/checkpoint/requests.hpp"
#include "weft/checkpoint/saver.hpp"
#include "weft/core/error.hpp"

namespace weft::checkpoint {
namespace {

constexpr const char* run_name = "run";

/// The step of the newest one as rank 0 sees it; none: -1.
std::int64_t newest_step(Communicator& comm, const std::string& folder) {
  std::int64_t step = -1;
  if (comm.rank() == 0) {
    if (const auto found = Checkpoint::newest(folder)) step = found->step();
  }
  Stream stream;
  comm.broadcast(View(std::span(&step, 1)), 0, stream).wait();
  return step;
}

}  // namespace

class Checkpointer::Folder {
 public:
  Folder(Communicator given, CheckpointerOptions chosen)
      : users("Checkpointer", given),
        comm(std::move(given)),
        options(std::move(chosen)),
        saver(comm, options.folder, {.keep_last = options.keep_last}),
        requests(comm, options.folder) {}

  weft::detail::UsedByOne users;
  Communicator comm;
  CheckpointerOptions options;
  Saver saver;
  Requests requests;
  std::int64_t saved = -1;  // after so many steps
  bool told_to_end = false;
};

Checkpointer::Checkpointer(Communicator comm, CheckpointerOptions options)
    : folder_(options.folder.empty() ? nullptr
                                     : std::make_unique<Folder>(std::move(comm), std::move(options))) {}
Checkpointer::~Checkpointer() = default;
Checkpointer::Checkpointer(Checkpointer&&) noexcept = default;

std::optional<Checkpoint> Checkpointer::newest() {
  if (!folder_) return std::nullopt;
  const auto turn = folder_->users.enter("newest");
  const std::int64_t step = newest_step(folder_->comm, folder_->options.folder);
  if (step < 0) return std::nullopt;
  return Checkpoint(Checkpoint::path_of(folder_->options.folder, step));
}

std::int64_t Checkpointer::resume(const std::function<void(const Checkpoint&)>& load) {
  if (!folder_) return 0;
  const auto turn = folder_->users.enter("resume");
  const auto found = newest();
  if (!found) return 0;
  const auto* const run = std::get_if<std::string>(&found->value(run_name));
  if (run == nullptr || *run != folder_->options.run)
    throw Error(ErrorKind::usage,
                text(found->path(), " is of another run: ", run == nullptr ? "one without a name" : *run,
                     "; this is ", folder_->options.run),
                "give the options that it was saved with, or another folder");
  load(*found);
  return folder_->saved = found->step();
}

std::int64_t Checkpointer::resume(const std::vector<Replica>& all) {
  return resume([&](const Checkpoint& found) {
    std::vector<Wanted> wanted;
    for (const Replica& one : all) wanted.push_back({one.name, {one.values.count()}, 0, one.values});
    found.read(wanted);
  });
}

void Checkpointer::release() noexcept {
  if (folder_) folder_->saver.release();
}

bool Checkpointer::after_step(std::int64_t steps, bool last, const std::function<State()>& state) {
  if (!folder_) return true;
  const auto turn = folder_->users.enter("after_step");
  const Request asked = folder_->requests.next();
  const bool due = folder_->options.every > 0 && steps % folder_->options.every == 0;
  if ((due || last || asked != Request::nothing) && steps != folder_->saved) {
    State all = state();
    all.values[run_name] = folder_->options.run;
    folder_->saver.begin(steps, std::move(all));
    folder_->saved = steps;
  }
  folder_->told_to_end = !last && asked == Request::save_and_end;
  if (last || folder_->told_to_end) folder_->saver.finish();
  return !folder_->told_to_end;
}

bool Checkpointer::after_step(std::int64_t steps, bool last, const std::vector<Replica>& all) {
  const bool goes_on = after_step(steps, last, [&] {
    State state;
    if (folder_->comm.rank() == 0) {
      for (const Replica& one : all) state.pieces.push_back({one.name, {one.values.count()}, 0, one.values});
    }
    return state;
  });
  release();
  return goes_on;
}

bool Checkpointer::told_to_end() const {
  return folder_ && folder_->told_to_end;
}

}  // namespace weft::checkpoint
