// One file with all tensors whole. Pieces follow each other as they lie in their tensors, block by block, so one block of memory is enough.

#include <algorithm>
#include <functional>

#include "checkpoint/checkpoint_state.hpp"
#include "checkpoint/saving/rank_file.hpp"
#include "checkpoint/stored_bytes.hpp"
#include "core/files/output_file.hpp"

namespace weft::checkpoint {

using namespace detail;

void Checkpoint::export_whole(const std::string& target) const {
  const Index& index = state_->index;
  std::vector<std::pair<const std::string*, const StoredTensor*>> order;
  for (const auto& [name, tensor] : index.tensors) order.emplace_back(&name, &tensor);
  std::ranges::stable_sort(order, std::greater(), [](const auto& one) { return size_of(one.second->dtype); });
  std::vector<HeaderRow> rows;
  for (const auto& [name, tensor] : order)
    rows.push_back({*name, tensor->dtype, tensor->shape,
                    static_cast<std::uint64_t>(tensor->count()) * size_of(tensor->dtype)});
  OutputFile out(target, target);
  out.add(safetensors_header(rows, index.step));
  for (const auto& [name, tensor] : order) {
    for (const StoredPiece& piece : tensor->pieces) {
      StoredBytes(path(), index.files[piece.file])
          .each_block(*name, tensor->dtype, piece, [&](ConstView block) {
            out.add({reinterpret_cast<const char*>(block.data()), block.size_bytes()});
          });
    }
  }
  out.finish();
}

}  // namespace weft::checkpoint
