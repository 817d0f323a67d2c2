#include "torch/distributed/store.hpp"

#include <algorithm>
#include <thread>

#include "torch/distributed/signals.hpp"

namespace weft::distributed {
namespace {

using std::chrono::microseconds;

// Between two questions to torch's store, which answers all ranks.
constexpr microseconds shortest_pause{100};
constexpr microseconds longest_pause{20'000};
constexpr microseconds pause_of_each_rank{100};
/// So long a wait first asks whether its attempt is over.
constexpr std::chrono::milliseconds until_question{200};

}  // namespace

void WordsOfTorch::put(const std::string& key, const std::string& value) {
  store_->set(key, std::vector<std::uint8_t>(value.begin(), value.end()));
}

bool WordsOfTorch::has(const std::string& key) {
  return store_->check({key});
}

std::optional<std::string> WordsOfTorch::look(const std::string& key) {
  if (!has(key)) return std::nullopt;
  const std::vector<std::uint8_t> value = store_->get(key);
  return std::string(value.begin(), value.end());
}

TorchStore::TorchStore(c10::intrusive_ptr<c10d::Store> store, int rank, int size, Deadline deadline)
    : words_(std::move(store)),
      rank_(rank),
      size_(size),
      attempt_(detail::join_attempt(words_, detail::RankIdentity::of_this_process(rank, size), "connect",
                                    deadline)) {}

void TorchStore::set(const std::string& key, const std::string& value) {
  words_.put(of_attempt(key), value);
}

bool TorchStore::has(const std::string& key) {
  return words_.has(of_attempt(key));
}

std::optional<std::string> TorchStore::get(const std::string& key, Deadline deadline) {
  microseconds pause = shortest_pause;
  const microseconds longest = std::max(longest_pause, size_ * pause_of_each_rank);
  for (Deadline next_question = Deadline::in(until_question);;) {
    const bool last = deadline.passed();
    if (auto value = words_.look(of_attempt(key))) return value;
    if (last) return std::nullopt;
    if (next_question.passed()) {
      if (const auto over = detail::attempt_is_over(words_, attempt_, rank_)) throw Error(*over);
      next_question = Deadline::in(until_question);
    }
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, deadline.left()));
    run_signal_handlers();
    pause = std::min(2 * pause, longest);
  }
}

}  // namespace weft::distributed
