#include "weft/metrics/metrics.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "metrics/families.hpp"
#include "metrics/outlets.hpp"

namespace weft {
namespace {

/// What a rank tells the other ranks before any of them trains.
struct Note {
  std::int32_t account_every = 0;
  std::array<char, 508> problem{};  ///< why it cannot serve; empty: it can

  static Note of(const MetricsOptions& options, const std::optional<Error>& own) {
    Note note{.account_every = options.account_every};
    if (!own) return note;
    const std::string all = text(own->problem(), own->advice().empty() ? "" : "; ", own->advice());
    std::copy_n(all.data(), std::min(all.size(), note.problem.size() - 1), note.problem.data());
    return note;
  }
};
static_assert(sizeof(Note) == 512);

/// Collective. @throws what all ranks then throw
void agree(const Communicator& comm, const MetricsOptions& options, const std::optional<Error>& own) {
  const Note mine = Note::of(options, own);
  std::vector<std::uint8_t> words(sizeof(Note));
  std::memcpy(words.data(), &mine, sizeof(Note));
  std::vector<std::uint8_t> all(words.size() * static_cast<std::size_t>(comm.size()));
  Communicator ranks = comm;
  Stream stream;
  ranks.all_gather(ConstView(std::span<const std::uint8_t>(words)), View(std::span(all)), stream).wait();
  if (own) throw Error(*own);
  std::optional<int> first;
  for (int rank = 0; rank < comm.size(); ++rank) {
    Note note;
    std::memcpy(&note, all.data() + static_cast<std::size_t>(rank) * sizeof(Note), sizeof(Note));
    if (note.problem.front() != '\0')
      throw Error(ErrorKind::usage, text("rank ", rank, ": ", note.problem.data()), {},
                  {comm.rank(), "Metrics", 0});
    if (note.account_every != first.value_or(note.account_every))
      throw Error(ErrorKind::mismatch,
                  text("account_every is ", *first, " on rank 0 and ", note.account_every, " on rank ", rank),
                  "give all ranks the same", {comm.rank(), "Metrics", 0});
    first = note.account_every;
  }
}

}  // namespace

class Metrics::State {
 public:
  State(const Communicator& comm, const MetricsOptions& options) : meter_(comm.meter()) {
    std::optional<Error> own;
    try {
      serve(comm, options);
    } catch (const Error& error) {
      own = error;
    }
    agree(comm, options, own);
    meter_.account_every(options.account_every);
  }

  const std::string& address() const { return exposer_ ? exposer_->address() : nowhere_; }
  const Meter& meter() const { return meter_; }

 private:
  void serve(const Communicator& comm, const MetricsOptions& options) {
    if (!options.port && options.textfile.empty())
      throw Error(ErrorKind::usage, "metrics that nothing can read",
                  "set MetricsOptions::port, textfile, or both", {comm.rank(), "Metrics", 0});
    if (options.port)
      exposer_.emplace(meter_, options.bind, *options.port, comm.topology().local_rank(comm.rank()));
    if (!options.textfile.empty()) textfile_.emplace(meter_, options.textfile, options.textfile_every);
  }

  Meter meter_;
  std::string nowhere_;
  std::optional<detail::MeterExposer> exposer_;
  std::optional<detail::Textfile> textfile_;
};

Metrics::Metrics(const Communicator& comm, const MetricsOptions& options)
    : state_(std::make_unique<State>(comm, options)) {}
Metrics::~Metrics() = default;
Metrics::Metrics(Metrics&&) noexcept = default;

const std::string& Metrics::address() const {
  return state_->address();
}
std::string Metrics::text() const {
  return detail::text_of(state_->meter());
}
void Metrics::step(double seconds) const {
  state_->meter().step(seconds);
}

}  // namespace weft
