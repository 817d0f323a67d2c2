#include "host_wire.hpp"

#include <boost/json.hpp>

#include "weft/core/error.hpp"
#include "weft/core/version.hpp"

namespace weft::launch {

namespace json = boost::json;

std::string greeting() {
  return text(greeting_mark, WEFT_VERSION, '\n');
}

std::string to_line(const HostJob& job) {
  const json::object object{{"program", json::value_from(job.job.program)},
                            {"environment", json::value_from(job.job.inherited)},
                            {"size", job.job.size},
                            {"rendezvous", job.job.rendezvous},
                            {"token", job.job.token},
                            {"first", job.share.first},
                            {"count", job.share.count},
                            {"folder", job.folder}};
  return json::serialize(object) + '\n';
}

HostJob from_line(const std::string& line) {
  try {
    json::parse_options bytes;  // arguments and variables are bytes, which serialize() writes as they are
    bytes.allow_invalid_utf8 = true;
    const json::value value = json::parse(line, {}, bytes);
    const auto number = [&](const char* key) { return json::value_to<int>(value.at(key)); };
    const auto words = [&](const char* key) {
      return json::value_to<std::vector<std::string>>(value.at(key));
    };
    const auto word = [&](const char* key) { return json::value_to<std::string>(value.at(key)); };
    return {{words("program"), words("environment"), number("size"), word("rendezvous"), word("token")},
            {number("first"), number("count")},
            word("folder")};
  } catch (const std::exception& error) {
    throw Error(ErrorKind::usage, text("this is not a job of weft-launch: ", message_of(error)),
                "weft-launch --hosts FILE starts `weft-launch host` itself");
  }
}

}  // namespace weft::launch
