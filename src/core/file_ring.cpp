#include "core/file_ring.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/round_up.hpp"

namespace weft::detail {

FileRing::FileRing(ScratchFile file, Buffer memory, std::size_t places, std::chrono::nanoseconds patience)
    : file_(std::move(file)),
      memory_(std::move(memory)),
      patience_(patience),
      uring_(static_cast<unsigned>(places)),
      places_(places) {
  constexpr std::size_t block = ScratchFile::block;
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.view().data());
  const std::size_t skipped = round_up(address, block) - address;
  const std::size_t each = (memory_.size_bytes() - skipped) / places / block * block;
  std::byte* at = memory_.view().bytes() + skipped;
  for (Place& place : places_) {
    place.memory = {at, each};
    at += each;
  }
}

// The kernel may still write to the memory of what is not over: that is then never given back.
FileRing::~FileRing() {
  try {
    for (; under_way_ > 0; --under_way_) {
      if (!uring_.wait(patience_)) break;
    }
  } catch (...) {  // NOLINT: nothing to be told to anybody
  }
  if (under_way_ > 0) new Buffer(std::move(memory_));
}

void FileRing::want(Span span) {
  constexpr std::size_t block = ScratchFile::block;
  const bool fits = span.bytes > 0 && span.bytes % block == 0 && span.offset % block == 0 &&
                    span.bytes <= places_.front().memory.size() && span.bytes <= file_.bytes() &&
                    span.offset <= file_.bytes() - span.bytes;
  if (!fits)
    throw Error(ErrorKind::usage,
                text(span.bytes, " bytes at ", span.offset, " of a file of ", file_.bytes(),
                     " are wanted, in places of ", places_.front().memory.size()),
                text("want whole blocks of ", block, " bytes"));
  const std::lock_guard lock(mutex_);
  wanted_.push_back(span);
}

void FileRing::read_ahead() {
  conclude_what_is_over();
  while (begin_next()) {
  }
}

std::span<std::byte> FileRing::take() {
  if (taken_ != nullptr) throw Error(ErrorKind::usage, "a part is taken before the last one is put back");
  read_ahead();
  wait_until([this] { return !coming_.empty() && coming_.front()->state == State::there; });
  taken_ = coming_.front();
  coming_.pop_front();
  taken_->state = State::taken;
  return taken_->memory.first(taken_->span.bytes);
}

void FileRing::put_back(bool changed) {
  if (taken_ == nullptr) throw Error(ErrorKind::usage, "a part is put back before one is taken");
  Place& place = *std::exchange(taken_, nullptr);
  place.state = changed ? State::writing : State::free;
  if (changed) start(place);
  read_ahead();
}

void FileRing::settle() {
  wait_until([this] { return std::ranges::find(places_, State::writing, &Place::state) == places_.end(); });
}

// In the order wanted: who waits for a part is not overtaken by who wants one that could come at once.
bool FileRing::begin_next() {
  const auto place = std::ranges::find(places_, State::free, &Place::state);
  if (place == places_.end()) return false;
  const std::lock_guard lock(mutex_);
  if (wanted_.empty() || overlaps_a_place(wanted_.front())) return false;
  place->span = wanted_.front();
  place->state = State::reading;
  start(*place);
  coming_.push_back(&*place);
  wanted_.pop_front();
  return true;
}

bool FileRing::overlaps_a_place(Span span) const {
  return std::ranges::any_of(places_, [&](const Place& place) {
    return place.state != State::free && span.offset < place.span.offset + place.span.bytes &&
           place.span.offset < span.offset + span.bytes;
  });
}

void FileRing::start(Place& place) {
  place.done = 0;
  go_on(place);
}

void FileRing::go_on(Place& place) {
  const auto tag = static_cast<std::uint64_t>(&place - places_.data());
  const auto left = place.memory.subspan(place.done, place.span.bytes - place.done);
  const std::uint64_t offset = place.span.offset + place.done;
  if (place.state == State::reading) {
    uring_.read(file_.descriptor(), left, offset, tag);
  } else {
    uring_.write(file_.descriptor(), left, offset, tag);
  }
  ++under_way_;
}

// The kernel may do a part only: what is left follows.
void FileRing::conclude(Uring::Outcome outcome) {
  --under_way_;
  Place& place = places_[outcome.tag];
  if (outcome.result <= 0) {
    const std::string problem = outcome.result == 0 ? "the file ends there" : std::strerror(-outcome.result);
    throw Error(ErrorKind::system, text("cannot ", told(place), ": ", problem),
                "what was there is lost: look after the disk, and start from a checkpoint");
  }
  place.done += static_cast<std::size_t>(outcome.result);
  if (place.done < place.span.bytes) return go_on(place);
  place.state = place.state == State::reading ? State::there : State::free;
}

void FileRing::conclude_what_is_over() {
  while (const auto outcome = uring_.poll()) conclude(*outcome);
}

template <class Condition>
void FileRing::wait_until(Condition holds) {
  while (!holds()) {
    if (under_way_ == 0)
      throw Error(ErrorKind::usage, "a part is taken that nobody wanted", "call want() first");
    const auto outcome = uring_.wait(patience_);
    if (!outcome) give_up();
    conclude(*outcome);
    read_ahead();
  }
}

std::string FileRing::told(const Place& place) const {
  return text(place.state == State::reading ? "read " : "write ", place.span.bytes - place.done, " bytes at ",
              place.span.offset + place.done, " of ", file_.path());
}

void FileRing::give_up() const {
  const auto slow = std::ranges::find_if(places_, [](const Place& place) {
    return place.state == State::reading || place.state == State::writing;
  });
  throw Error(
      ErrorKind::timeout,
      text("cannot ", told(*slow), " within ", std::chrono::duration<double>(patience_).count(), " s"),
      "is the disk still there?");
}

}  // namespace weft::detail
