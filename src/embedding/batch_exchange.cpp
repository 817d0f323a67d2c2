#include "embedding/batch_exchange.hpp"

#include <algorithm>

namespace weft::detail {
namespace {

/// Messages of tables have tags that few programs use for their own.
constexpr std::uint32_t tag = 4051;

}  // namespace

void RowLayout::lay_out(int ranks, std::span<const int> columns, const std::vector<std::int64_t>& counts) {
  tables_ = columns.size();
  rows_.assign(1, 0);
  numbers_.assign(1, 0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(ranks) * tables_; ++i) {
    rows_.push_back(rows_.back() + counts[i]);
    numbers_.push_back(numbers_.back() + counts[i] * columns[i % tables_]);
  }
}

std::shared_ptr<Buffer> GrowingBuffer::of(Communicator& comm, DataType dtype, std::int64_t count) {
  if (buffer_ == nullptr || buffer_->count() < count)
    buffer_ =
        std::make_shared<Buffer>(comm.allocate(dtype, std::max(count, count + count / 2), Contents::any));
  return buffer_;
}

std::span<const std::int32_t> BatchExchange::asked_slots(int rank, std::size_t table, int own) const {
  if (rank == own) return wanted[table].of_owner(own);
  return slots_in->as<std::int32_t>().subspan(static_cast<std::size_t>(asked_layout.first_row(rank, table)),
                                              static_cast<std::size_t>(asked_layout.rows(rank, table)));
}

PartOf BatchExchange::sent_gradients(int rank) const {
  if (one_part) return {wanted_layout.first_number(rank, 0), wanted_layout.numbers_of(rank)};
  const auto r = static_cast<std::size_t>(rank);
  return {sent_parts.number[r], sent_parts.number[r + 1] - sent_parts.number[r]};
}

PartOf BatchExchange::received_gradients(int rank) const {
  if (one_part) return {asked_layout.first_number(rank, 0), asked_layout.numbers_of(rank)};
  const auto r = static_cast<std::size_t>(rank);
  return {received_parts.number[r], received_parts.number[r + 1] - received_parts.number[r]};
}

std::int64_t exchange_parts(const Communicator& comm, ConstView out, const std::function<PartOf(int)>& out_of,
                            View in, const std::function<PartOf(int)>& in_of, const Stream& wire) {
  Group group(comm);
  std::int64_t elements = 0;
  bool any = false;
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (rank == comm.rank()) continue;
    const PartOf sent = out_of(rank);
    const PartOf received = in_of(rank);
    if (sent.count > 0) group.send(out.slice(sent.first, sent.count), rank, tag);
    if (received.count > 0) group.receive(in.slice(received.first, received.count), rank, tag);
    elements += sent.count;
    any = any || sent.count > 0 || received.count > 0;
  }
  if (any) group.start(wire);
  return elements * static_cast<std::int64_t>(size_of(out.dtype()));
}

}  // namespace weft::detail
