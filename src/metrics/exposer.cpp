// One thread serves all scrapers, each with a deadline: who sends nothing, or reads nothing, is cut off, and
// holds up no other.
//
// prometheus-cpp has a server, which is not used: its threads have stacks of 100 KB, of which glibc takes the
// thread-local memory of all libraries. CUDA's and OpenBLAS have more than that together.

#include "metrics/exposer.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <list>
#include <optional>
#include <thread>

#include "core/base/host_port.hpp"
#include "metrics/blocked_signals.hpp"
#include "weft/core/error.hpp"
#include "weft/core/log.hpp"

namespace weft::detail {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

// For a scraper to send its request, and to read the answer, however slowly bytes go on coming.
constexpr std::chrono::seconds scraper_timeout{5};
constexpr std::size_t most_scrapers = 32;  // at once

std::string advice_for(const boost::system::error_code& error) {
  if (error == asio::error::address_in_use)
    return "another program has it: stop that, or choose another port";
  if (error.value() == EADDRNOTAVAIL)
    return "give an address of this machine; `ip addr` lists them, 0.0.0.0 is all";
  if (error == asio::error::access_denied) return "ports below 1024 are root's: choose a higher one";
  return "choose another address or port";
}

http::response<http::string_body> answer_to(const http::request<http::empty_body>& request,
                                            const Exposer::Figures& figures) {
  http::response<http::string_body> answer{http::status::ok, request.version()};
  answer.set(http::field::content_type, "text/plain; version=0.0.4; charset=utf-8");
  answer.keep_alive(request.keep_alive());
  const auto target = request.target().substr(0, request.target().find('?'));
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    answer.result(http::status::method_not_allowed);
    answer.set(http::field::allow, "GET, HEAD");
    answer.body() = "only GET is answered\n";
  } else if (target != "/metrics") {
    answer.result(http::status::not_found);
    answer.body() = "the figures are at /metrics\n";
  } else {
    answer.body() = figures();
  }
  answer.prepare_payload();
  if (request.method() == http::verb::head) answer.body().clear();
  return answer;
}

}  // namespace

class Exposer::Server {
 public:
  Server(Figures figures, std::string who, const tcp::endpoint& endpoint)
      : figures_(std::move(figures)), who_(std::move(who)), acceptor_(context_) {
    acceptor_.open(endpoint.protocol());
    acceptor_.set_option(asio::socket_base::reuse_address(true));
    acceptor_.bind(endpoint);
    acceptor_.listen();
    accept();
    const BlockedSignals blocked;
    thread_ = std::thread([this] { run(); });
  }
  ~Server() {
    context_.stop();
    thread_.join();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

 private:
  /// One scraper, and the requests that it sends on one connection.
  struct Scraper {
    explicit Scraper(tcp::socket socket) : stream(std::move(socket)) {}
    beast::tcp_stream stream;
    beast::flat_buffer buffer;
    std::optional<http::request_parser<http::empty_body>> parser;
    http::response<http::string_body> answer;
  };
  using Place = std::list<Scraper>::iterator;

  void run() {
    try {
      context_.run();
    } catch (const std::exception& error) {
      log::warn(text(who_, "metrics are served no longer: ", message_of(error)));
    }
  }
  void accept() {
    acceptor_.async_accept([this](boost::system::error_code error, tcp::socket socket) {
      if (error) {  // where descriptors are short, a moment's rest keeps this from turning in a circle
        rest_.expires_after(std::chrono::milliseconds(100));
        rest_.async_wait([this](boost::system::error_code) { accept(); });
        return;
      }
      if (scrapers_.size() >= most_scrapers)
        scrapers_.back().stream.close();  // the one that has been there longest
      scrapers_.emplace_front(std::move(socket));
      read(scrapers_.begin());
      accept();
    });
  }
  void read(Place scraper) {
    scraper->parser.emplace();
    scraper->stream.expires_after(scraper_timeout);
    http::async_read(scraper->stream, scraper->buffer, *scraper->parser,
                     [this, scraper](boost::system::error_code error, std::size_t) {
                       if (error) return refuse(scraper, error);
                       scraper->answer = answer_to(scraper->parser->get(), figures_);
                       write(scraper);
                     });
  }
  void write(Place scraper) {
    scraper->stream.expires_after(scraper_timeout);
    http::async_write(scraper->stream, scraper->answer,
                      [this, scraper](boost::system::error_code error, std::size_t) {
                        if (error || !scraper->answer.keep_alive()) return end(scraper);
                        read(scraper);
                      });
  }
  /// A client whose request is not HTTP gets an answer that says so; one that is gone or silent gets none.
  void refuse(Place scraper, boost::system::error_code error) {
    const bool is_gone = error == http::error::end_of_stream || error == beast::error::timeout ||
                         error.category() != make_error_code(http::error::bad_method).category();
    if (is_gone) return end(scraper);
    scraper->answer = {http::status::bad_request, 11};
    scraper->answer.keep_alive(false);
    scraper->answer.body() = text("no request that can be read: ", error.message(), '\n');
    scraper->answer.prepare_payload();
    write(scraper);
  }
  void end(Place scraper) {
    boost::system::error_code ignored;
    scraper->stream.socket().shutdown(tcp::socket::shutdown_both, ignored);
    scrapers_.erase(scraper);
  }

  const Figures figures_;
  const std::string who_;
  asio::io_context context_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer rest_{context_};
  std::list<Scraper> scrapers_;
  std::thread thread_;
};

Exposer::Exposer(Figures figures, const std::string& bind, int port, int local_rank,
                 const ErrorContext& here) {
  if (port < 1 || port > highest_port)
    throw Error(ErrorKind::usage, text("metrics on port ", port),
                text("give a number from 1 to ", highest_port), here);
  const int own = port + local_rank;
  if (own > highest_port)
    throw Error(ErrorKind::usage,
                text("metrics on port ", port, ", and on ", own, " for rank ", local_rank, " of its node"),
                text("there are none above ", highest_port, ": choose a lower one"), here);
  boost::system::error_code error;
  const auto address = asio::ip::make_address(bind, error);
  if (error)
    throw Error(ErrorKind::usage, text("metrics on '", bind, "', which is not an IP address"),
                "give a numeric one without a port, such as 127.0.0.1, 0.0.0.0 or ::1", here);
  try {
    server_ =
        std::make_unique<Server>(std::move(figures), here.rank < 0 ? "" : text("rank ", here.rank, ": "),
                                 tcp::endpoint(address, static_cast<unsigned short>(own)));
  } catch (const boost::system::system_error& failed) {
    throw Error(ErrorKind::usage,
                text("cannot serve metrics on ", bracketed(bind), ':', own, ": ", failed.code().message()),
                advice_for(failed.code()), here);
  }
  address_ = text("http://", bracketed(bind), ':', own, "/metrics");
}

Exposer::~Exposer() {
  if (getpid() != owner_) (void)server_.release();  // its threads are not there to be waited for
}

}  // namespace weft::detail
