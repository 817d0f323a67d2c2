#include "gradient/plan/plan_agreement.hpp"

#include <algorithm>
#include <optional>
#include <sstream>

#include "collectives/diagnosis/texts.hpp"
#include "core/base/fnv.hpp"
#include "gradient/plan/shape_text.hpp"

namespace weft::detail {
namespace {

/// One line per parameter: name, shape and type, and its offset if the layout has widened gaps.
std::vector<std::string> described(const ParamLayout& layout) {
  const ParamLayout usual =
      layout.with_starts({}, static_cast<std::int64_t>(Buffer::alignment / size_of(layout.dtype())));
  std::vector<std::string> lines;
  for (int i = 0; i < layout.parameters(); ++i) {
    const ParamId id{i};
    lines.push_back(text(layout.name(id), ", ", shape_text(layout.shape(id)), " of ", layout.dtype()));
    if (layout.size() != usual.size())
      lines.back() += text(" at ", layout.offset(id), " of ", layout.size(), " elements");
  }
  return lines;
}

/// Describes the first line in which two ranks differ.
std::string difference(const std::vector<std::string>& first, const std::vector<std::string>& second,
                       int rank, const char* line) {
  const std::size_t most = std::min(first.size(), second.size());
  for (std::size_t i = 0; i < most; ++i) {
    if (first[i] != second[i])
      return text(line, " ", i, " is ", first[i], " on rank 0 and ", second[i], " on rank ", rank);
  }
  const bool more = first.size() > second.size();
  return text("rank 0 has ", first.size(), " ", line, "s and rank ", rank, " ", second.size(), ": ",
              (more ? first : second)[most], " is only on rank ", more ? 0 : rank);
}

/// Called on every rank once lists are known to differ. Rank 0 broadcasts its list; the lowest rank that
/// differs from it finds the difference and broadcasts it.
[[noreturn]] void throw_difference(Communicator& comm, const std::vector<std::string>& mine, int different,
                                   const Disagreement& otherwise) {
  std::string lines;
  for (const std::string& line : mine) lines += line + '\n';
  std::istringstream in(broadcast_text(comm, comm.rank() == 0 ? lines : "", 0));
  std::vector<std::string> first;
  for (std::string line; std::getline(in, line);) first.push_back(line);
  const bool finds = comm.rank() == different;
  const std::string found =
      broadcast_text(comm, finds ? difference(first, mine, different, otherwise.line) : "", different);
  throw Error(ErrorKind::mismatch, text(otherwise.what, ": ", found), otherwise.advice,
              {comm.rank(), otherwise.operation, 0});
}

std::vector<std::int64_t> hashes(Communicator& comm, std::int64_t mine) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(comm.size()));
  Stream stream;
  comm.all_gather(ConstView(std::span<const std::int64_t>(&mine, 1)), View(std::span(all)), stream).wait();
  return all;
}

std::optional<int> first_different_rank(const std::vector<std::int64_t>& all) {
  const auto other = std::ranges::find_if(all, [&](std::int64_t one) { return one != all.front(); });
  if (other == all.end()) return std::nullopt;
  return static_cast<int>(other - all.begin());
}

}  // namespace

void agree_on(Communicator& comm, const ParamLayout& layout, const std::string& options) {
  const auto layouts = hashes(comm, static_cast<std::int64_t>(layout.hash()));
  if (const auto other = first_different_rank(layouts))
    throw_difference(
        comm, described(layout), *other,
        {"ranks have different models", "build the same model on every rank", "GradientReducer"});
  agree_on(comm, options,
           {"ranks have different ReducerOptions", "use the same options on every rank", "GradientReducer"});
}

void agree_on(Communicator& comm, const BucketPlan& plan) {
  const auto other = first_different_rank(hashes(comm, static_cast<std::int64_t>(plan.hash())));
  if (!other) return;
  throw Error(ErrorKind::mismatch,
              text("ranks 0 and ", *other, " plan different buckets for the same parameters"),
              "use the same bucket_bytes on every rank", {comm.rank(), "GradientReducer", 0});
}

void agree_on(Communicator& comm, const std::vector<std::string>& parameters, const Disagreement& otherwise) {
  Fnv all;
  for (const std::string& one : parameters) all.add(one);
  const auto other = first_different_rank(hashes(comm, static_cast<std::int64_t>(all.value())));
  if (other) throw_difference(comm, parameters, *other, otherwise);
}

void agree_on(Communicator& comm, const std::string& mine, const Disagreement& otherwise) {
  const auto hash = static_cast<std::int64_t>(Fnv().add(mine).value());
  const auto other = first_different_rank(hashes(comm, hash));
  if (!other) return;
  const std::string first = broadcast_text(comm, comm.rank() == 0 ? mine : "", 0);
  const std::string second = broadcast_text(comm, comm.rank() == *other ? mine : "", *other);
  throw Error(ErrorKind::mismatch, text(otherwise.what, ": rank 0 ", first, "; rank ", *other, " ", second),
              otherwise.advice, {comm.rank(), otherwise.operation, 0});
}

}  // namespace weft::detail
