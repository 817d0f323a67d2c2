#include "compression/codecs/codec_table.hpp"

#include <algorithm>
#include <array>

namespace weft::detail {
namespace {

constexpr std::array rows{
    CodecRow{"fp16", CodecParameter::none, false, true, [](const CodecChoices&) { return fp16_codec(); }},
    CodecRow{"bf16", CodecParameter::none, false, true, [](const CodecChoices&) { return bf16_codec(); }},
    CodecRow{"fp8-e4m3", CodecParameter::rounding, true, false,
             [](const CodecChoices& given) { return fp8_codec(Fp8::e4m3, given.rounding, given.seed); }},
    CodecRow{"fp8-e5m2", CodecParameter::rounding, true, false,
             [](const CodecChoices& given) { return fp8_codec(Fp8::e5m2, given.rounding, given.seed); }},
    CodecRow{"int8", CodecParameter::rounding, true, false,
             [](const CodecChoices& given) { return int8_codec(given.rounding, given.seed); }},
    CodecRow{"int4", CodecParameter::rounding, true, false,
             [](const CodecChoices& given) { return int4_codec(given.rounding, given.seed); }},
    CodecRow{"fp4", CodecParameter::rounding, true, false,
             [](const CodecChoices& given) { return fp4_codec(given.rounding, given.seed); }},
    CodecRow{"top-k", CodecParameter::fraction, false, false,
             [](const CodecChoices& given) { return top_k_codec(given.fraction); }},
    CodecRow{"random-k", CodecParameter::fraction, true, false,
             [](const CodecChoices& given) { return random_k_codec(given.fraction, given.seed); }},
};

}  // namespace

std::span<const CodecRow> codec_table() {
  return rows;
}

const CodecRow* codec_row(const std::string& name) {
  const auto found = std::ranges::find_if(rows, [&](const CodecRow& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

std::string codec_list() {
  std::string list;
  for (const CodecRow& row : rows) {
    list += list.empty() ? "" : ", ";
    list += row.name;
    if (row.parameter == CodecParameter::rounding) list += "[:stochastic]";
    if (row.parameter == CodecParameter::fraction) list += ":F";
  }
  return list;
}

}  // namespace weft::detail
