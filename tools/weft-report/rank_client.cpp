#include "rank_client.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <list>

#include "core/base/host_port.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

constexpr std::size_t most_bytes = 16 << 20;
constexpr int most_ports = 4096;

/// One rank that is asked. Its handlers run in one thread.
class Question {
 public:
  Question(asio::io_context& context, const RankAddress& rank) : resolver_(context), stream_(context) {
    look_.address = rank.text();
    request_ = {http::verb::get, "/metrics", 11};
    request_.set(http::field::host, rank.host);
    request_.set(http::field::connection, "close");
    parser_.body_limit(most_bytes);
    resolver_.async_resolve(
        rank.host, std::to_string(rank.port), [this](beast::error_code error, const auto& found) {
          if (error) return give_up(text("there is no such host: ", error.message()));
          step_ = "no connection";
          stream_.async_connect(found, [this](beast::error_code failed, const auto&) { connected(failed); });
        });
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  RankLook look(double seconds) && {
    if (!is_over_) look_.why = text(step_, " within ", seconds, " s");
    return std::move(look_);
  }

 private:
  void connected(beast::error_code error) {
    look_.refused = error == asio::error::connection_refused;
    if (error) return give_up(look_.refused ? "nobody listens there" : error.message());
    step_ = "a connection, and no answer";
    http::async_write(stream_, request_, [this](beast::error_code failed, std::size_t) {
      if (failed) return give_up(failed.message());
      http::async_read(stream_, buffer_, parser_,
                       [this](beast::error_code broken, std::size_t) { answered(broken); });
    });
  }
  void answered(beast::error_code error) {
    if (error) return give_up(text("its answer breaks off: ", error.message()));
    if (parser_.get().result() != http::status::ok)
      return give_up(text("what listens there answers with ", parser_.get().result_int()));
    try {
      look_.figures = parse_figures(parser_.get().body(), look_.address);
      is_over_ = true;
    } catch (const Error& other) {
      give_up(other.problem());
    }
  }
  void give_up(const std::string& why) {
    look_.why = why;
    is_over_ = true;
  }

  RankLook look_{};
  std::string step_ = "no address";
  bool is_over_ = false;
  tcp::resolver resolver_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  http::request<http::empty_body> request_;
  http::response_parser<http::string_body> parser_;
};

int port_of(std::string_view word, std::string_view words) {
  if (const auto port = detail::port_number(word)) return *port;
  throw Error(ErrorKind::usage, text("--ranks ", words, ": '", word, "' is no port from 1 to 65535"),
              "give PORT, FIRST-LAST, HOST:PORT or HOST:FIRST-LAST");
}

}  // namespace

std::string RankAddress::text() const {
  return weft::text(detail::bracketed(host), ':', port);
}

std::vector<RankAddress> parse_rank_addresses(std::string_view words) {
  RankAddress address;
  std::string_view ports = words;
  if (words.find(':') != std::string_view::npos) {
    const auto parts = detail::split_host_port(words);
    if (!parts || !parts->port || parts->host.empty())
      throw Error(ErrorKind::usage, text("--ranks ", words, ": what stands before the port is no host"),
                  "give HOST:PORT; an IPv6 address stands in brackets");
    address.host = parts->host;
    ports = *parts->port;
  }
  const std::size_t dash = ports.find('-');
  const int first = port_of(ports.substr(0, dash), words);
  const int last = dash == std::string_view::npos ? first : port_of(ports.substr(dash + 1), words);
  if (last < first || last - first >= most_ports)
    throw Error(ErrorKind::usage,
                text("--ranks ", words, ": the last port is before the first, or more than ", most_ports,
                     " behind it"),
                "a rank has a port, the first rank of a node the lowest: 9400-9407 for eight");
  std::vector<RankAddress> all;
  for (address.port = first; address.port <= last; ++address.port) all.push_back(address);
  return all;
}

std::vector<RankLook> ask_ranks(const std::vector<RankAddress>& ranks, double seconds) {
  asio::io_context context{1};
  std::list<Question> questions;
  for (const RankAddress& rank : ranks) questions.emplace_back(context, rank);
  context.run_for(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds)));
  std::vector<RankLook> looks;
  for (Question& one : questions) looks.push_back(std::move(one).look(seconds));
  return looks;
}

}  // namespace weft::report
