#include "profile.hpp"

#include <boost/json.hpp>

#include "json_file.hpp"
#include "weft/core/error.hpp"

namespace weft::plan {
namespace {

namespace json = boost::json;

DataType dtype_from(const std::string& word) {
  for (const DataType dtype : {DataType::f32, DataType::f64, DataType::f16, DataType::bf16}) {
    if (word == name(dtype)) return dtype;
  }
  throw Error(ErrorKind::usage, text("gradients of type '", word, "'"));
}

Profile from(const json::value& buckets) {
  std::vector<ParamSpec> specs;
  BackwardProfile backward{{},
                           {buckets.at("link").at("latency_seconds").to_number<double>(),
                            buckets.at("link").at("bytes_per_second").to_number<double>()}};
  for (const json::value& one : buckets.at("parameters").as_array()) {
    specs.push_back({std::string(one.at("name").as_string()), one.at("count").to_number<std::int64_t>()});
    backward.ready_seconds.push_back(one.at("ready_seconds").to_number<double>());
  }
  const auto dtype = dtype_from(std::string(buckets.at("dtype").as_string()));
  return {ParamLayout(dtype, std::move(specs)), std::move(backward)};
}

}  // namespace

Profile read_profile(const std::string& path) {
  const json::value trace = read_json(path);
  const json::object* other = nullptr;
  if (const auto* object = trace.if_object(); object != nullptr && object->contains("otherData"))
    other = object->at("otherData").if_object();
  if (other == nullptr || !other->contains("buckets")) {
    throw Error(ErrorKind::usage, text("'", path, "' tells nothing of buckets"),
                "they are planned where no size is given and a thread carries communication "
                "(WEFT_PROGRESS=thread), after five steps");
  }
  try {
    return from(other->at("buckets"));
  } catch (const std::exception& broken) {
    throw Error(ErrorKind::usage, text("'", path, "': buckets make no sense: ", broken.what()));
  }
}

}  // namespace weft::plan
