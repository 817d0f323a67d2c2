#include "checkpoint/index.hpp"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

#include "checkpoint/checksums.hpp"
#include "core/base/number.hpp"
#include "core/files/json_node.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {

namespace json = boost::json;

namespace {

constexpr std::string_view format = "weft checkpoint 1";
constexpr std::string_view opening = R"({"checksum":")";
constexpr std::string_view middle = R"(","index":)";
constexpr std::string_view closing = "}\n";
constexpr std::string_view double_name = "double";
constexpr std::string_view save_name = "save";

struct TypeWord {
  DataType dtype;
  const char* word;
};
constexpr std::array type_words{
    TypeWord{DataType::f32, "F32"},   TypeWord{DataType::f64, "F64"}, TypeWord{DataType::f16, "F16"},
    TypeWord{DataType::bf16, "BF16"}, TypeWord{DataType::i32, "I32"}, TypeWord{DataType::i64, "I64"},
    TypeWord{DataType::u8, "U8"},     TypeWord{DataType::i8, "I8"},   TypeWord{DataType::i16, "I16"},
    TypeWord{DataType::u32, "U32"},   TypeWord{DataType::u64, "U64"}};

std::string digits(std::uint64_t one) {
  return digits_of(std::span(&one, 1));
}

// Boost.JSON reads every ninth double as its neighbour, so doubles are texts, of as many digits as tell each from all others.
json::value value_of(const checkpoint::Value& value) {
  if (const double* const number = std::get_if<double>(&value)) {
    std::array<char, 32> digits_of_it{};
    const auto end = std::to_chars(digits_of_it.data(), digits_of_it.data() + digits_of_it.size(), *number);
    return json::object{{double_name, json::string(digits_of_it.data(), end.ptr)}};
  }
  if (const auto* const whole = std::get_if<std::int64_t>(&value)) return *whole;
  return json::value(std::get<std::string>(value));
}

json::object tensor_of(const StoredTensor& tensor) {
  json::array pieces;
  for (const StoredPiece& piece : tensor.pieces) {
    pieces.push_back(json::object{{"file", piece.file},
                                  {"first", piece.first},
                                  {"count", piece.count},
                                  {"at", piece.at},
                                  {"blocks", digits_of(piece.blocks)}});
  }
  return {{"dtype", type_word(tensor.dtype)},
          {"shape", json::value_from(tensor.shape)},
          {"pieces", std::move(pieces)}};
}

std::uint64_t checksum_from(const JsonNode& node) {
  const auto all = checksums_in(node.string());
  if (all.size() != 1) node.refuse("is no checksum of 16 hexadecimal digits");
  return all.front();
}

checkpoint::Value value_from(const JsonNode& node) {
  if (node.value().is_int64()) return node.integer(std::numeric_limits<std::int64_t>::min());
  if (!node.value().is_object()) return node.string();
  node.has({double_name});
  const std::string digits_of_it = node[double_name].string();
  const auto number = weft::detail::number_of<double>(digits_of_it);
  if (!number || !std::isfinite(*number))
    node[double_name].refuse(text("is \"", digits_of_it, "\", which is no finite number"));
  return *number;
}

StoredFile file_from(const JsonNode& node) {
  node.has({"name", "bytes", "header"});
  StoredFile file{node["name"].string(), static_cast<std::uint64_t>(node["bytes"].integer(0)),
                  checksum_from(node["header"])};
  if (file.name.empty() || file.name.find('/') != std::string::npos || file.name.front() == '.')
    node["name"].refuse(text("is \"", file.name, "\", which is no name of a file in this folder"));
  return file;
}

StoredPiece piece_from(const JsonNode& node, const StoredTensor& tensor,
                       const std::vector<StoredFile>& files) {
  node.has({"file", "first", "count", "at", "blocks"});
  const std::int64_t all = tensor.count();
  StoredPiece piece;
  if (files.empty()) node.refuse("is in no file");
  piece.file = static_cast<std::size_t>(node["file"].integer(0, static_cast<std::int64_t>(files.size()) - 1));
  piece.first = node["first"].integer(0, all);
  piece.count = node["count"].integer(0, all - piece.first);
  const std::uint64_t size = static_cast<std::uint64_t>(piece.count) * size_of(tensor.dtype);
  const std::uint64_t file_bytes = files[piece.file].bytes;
  if (size > file_bytes) node["count"].refuse(text("is ", piece.count, ", more than its file has"));
  piece.at = static_cast<std::uint64_t>(node["at"].integer(0, static_cast<std::int64_t>(file_bytes - size)));
  piece.blocks = checksums_in(node["blocks"].string());
  const std::size_t blocks = (size + checkpoint_block - 1) / checkpoint_block;
  if (piece.blocks.size() != blocks)
    node["blocks"].refuse(text("are not the checksums of ", blocks, " blocks"));
  return piece;
}

StoredTensor tensor_from(const JsonNode& node, const std::vector<StoredFile>& files) {
  node.has({"dtype", "shape", "pieces"});
  StoredTensor tensor;
  if (!type_of_word(node["dtype"].string(), tensor.dtype)) node["dtype"].refuse("is no type that weft has");
  node["shape"].each([&](const JsonNode& one) { tensor.shape.push_back(one.integer(0)); });
  std::int64_t count = 0;
  if (!count_of(tensor.shape, count)) node["shape"].refuse("has too many elements");
  node["pieces"].each([&](const JsonNode& one) { tensor.pieces.push_back(piece_from(one, tensor, files)); });
  return tensor;
}

[[noreturn]] void refuse_damaged(const std::string& called) {
  throw Error(ErrorKind::usage,
              text(called, ": its bytes do not have its checksum: it is damaged, or no index of weft"),
              "use an older checkpoint, or a copy of this one");
}

std::string save_text(std::int64_t number) {
  return text(number, ' ', digits(checksum(text(save_name, ' ', number))));
}

/// None for a text that save_text() does not give.
std::optional<std::int64_t> save_from(std::string_view words) {
  std::int64_t number = 0;
  std::from_chars(words.data(), words.data() + words.size(), number);
  if (number < 1 || number > most_saves || save_text(number) != words) return std::nullopt;
  return number;
}

std::string elements(std::int64_t begin, std::int64_t end) {
  return text("elements [", begin, ", ", end, ')');
}

}  // namespace

bool count_of(const std::vector<std::int64_t>& shape, std::int64_t& count) {
  constexpr std::int64_t most = std::int64_t{1} << 59;  // so that bytes of any type fit an int64
  count = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || (size > 0 && count > most / size)) return false;
    count *= size;
  }
  return true;
}

const char* type_word(DataType dtype) {
  return std::ranges::find(type_words, dtype, &TypeWord::dtype)->word;
}

bool type_of_word(std::string_view word, DataType& dtype) {
  const auto found = std::ranges::find_if(type_words, [&](const TypeWord& one) { return word == one.word; });
  if (found != type_words.end()) dtype = found->dtype;
  return found != type_words.end();
}

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t all = 0;
  count_of(shape, all);
  return all;
}

std::string text_of(const Index& index) {
  json::object values;
  for (const auto& [name, value] : index.values) values[name] = value_of(value);
  json::array files;
  for (const StoredFile& file : index.files)
    files.push_back(
        json::object{{"name", file.name}, {"bytes", file.bytes}, {"header", digits(file.header)}});
  json::object tensors;
  for (const auto& [name, tensor] : index.tensors) tensors[name] = tensor_of(tensor);
  json::object all{{"format", format}};
  if (index.save > 0) all[save_name] = save_text(index.save);
  all["step"] = index.step;
  all["values"] = std::move(values);
  all["files"] = std::move(files);
  all["tensors"] = std::move(tensors);
  const std::string inner = json::serialize(all);
  return text(opening, digits(checksum(inner)), middle, inner, closing);
}

std::optional<std::int64_t> save_number_in(std::string_view start) {
  const std::string before = text(middle, R"({"format":")", format, "\",\"");
  const std::size_t at = opening.size() + 16;
  if (!start.starts_with(opening) || start.size() < at || !start.substr(at).starts_with(before))
    return std::nullopt;
  start.remove_prefix(at + before.size());
  const std::string with_number = text(save_name, "\":\"");
  if (start.starts_with("step\":")) return 0;
  if (!start.starts_with(with_number)) return std::nullopt;
  start.remove_prefix(with_number.size());
  return save_from(start.substr(0, start.find('"')));
}

Index parse_index(std::string_view content, const std::string& called) {
  constexpr std::size_t before = opening.size() + 16 + middle.size();
  if (content.size() < before + closing.size() || !content.starts_with(opening) ||
      !content.ends_with(closing) || content.substr(before - middle.size(), middle.size()) != middle)
    refuse_damaged(called);
  const auto expected = checksums_in(content.substr(opening.size(), 16));
  const std::string_view inner = content.substr(before, content.size() - before - closing.size());
  if (expected.size() != 1 || checksum(inner) != expected.front()) refuse_damaged(called);

  json::error_code error;
  const json::value value = json::parse(json::string_view(inner.data(), inner.size()), error);
  if (error) throw Error(ErrorKind::usage, text(called, ": it is no JSON: ", error.message()));
  const JsonNode root(called, value);
  root.has({"format", save_name, "step", "values", "files", "tensors"}, save_name);
  if (root["format"].string() != format)
    root["format"].refuse(text("is \"", root["format"].string(), "\""),
                          text("this weft reads \"", format, "\""));
  Index index;
  index.step = root["step"].integer(0);
  if (root.contains(save_name)) {
    const auto number = save_from(root[save_name].string());
    if (!number) root[save_name].refuse("is no number of a save with its checksum");
    index.save = *number;
  }
  root["values"].each_member(
      [&](const std::string& name, const JsonNode& one) { index.values.emplace(name, value_from(one)); });
  root["files"].each([&](const JsonNode& one) { index.files.push_back(file_from(one)); });
  root["tensors"].each_member([&](const std::string& name, const JsonNode& one) {
    index.tensors.emplace(name, tensor_from(one, index.files));
  });
  return index;
}

void add_part(Index& whole, const Index& part) {
  const std::size_t before = whole.files.size();
  whole.files.insert(whole.files.end(), part.files.begin(), part.files.end());
  for (const auto& [name, added] : part.tensors) {
    const auto [at, is_new] = whole.tensors.emplace(name, StoredTensor{added.dtype, added.shape, {}});
    StoredTensor& tensor = at->second;
    if (tensor.dtype != added.dtype || tensor.shape != added.shape) {
      const std::string first =
          tensor.pieces.empty() ? "another rank's" : whole.files[tensor.pieces.front().file].name;
      throw Error(ErrorKind::usage,
                  text("tensor ", name, " has another shape or type in ", part.files.front().name,
                       " than in ", first),
                  "pieces of one tensor have its shape and type on every rank");
    }
    for (StoredPiece piece : added.pieces) {
      piece.file += before;
      tensor.pieces.push_back(std::move(piece));
    }
  }
}

void check_complete(Index& index) {
  for (auto& [name, tensor] : index.tensors) {
    std::ranges::sort(tensor.pieces, {},
                      [](const StoredPiece& one) { return std::pair(one.first, one.count); });
    std::int64_t done = 0;
    const StoredPiece* last = nullptr;
    for (const StoredPiece& piece : tensor.pieces) {
      if (piece.count == 0) continue;
      if (piece.first > done)
        throw Error(ErrorKind::usage,
                    text("of tensor ", name, " no rank saves ", elements(done, piece.first)),
                    "all ranks' pieces together are the whole tensor");
      if (piece.first < done)
        throw Error(ErrorKind::usage,
                    text(elements(piece.first, std::min(done, piece.first + piece.count)), " of tensor ",
                         name, " are saved twice: in ", index.files[last->file].name, " and in ",
                         index.files[piece.file].name),
                    "each element is saved by one rank; what all ranks have alike is saved by rank 0 alone");
      done = piece.first + piece.count;
      last = &piece;
    }
    if (done != tensor.count())
      throw Error(ErrorKind::usage,
                  text("of tensor ", name, " no rank saves ", elements(done, tensor.count())),
                  "all ranks' pieces together are the whole tensor");
  }
}

}  // namespace weft::detail
