#include "collectives/bootstrap/attempt.hpp"

#include <algorithm>
#include <thread>
#include <vector>

#include "collectives/store/store_detail.hpp"
#include "core/streams/interruption.hpp"

namespace weft::detail {
namespace {

const std::string word = "attempt";  // its key: rank 0's latest arrival, with the attempt's name for a note

// Each look is a question to the store, which answers all ranks.
constexpr std::chrono::microseconds shortest_pause{200};
constexpr std::chrono::microseconds longest_pause{20'000};
constexpr std::chrono::microseconds pause_of_each{100};
/// Ranks wait beyond their deadline for rank 0, which knows who is missing.
constexpr std::chrono::seconds grace{2};
/// How long rank 0 stays when it refuses, for ranks that are still to hear why.
constexpr std::chrono::seconds for_the_late{2};

/// Where a process says that it was started in the place of one that had joined the attempt.
std::string replaced_key(const std::string& name) {
  return name + "/replaced";
}

Refusal rank_was_replaced(const RankIdentity& later, const RankIdentity& before) {
  return {text(later.name(), " was started after ", before.process, " had met the others as rank ",
               before.rank, ", so that one has ended, or both run"),
          "the launcher is to start all ranks again; start each rank once, and give every job a store of its "
          "own"};
}

class Pauses {
 public:
  Pauses(int ranks, Deadline deadline)
      : longest_(std::max(longest_pause, ranks * pause_of_each)), deadline_(deadline) {}
  void pause() {
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(next_, deadline_.left()));
    next_ = std::min(2 * next_, longest_);
    Interruption::look();
  }

 private:
  const std::chrono::microseconds longest_;
  const Deadline deadline_;
  std::chrono::microseconds next_ = shortest_pause;
};

/// Rank 0's word to the ranks whose numbers it names. Another rank that finds it is of another attempt, or comes too late for this one.
struct Answer {
  std::vector<std::string> numbers;
  std::string verdict;

  std::string encode() const {
    std::string all;
    for (const std::string& one : numbers) all += one + ' ';
    return all + '\n' + verdict;
  }
  static Answer decode(const std::string& words) {
    Answer answer;
    const std::size_t end = std::min(words.find('\n'), words.size());
    for (std::size_t at = 0; at < end;) {
      const std::size_t space = std::min(words.find(' ', at), end);
      answer.numbers.push_back(words.substr(at, space - at));
      at = space + 1;
    }
    answer.verdict = words.substr(std::min(end + 1, words.size()));
    return answer;
  }
  bool is_for(const std::string& number) const { return std::ranges::find(numbers, number) != numbers.end(); }
};

/// What the leader and the followers have in common.
class Joining {
 public:
  Joining(KeptStore& store, const RankIdentity& mine, const std::string& purpose, Deadline deadline)
      : store_(store),
        mine_{mine, purpose, std::to_string(mine.nonce)},
        hello_(mine_.encode()),
        deadline_(deadline) {}

 protected:
  int rank() const { return mine_.who.rank; }
  int size() const { return mine_.who.size; }
  static std::string hello_key(const std::string& name, int rank) { return text(name, "/hello/", rank); }
  static std::string answer_key(const std::string& name) { return name + "/answer"; }
  static std::string objection_key(const std::string& name) { return name + "/objection"; }
  static std::string joined_key(const std::string& name, int rank) { return text(name, "/joined/", rank); }

  /// Tells rank 0 of an attempt why its ranks cannot meet.
  void object(const std::string& name, const Refusal& why) {
    store_.put(objection_key(name), Arrival{mine_.who, why.problem, why.advice}.encode());
  }
  [[noreturn]] void leave(const Refusal& why) const {
    throw Error(ErrorKind::mismatch, why.problem, why.advice, {rank(), {}, 0});
  }

  KeptStore& store_;
  const Arrival mine_;  ///< its note: the number that says which process this is
  const std::string hello_;
  const Deadline deadline_;
};

class Leader : Joining {
 public:
  using Joining::Joining;

  std::string lead() {
    store_.put(word, hello_);
    int missing = 1;  // the first
    for (Pauses pauses(size(), deadline_);; pauses.pause()) {
      const bool last = deadline_.passed();
      while (missing < size() && store_.look(hello_key(name_, missing))) ++missing;
      if (const auto objection = store_.look(objection_key(name_))) refuse(Arrival::decode(0, *objection));
      leave_if_rank_0_is_taken();
      if (missing < size() && !last) continue;
      conclude(hellos());
      return until_all_join();
    }
  }

 private:
  /// A process that has ended may have said hello, and the one that was started in its place since: the latter counts.
  std::vector<std::optional<std::string>> hellos() {
    std::vector<std::optional<std::string>> all{hello_};
    for (int rank = 1; rank < size(); ++rank) all.push_back(store_.look(hello_key(name_, rank)));
    return all;
  }

  void conclude(std::vector<std::optional<std::string>> all) {
    answered_ = std::move(all);
    const std::string verdict = detail::conclude(mine_, answered_, deadline_);
    answer(answered_, verdict);
    (void)open_verdict(verdict, mine_.who);
  }

  /// A hello may be that of a process that has ended: the ranks have met only if each of them has read the answer. Until a rank has, the process
  /// that is started in its place is answered as well. The others need not wait for it here; they read what it writes next.
  std::string until_all_join() {
    std::vector<int> awaited;
    for (int rank = 1; rank < size(); ++rank) awaited.push_back(rank);
    for (Pauses pauses(size(), deadline_);; pauses.pause()) {
      const bool last = deadline_.passed();
      std::erase_if(awaited, [&](int rank) { return has_joined(rank); });
      if (awaited.empty()) return name_;
      if (const auto objection = store_.look(objection_key(name_))) refuse(Arrival::decode(0, *objection));
      leave_if_rank_0_is_taken();
      if (const auto over = attempt_is_over(store_, name_, rank())) throw *over;
      auto now = answered_;
      for (const int rank : awaited)
        now[static_cast<std::size_t>(rank)] = last ? std::nullopt : store_.look(hello_key(name_, rank));
      if (now != answered_) conclude(std::move(now));  // throws if a rank is missing
    }
  }

  bool has_joined(int rank) {
    const auto number = store_.look(joined_key(name_, rank));
    return number && *number == Arrival::decode(0, *answered_[static_cast<std::size_t>(rank)]).note;
  }

  void answer(const std::vector<std::optional<std::string>>& all, const std::string& verdict,
              const std::string& further = {}) {
    Answer words{{further}, verdict};
    for (const auto& one : all) {
      if (one) words.numbers.push_back(Arrival::decode(0, *one).note);
    }
    store_.put(answer_key(name_), words.encode());
  }

  [[noreturn]] void refuse(const Arrival& objection) {
    leave_all({objection.purpose, objection.note}, std::to_string(objection.who.nonce));
  }

  /// Another process has begun an attempt as rank 0, while this one waits.
  void leave_if_rank_0_is_taken() {
    const auto there = store_.look(word);
    if (!there || *there == hello_) return;
    const RankIdentity other = Arrival::decode(0, *there).who;
    const Refusal why = rank_is_taken(mine_.who, other);
    object(std::to_string(other.nonce), why);
    leave_all(why);
  }

  [[noreturn]] void leave_all(const Refusal& why, const std::string& further = {}) {
    const Deadline end = Deadline::in(for_the_late);
    for (Pauses pauses(size(), end);; pauses.pause()) {
      const bool last = end.passed();
      const auto all = hellos();
      answer(all, detail::refuse(why), further);
      if (last || std::ranges::all_of(all, [](const auto& one) { return one.has_value(); })) leave(why);
    }
  }

  const std::string name_ = mine_.note;
  std::vector<std::optional<std::string>> answered_;  ///< the hellos of the latest answer, by rank
};

class Follower : Joining {
 public:
  using Joining::Joining;

  std::string follow() {
    const Deadline last_moment = later(deadline_, grace);
    for (Pauses pauses(size(), last_moment);; pauses.pause()) {
      const bool last = last_moment.passed();
      if (const auto there = store_.look(word); there && *there != begun_) greet(*there);
      if (!begun_.empty() && is_answered()) return leader_.note;
      if (last) give_up();
    }
  }

 private:
  /// An attempt that is new to this rank; it may be over.
  void greet(const std::string& begun) {
    begun_ = begun;
    taken_.reset();
    says_replaced_ = false;
    leader_ = Arrival::decode(0, begun);
    const std::string key = hello_key(leader_.note, rank());
    const auto before = store_.look(key);
    before_ = before ? std::optional(Arrival::decode(rank(), *before).who) : std::nullopt;
    store_.put(key, hello_);
    if (leader_.who.size != size()) object(leader_.note, sizes_differ(mine_.who, leader_.who));
  }

  bool is_answered() {
    answer_.reset();
    if (const auto words = store_.look(answer_key(leader_.note))) answer_ = Answer::decode(*words);
    if (answer_ && answer_->is_for(mine_.note)) {
      (void)open_verdict(answer_->verdict, mine_.who);
      store_.put(joined_key(leader_.note, rank()), mine_.note);
      return true;
    }
    if (!says_replaced_ && before_ && store_.look(joined_key(leader_.note, rank()))) {
      says_replaced_ = true;
      const Refusal why = rank_was_replaced(mine_.who, *before_);
      store_.put(replaced_key(leader_.note), Arrival{mine_.who, why.problem, why.advice}.encode());
    }
    const auto there = store_.look(hello_key(leader_.note, rank()));
    if (!there || *there == hello_ || taken_) return false;
    taken_ = rank_is_taken(mine_.who, Arrival::decode(rank(), *there).who);
    // That attempt may be an earlier one, where no rank hears it: so this rank stays for the next.
    object(leader_.note, *taken_);
    return false;
  }

  [[noreturn]] void give_up() {
    if (taken_) leave(*taken_);
    if (begun_.empty()) throw silent_error(rank(), size(), mine_.purpose, deadline_);
    if (answer_) throw too_late();
    std::vector<int> missing;
    for (int other = 1; other < size(); ++other) {
      if (!store_.look(hello_key(leader_.note, other))) missing.push_back(other);
    }
    if (!missing.empty()) (void)open_verdict(time_out(missing, size(), mine_.purpose, deadline_), mine_.who);
    throw silent_error(rank(), size(), mine_.purpose, deadline_);
  }

  Error too_late() const {
    std::string how = "met the other ranks without this process";
    if (before_)
      how = text("met ", before_->process, " as rank ", rank(), ", which ", mine_.who.process, " is, too");
    try {
      (void)open_verdict(answer_->verdict, leader_.who);
    } catch (const Error& error) {
      how = "gave up: " + error.problem();
    }
    return {ErrorKind::timeout,
            text(leader_.who.name(), " ", how, "; it did not begin again within ", seconds_text(deadline_)),
            "see whether rank 0 was started again, and give every job a store of its own; "
            "WEFT_CONNECT_TIMEOUT sets how long to wait",
            {rank(), {}, 0}};
  }

  std::string begun_;  ///< rank 0's latest word
  Arrival leader_;
  std::optional<Answer> answer_;
  std::optional<RankIdentity> before_;  ///< who had this rank in that attempt
  std::optional<Refusal> taken_;        ///< another process has this rank in that attempt
  bool says_replaced_ = false;          ///< to that attempt
};

}  // namespace

std::string join_attempt(KeptStore& store, const RankIdentity& mine, const std::string& purpose,
                         Deadline deadline) {
  if (mine.rank == 0) return Leader(store, mine, purpose, deadline).lead();
  return Follower(store, mine, purpose, deadline).follow();
}

std::optional<Error> attempt_is_over(KeptStore& store, const std::string& name, int rank) {
  const auto there = store.look(word);
  if (!there) return std::nullopt;
  const Arrival leader = Arrival::decode(0, *there);
  if (leader.note != name)
    return Error(ErrorKind::peer_lost,
                 text(leader.who.name(), " has begun another attempt, and this process is of one before"),
                 "its launcher is to start it again; give every job a store of its own", {rank, {}, 0});
  const auto replaced = store.look(replaced_key(name));
  if (!replaced) return std::nullopt;
  const Arrival later = Arrival::decode(0, *replaced);
  return Error(ErrorKind::peer_lost, later.purpose, later.note, {rank, {}, 0});
}

}  // namespace weft::detail
