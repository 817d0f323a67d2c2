// The index of a checkpoint: a value and its text, and what is refused.

#include "checkpoint/index.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "checkpoint/checksums.hpp"
#include "checkpoint/saving/folder.hpp"
#include "checkpoint/saving/rank_file.hpp"
#include "support/draw.hpp"
#include "support/expect_error.hpp"

namespace weft::detail {
namespace {

StoredPiece piece(std::size_t file, std::int64_t first, std::int64_t count, std::uint64_t at) {
  return {file, first, count, at, std::vector<std::uint64_t>(count == 0 ? 0 : 1, 0x0123456789abcdefU + at)};
}

Index small() {
  Index index;
  index.step = 40;
  index.values = {{"position", std::int64_t{1} << 62}, {"scale", 0.1}, {"random", "\"quoted\"\n\xc3\xa9"}};
  index.files = {{"rank-00000.safetensors", 1000, 7}, {"rank-00001.safetensors", 600, ~std::uint64_t{0}}};
  index.tensors["w"] = {DataType::bf16, {10, 20}, {piece(0, 0, 150, 64), piece(1, 150, 50, 64)}};
  index.tensors["empty"] = {DataType::f32, {0, 4}, {}};
  index.tensors["one"] = {DataType::f64, {}, {piece(1, 0, 1, 0)}};
  return index;
}

TEST(CheckpointIndex, IsReadAsItWasWritten) {
  const Index index = small();
  EXPECT_EQ(parse_index(text_of(index), "index"), index);
  for (const double value : {5e-324, 0.1, -1.7976931348623157e308, 3.0}) {
    Index one;
    one.values["x"] = value;
    EXPECT_EQ(parse_index(text_of(one), "index"), one) << value;
  }
  Index many;
  test::Draw draw(1);
  for (int i = 0; i < 2000; ++i) {
    const double value = std::bit_cast<double>(test::mixed(static_cast<std::uint64_t>(i)));
    if (std::isfinite(value)) many.values["bits " + std::to_string(i)] = value;
    many.values["near 1, " + std::to_string(i)] = std::ldexp(static_cast<double>(draw.below(1 << 30)), -29);
  }
  EXPECT_EQ(parse_index(text_of(many), "index"), many);
}

TEST(CheckpointIndex, HasAChecksumOfEveryByte) {
  const std::string good = text_of(small());
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    EXPECT_THROW(parse_index(bad, "index"), Error) << i;
    EXPECT_THROW(parse_index(good.substr(0, i), "index"), Error) << i;
  }
  test::expect_error(ErrorKind::usage, {"DIR/index.json", "checksum"},
                     [] { parse_index("{}", "DIR/index.json"); });
}

/// The index with other content and the checksum that fits it.
std::string with(const std::string& from, const std::string& to) {
  std::string all = text_of(small());
  const std::size_t begin = all.find("\"index\":") + 8;
  std::string inner = all.substr(begin, all.size() - begin - 2);
  const std::size_t at = inner.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << inner;
  inner.replace(at, from.size(), to);
  const std::uint64_t sum = checksum(inner);
  return "{\"checksum\":\"" + digits_of(std::span(&sum, 1)) + "\",\"index\":" + inner + "}\n";
}

TEST(CheckpointIndex, WithTheRightChecksumIsStillNotBelieved) {
  const auto refuses = [](const std::string& from, const std::string& to,
                          std::initializer_list<std::string> words) {
    test::expect_error(ErrorKind::usage, words, [&] { parse_index(with(from, to), "I"); });
  };
  refuses("weft checkpoint 1", "weft checkpoint 2", {"weft checkpoint 2", "this weft reads"});
  refuses("rank-00000.safetensors", "../00000.safetensors",
          {"files[0].name", "no name of a file in this folder"});
  refuses("rank-00000.safetensors", ".ank-00000.safetensors", {"no name of a file in this folder"});
  refuses("\"bytes\":1000", "\"bytes\":-1", {"files[0].bytes", "-1"});
  refuses("[10,20]", "[10,9223372036854775807]", {"tensors.w.shape", "too many elements"});
  refuses("[10,20]", "[10,-20]", {"shape[1] is -20"});
  refuses("[10,20]", "[10,19]", {"pieces[1].count is 50"});
  refuses("BF16", "F8", {"tensors.w.dtype", "no type that weft has"});
  refuses("\"at\":64", "\"at\":701", {"pieces[0].at is 701", "0 to 700"});
  refuses("\"bytes\":1000", "\"bytes\":299", {"pieces[0].count is 150", "more than its file has"});
  refuses("\"file\":1", "\"file\":2", {"file is 2", "0 to 1"});
  refuses("\"blocks\":\"", "\"blocks\":\"0123456789abcdef", {"not the checksums of 1 blocks"});
  refuses("\"scale\"", "\"step\":[],\"scale\"", {"values.step", "no string"});
  refuses(R"({"double":"0.1"})", "0.1", {"values.scale", "no string"});
  refuses(R"("0.1")", R"("0.1x")", {"values.scale.double", "\"0.1x\", which is no finite number"});
  refuses(R"("0.1")", R"("nan")", {"no finite number"});
  refuses(R"("double")", R"("f64")", {"values.scale", "double"});
}

TEST(CheckpointIndex, PiecesMustBeTheWholeTensorOnce) {
  const auto check = [](std::vector<StoredPiece> pieces) {
    Index index;
    index.files = {{"a", 1000, 0}, {"b", 1000, 0}};
    index.tensors["w"] = {DataType::f32, {100}, std::move(pieces)};
    check_complete(index);
    return index.tensors["w"].pieces;
  };
  EXPECT_EQ(check({piece(1, 60, 40, 0), piece(0, 0, 60, 0), piece(0, 60, 0, 0)}).front().first, 0);
  test::expect_error(ErrorKind::usage, {"tensor w", "no rank saves elements [0, 10)"},
                     [&] { check({piece(0, 10, 90, 0)}); });
  test::expect_error(ErrorKind::usage, {"no rank saves elements [60, 100)"},
                     [&] { check({piece(0, 0, 60, 0)}); });
  test::expect_error(ErrorKind::usage, {"no rank saves elements [0, 100)"}, [&] { check({}); });
  test::expect_error(ErrorKind::usage, {"elements [50, 60)", "saved twice", "in a and in b"}, [&] {
    check({piece(0, 0, 60, 0), piece(1, 50, 50, 0)});
  });
  Index first;
  first.files = {{"a", 1000, 0}};
  first.tensors["w"] = {DataType::f32, {100}, {piece(0, 0, 50, 0)}};
  Index second = first;
  second.files.front().name = "b";
  second.tensors["w"].shape = {10, 10};
  test::expect_error(ErrorKind::usage, {"tensor w has another shape or type in b than in a"},
                     [&] { add_part(first, second); });
}

TEST(CheckpointIndex, NamesOfStepsSortAsTheirNumbers) {
  EXPECT_EQ(checkpoint_name(40), "step-00000040");
  EXPECT_EQ(checkpoint_name(1234567890), "step-1234567890");
  for (const std::int64_t step :
       {std::int64_t{0}, std::int64_t{99999999}, std::numeric_limits<std::int64_t>::max()})
    EXPECT_EQ(step_of(checkpoint_name(step)), step);
  for (const char* name :
       {"step-40", "step-00000040.part", "step-0000004x", "step--0000040", "step-", "index.json"})
    EXPECT_FALSE(step_of(name)) << name;
}

TEST(CheckpointIndex, ChecksumsAreThoseOfXxhash) {
  EXPECT_EQ(checksum(std::string_view("")),
            0x2d06800538d394c2U);  // XXH3_64bits of nothing, xxHash's own figure
  const std::vector<std::uint64_t> some{0, 1, ~std::uint64_t{0}};
  EXPECT_EQ(checksums_in(digits_of(some)), some);
  EXPECT_TRUE(checksums_in("0123").empty());
  EXPECT_TRUE(checksums_in("0123456789ABCDEF").empty());
}

// https://huggingface.co/docs/safetensors: 8 bytes of length, little endian, then JSON that may end in spaces.
TEST(CheckpointIndex, HeaderIsSafetensors) {
  const std::string header = safetensors_header(
      std::vector<HeaderRow>{{"a", DataType::f32, {2, 3}, 24}, {"b", DataType::u8, {}, 1}}, 7);
  ASSERT_EQ(header.size() % 64, 0U);
  EXPECT_EQ(static_cast<unsigned char>(header[0]) + 256U * static_cast<unsigned char>(header[1]),
            header.size() - 8);
  EXPECT_EQ(
      header.substr(8, header.find_last_not_of(' ') - 7),
      R"({"__metadata__":{"format":"weft checkpoint 1","step":"7"},)"
      R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"U8","shape":[],"data_offsets":[24,25]}})");
}

TEST(CheckpointIndex, RandomOnesAreReadAsTheyWereWritten) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    test::Draw draw(seed);
    Index index;
    index.step = draw.below(1000000);
    for (int i = draw.below(4); i > 0; --i) index.files.push_back({"f" + std::to_string(i), 1U << 30U, seed});
    for (int i = draw.below(5); i > 0 && !index.files.empty(); --i) {
      StoredTensor& tensor = index.tensors["t" + std::to_string(i)];
      tensor.shape = {draw.below(50), 1 + draw.below(50)};
      tensor.dtype = draw.one_of({DataType::f32, DataType::i8, DataType::u64, DataType::f16});
      for (std::int64_t first = 0; first < tensor.count();) {
        const std::int64_t count = std::min<std::int64_t>(tensor.count() - first, 1 + draw.below(2000));
        tensor.pieces.push_back(piece(
            static_cast<std::size_t>(draw.below(static_cast<int>(index.files.size()))), first, count, 8));
        first += count;
      }
    }
    EXPECT_EQ(parse_index(text_of(index), "index"), index) << seed;
  }
}

}  // namespace
}  // namespace weft::detail
