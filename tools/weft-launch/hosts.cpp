#include "hosts.hpp"

#include <algorithm>
#include <set>
#include <sstream>

#include "core/base/host_port.hpp"
#include "core/base/number.hpp"
#include "core/files/input_file.hpp"
#include "options.hpp"
#include "weft/core/error.hpp"

namespace weft::launch {
namespace {

int slots_of(const std::string& word, const std::string& where) {
  constexpr std::string_view key = "slots=";
  const auto slots = detail::number_of<int>(std::string_view(word).substr(std::min(key.size(), word.size())));
  if (!word.starts_with(key) || !slots || *slots < 1 || *slots > most_ranks) {
    throw Error(ErrorKind::usage, text(where, ": '", word, "' is not slots=N with N from 1 to ", most_ranks,
                                       ", and not address=HOST"));
  }
  return *slots;
}

std::string address_of(const std::string& word, const std::string& where) {
  const auto parts = detail::split_host_port(word);
  if (!parts || parts->port || parts->host.empty())
    throw Error(ErrorKind::usage, text(where, ": 'address=", word, "' is not that of a host"),
                "give its name or address alone: the ports are the launcher's");
  return std::string(parts->host);
}

Host parse(const std::string& line, const std::string& where) {
  std::istringstream words(line);
  Host host;
  words >> host.name;
  if (host.name.starts_with('-') || host.name.find('=') != std::string::npos)
    throw Error(ErrorKind::usage, text(where, ": '", host.name, "' is not the name of a host"));
  for (std::string word; words >> word;) {
    constexpr std::string_view key = "address=";
    if (word.starts_with(key) && word.size() > key.size()) {
      host.address = address_of(word.substr(key.size()), where);
    } else {
      host.slots = slots_of(word, where);
    }
  }
  return host;
}

}  // namespace

std::vector<Host> read_hosts(const std::string& path) {
  std::istringstream lines(
      detail::read_input(path, "--hosts " + path, {.source = detail::Source::file_or_pipe}));
  std::vector<Host> hosts;
  std::set<std::string> names;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = text(path, ":", ++number);
    line.erase(std::min(line.find('#'), line.size()));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    hosts.push_back(parse(line, where));
    if (!names.insert(hosts.back().name).second)
      throw Error(ErrorKind::usage, text(where, ": '", hosts.back().name, "' is listed twice"),
                  "give it more slots");
  }
  if (hosts.empty()) throw Error(ErrorKind::usage, text("no host is listed in ", path));
  const auto with_slots = std::ranges::count_if(hosts, [](const Host& host) { return host.slots > 0; });
  if (with_slots != 0 && with_slots != std::ssize(hosts))
    throw Error(ErrorKind::usage, text("some hosts in ", path, " have slots=N and some have not"),
                "give them to all, or to none");
  return hosts;
}

std::vector<Share> share_ranks(const std::vector<Host>& hosts, int ranks) {
  const int number = static_cast<int>(hosts.size());
  int slots = 0;
  for (const Host& host : hosts) slots += host.slots;
  if (slots == 0 && ranks == 0)
    throw Error(ErrorKind::usage, "-n is missing, and the hosts have no slots=N",
                "say how many ranks to start: weft-launch --hosts FILE -n 8 PROGRAM");
  if (slots > 0 && ranks > slots)
    throw Error(ErrorKind::usage, text("-n ", ranks, " is more than the ", slots, " slots of the hosts"));
  std::vector<Share> shares;
  int first = 0;
  const int all = ranks == 0 ? slots : ranks;
  for (int i = 0; i < number; ++i) {
    const Host& host = hosts[static_cast<std::size_t>(i)];
    const int even = all / number + (i < all % number ? 1 : 0);
    const int count = host.slots == 0 ? even : std::min(host.slots, all - first);
    shares.push_back({first, count});
    first += count;
  }
  return shares;
}

}  // namespace weft::launch
