#include "notices.hpp"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <list>

#include "collectives/store/job_token.hpp"
#include "live_line.hpp"
#include "weft/core/error.hpp"

namespace weft::launch {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

constexpr std::chrono::seconds request_timeout{5};  // to send a request, and to read the answer
constexpr std::chrono::milliseconds between_looks{100};
constexpr std::size_t most_connections = 32;
constexpr std::uint32_t most_header = 4096;  // bytes
constexpr std::uint64_t most_body = 1024;

/// Sends SIGUSR1 to weft-launch, and says why.
struct Signaller {
  pid_t launcher;
  void notify(const std::string& from) const {
    say(text("a notice ", from, ": the ranks are told to save and end (SIGUSR1)"));
    kill(launcher, SIGUSR1);
  }
};

/// What changes when a file is written or replaced; nullopt: there is none.
struct Stamp {
  ino_t number = 0;
  std::int64_t seconds = 0, nanoseconds = 0;
  bool operator==(const Stamp&) const = default;
};

std::optional<Stamp> stamp_of(const std::string& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) return std::nullopt;
  return Stamp{status.st_ino, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

/// Looks several times a second, because of a change on a filesystem of the network inotify hears nothing.
class NoticeFile {
 public:
  NoticeFile(asio::io_context& context, std::string file, Signaller signaller)
      : timer_(context), file_(std::move(file)), signaller_(signaller), last_(stamp_of(file_)) {
    look();
  }

 private:
  void look() {
    const auto now = stamp_of(file_);
    if (now && now != last_) signaller_.notify(text("by the file ", file_));
    last_ = now;
    timer_.expires_after(between_looks);
    timer_.async_wait([this](boost::system::error_code error) {
      if (!error) look();
    });
  }

  asio::steady_timer timer_;
  const std::string file_;
  const Signaller signaller_;
  std::optional<Stamp> last_;
};

class NoticeServer {
 public:
  NoticeServer(asio::io_context& context, tcp::acceptor& acceptor, std::string secret, Signaller signaller)
      : rest_(context), acceptor_(acceptor), secret_(std::move(secret)), signaller_(signaller) {
    accept();
  }

 private:
  struct Connection {
    Connection(tcp::socket socket, tcp::endpoint from) : stream(std::move(socket)), peer(std::move(from)) {}
    beast::tcp_stream stream;
    tcp::endpoint peer;
    beast::flat_buffer buffer{most_header + most_body};
    http::request_parser<http::string_body> parser;
    http::response<http::string_body> answer;
  };
  using Place = std::list<Connection>::iterator;

  void accept() {
    acceptor_.async_accept([this](boost::system::error_code error, tcp::socket socket) {
      if (error) {  // where descriptors are short, a moment's rest keeps this from turning in a circle
        rest_.expires_after(between_looks);
        rest_.async_wait([this](boost::system::error_code) { accept(); });
        return;
      }
      if (connections_.size() >= most_connections) connections_.back().stream.close();
      boost::system::error_code gone;
      const tcp::endpoint peer = socket.remote_endpoint(gone);
      connections_.emplace_front(std::move(socket), peer);
      read(connections_.begin());
      accept();
    });
  }

  void read(Place one) {
    one->parser.header_limit(most_header);
    one->parser.body_limit(most_body);
    one->stream.expires_after(request_timeout);
    http::async_read(
        one->stream, one->buffer, one->parser, [this, one](boost::system::error_code error, std::size_t) {
          if (error && error.category() != make_error_code(http::error::bad_method).category())
            return end(one);
          if (error == http::error::end_of_stream) return end(one);
          if (error) {
            answer(one, http::status::bad_request, text("no request that is taken: ", error.message()));
          } else {
            hear(one);
          }
        });
  }

  void hear(Place one) {
    const auto& request = one->parser.get();
    if (request.target() != "/notice")
      return answer(one, http::status::not_found, "a notice is POST /notice");
    if (request.method() != http::verb::post) {
      one->answer.set(http::field::allow, "POST");
      return answer(one, http::status::method_not_allowed, "a notice is POST /notice");
    }
    // A page in a browser of this machine could send it to the loopback address.
    if (request.count(http::field::origin) != 0)
      return answer(one, http::status::forbidden, "a notice comes from no page");
    if (!secret_.empty()) {
      const auto given = request[http::field::authorization];
      if (!detail::equal(std::string_view(given.data(), given.size()), "Bearer " + secret_)) {
        one->answer.set(http::field::www_authenticate, "Bearer");
        return answer(one, http::status::unauthorized, "the proof of the job's token is missing, or false");
      }
    }
    signaller_.notify(text("by HTTP from ", one->peer.address().to_string()));
    answer(one, http::status::accepted, "the ranks are told to save and end");
  }

  void answer(Place one, http::status status, const std::string& words) {
    one->answer.result(status);
    one->answer.version(11);
    one->answer.keep_alive(false);
    one->answer.set(http::field::content_type, "text/plain; charset=utf-8");
    one->answer.body() = words + "\n";
    one->answer.prepare_payload();
    one->stream.expires_after(request_timeout);
    http::async_write(one->stream, one->answer,
                      [this, one](boost::system::error_code, std::size_t) { end(one); });
  }

  void end(Place one) {
    boost::system::error_code ignored;
    one->stream.socket().shutdown(tcp::socket::shutdown_both, ignored);
    connections_.erase(one);
  }

  asio::steady_timer rest_;
  tcp::acceptor& acceptor_;
  const std::string secret_;
  const Signaller signaller_;
  std::list<Connection> connections_;
};

tcp::endpoint endpoint_of(const std::string& given, bool has_token) {
  const auto refused = [&](const std::string& why) {
    return Error(
        ErrorKind::usage, text("--notice-http ", given, ": ", why),
        "give a port, or a numeric address of this machine and a port: 9402, 10.0.0.7:9402, [::1]:9402");
  };
  const std::size_t colon = given.rfind(':');
  std::string host = colon == std::string::npos ? "127.0.0.1" : given.substr(0, colon);
  const std::string digits = colon == std::string::npos ? given : given.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  unsigned short port = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (read.ec != std::errc() || read.ptr != digits.data() + digits.size() || port == 0)
    throw refused(text("'", digits, "' is no port from 1 to 65535"));
  boost::system::error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (error) throw refused(text("'", host, "' is no address"));
  if (!address.is_loopback() && !has_token)
    throw Error(ErrorKind::usage,
                text("--notice-http ", given, ": every process that reaches that address could end the job"),
                "set WEFT_TOKEN (openssl rand -hex 32) or WEFT_TOKEN_FILE, or listen on 127.0.0.1");
  return {address, port};
}

void listen(tcp::acceptor& acceptor, const NoticeOptions& options) {
  const tcp::endpoint endpoint = endpoint_of(*options.address, !options.token.empty());
  try {
    acceptor.open(endpoint.protocol());
    acceptor.set_option(asio::socket_base::reuse_address(true));
    acceptor.bind(endpoint);
    acceptor.listen();
  } catch (const boost::system::system_error& failed) {
    throw Error(ErrorKind::usage,
                text("--notice-http ", *options.address, ": cannot listen there: ", failed.code().message()),
                "choose another port, or an address of this machine");
  }
}

[[noreturn]] void serve(asio::io_context& context, tcp::acceptor& acceptor, const NoticeOptions& options,
                        pid_t launcher) {
  setsid();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  prctl(PR_SET_NAME, "weft-notices");
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != launcher) _exit(1);
  try {
    context.notify_fork(asio::io_context::fork_child);
    const Signaller signaller{launcher};
    std::optional<NoticeServer> server;
    std::optional<NoticeFile> file;
    if (options.address)
      server.emplace(context, acceptor, options.token.empty() ? "" : detail::notice_secret(options.token),
                     signaller);
    if (options.file) file.emplace(context, *options.file, signaller);
    context.run();
  } catch (const std::exception& error) {
    say(text("notices are heard no longer: ", error.what()));
  }
  _exit(1);
}

}  // namespace

Notices::Notices(const NoticeOptions& options) {
  if (!options.any()) return;
  asio::io_context context(1);
  tcp::acceptor acceptor(context);
  if (options.address) listen(acceptor, options);
  context.notify_fork(asio::io_context::fork_prepare);
  const pid_t launcher = getpid();
  process_ = fork();
  if (process_ == 0) serve(context, acceptor, options, launcher);
  if (process_ < 0) throw system_error("cannot start the process that hears notices");
  context.notify_fork(asio::io_context::fork_parent);
}

Notices::~Notices() {
  if (process_ < 0) return;
  kill(process_, SIGKILL);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace weft::launch
