#include "core/files/file_ring.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/round_up.hpp"

namespace weft::detail {

FileRing::FileRing(ScratchFile file, Buffer memory, std::size_t places, std::chrono::nanoseconds timeout)
    : file_(std::move(file)),
      memory_(std::move(memory)),
      timeout_(timeout),
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

// If an operation does not end in time, the kernel may still write to its memory, which is therefore leaked.
FileRing::~FileRing() {
  try {
    for (; in_flight_ > 0; --in_flight_) {
      if (!uring_.wait(timeout_)) break;
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch): a destructor does not throw
  }
  if (in_flight_ > 0) new Buffer(std::move(memory_));
}

void FileRing::check(Span span) const {
  constexpr std::size_t block = ScratchFile::block;
  const bool fits = span.bytes > 0 && span.bytes % block == 0 && span.offset % block == 0 &&
                    span.bytes <= places_.front().memory.size() && span.bytes <= file_.bytes() &&
                    span.offset <= file_.bytes() - span.bytes;
  if (!fits)
    throw Error(ErrorKind::usage,
                text(span.bytes, " bytes at ", span.offset, " of a file of ", file_.bytes(),
                     " are wanted, in places of ", places_.front().memory.size()),
                text("want whole blocks of ", block, " bytes"));
}

void FileRing::want(Span span) {
  check(span);
  const std::lock_guard lock(mutex_);
  wanted_.push_back(span);
}

void FileRing::read_ahead() {
  reap();
  while (begin_next()) {
  }
}

std::span<std::byte> FileRing::take() {
  if (taken_ != nullptr) throw Error(ErrorKind::usage, "a part is taken before the last one is put back");
  read_ahead();
  wait_until([this] { return !reads_.empty() && reads_.front()->state == State::there; });
  taken_ = reads_.front();
  reads_.pop_front();
  taken_->state = State::taken;
  return taken_->memory.first(taken_->span.bytes);
}

std::span<std::byte> FileRing::take_unread(Span span) {
  check(span);
  const auto is_idle = [this] {
    const std::lock_guard lock(mutex_);
    return taken_ == nullptr && reads_.empty() && wanted_.empty();
  };
  if (!is_idle())
    throw Error(ErrorKind::usage, "a part is taken unread while others are wanted or taken",
                "take and put back those first");
  reap();
  auto place = places_.begin();
  wait_until([&] {
    place = std::ranges::find(places_, State::free, &Place::state);
    return place != places_.end() && !overlaps_a_place(span);
  });
  place->span = span;
  place->state = State::taken;
  taken_ = &*place;
  return taken_->memory.first(span.bytes);
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

// Reads begin in the order wanted, even when the first has to wait for a write that it overlaps and the next
// could begin.
bool FileRing::begin_next() {
  const auto place = std::ranges::find(places_, State::free, &Place::state);
  if (place == places_.end()) return false;
  const std::lock_guard lock(mutex_);
  if (wanted_.empty() || overlaps_a_place(wanted_.front())) return false;
  place->span = wanted_.front();
  place->state = State::reading;
  start(*place);
  reads_.push_back(&*place);
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
  submit_rest(place);
}

void FileRing::submit_rest(Place& place) {
  const auto tag = static_cast<std::uint64_t>(&place - places_.data());
  const auto left = place.memory.subspan(place.done, place.span.bytes - place.done);
  const std::uint64_t offset = place.span.offset + place.done;
  if (place.state == State::reading) {
    uring_.read(file_.descriptor(), left, offset, tag);
  } else {
    uring_.write(file_.descriptor(), left, offset, tag);
  }
  ++in_flight_;
}

// The kernel may do only a part of an operation: the rest is submitted again.
void FileRing::complete(Uring::Outcome outcome) {
  --in_flight_;
  Place& place = places_[outcome.tag];
  if (outcome.result <= 0) {
    const std::string problem = outcome.result == 0 ? "the file ends there" : std::strerror(-outcome.result);
    throw Error(
        ErrorKind::system, text("cannot ", described(place), ": ", problem),
        "what was there is lost: look after the disk, and start again from parameters that were saved");
  }
  place.done += static_cast<std::size_t>(outcome.result);
  if (place.done < place.span.bytes) return submit_rest(place);
  place.state = place.state == State::reading ? State::there : State::free;
}

void FileRing::reap() {
  while (const auto outcome = uring_.poll()) complete(*outcome);
}

template <class Condition>
void FileRing::wait_until(Condition holds) {
  while (!holds()) {
    if (in_flight_ == 0)
      throw Error(ErrorKind::usage, "a part is taken that was not wanted", "call want() first");
    const auto outcome = uring_.wait(timeout_);
    if (!outcome) throw_timeout();
    complete(*outcome);
    read_ahead();
  }
}

std::string FileRing::described(const Place& place) const {
  return text(place.state == State::reading ? "read " : "write ", place.span.bytes - place.done, " bytes at ",
              place.span.offset + place.done, " of ", file_.path());
}

void FileRing::throw_timeout() const {
  const auto slow = std::ranges::find_if(places_, [](const Place& place) {
    return place.state == State::reading || place.state == State::writing;
  });
  throw Error(
      ErrorKind::timeout,
      text("cannot ", described(*slow), " within ", std::chrono::duration<double>(timeout_).count(), " s"),
      "is the disk still there?");
}

}  // namespace weft::detail
