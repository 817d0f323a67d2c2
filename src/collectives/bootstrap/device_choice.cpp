#include "collectives/bootstrap/device_choice.hpp"

#include <algorithm>
#include <cstdlib>

#include "collectives/nccl/api.hpp"
#include "core/base/number.hpp"
#include "core/cuda/runtime.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

Device numbered(int index, int devices, const std::string& why) {
  if (index < devices) return Device::cuda(index);
  throw Error(
      ErrorKind::usage, text(why, ", but this process has ", devices, " device(s)"),
      "start fewer ranks on the node, look at CUDA_VISIBLE_DEVICES, or set WEFT_SHARE_DEVICE=1 to let "
      "several ranks use one device (for tests: they take turns)");
}

}  // namespace

bool may_share_devices(const Environment& environment) {
  return environment.integer(env::share_device, 0, 1).value_or(0) == 1;
}

Device choose_device(const Environment& environment, const std::function<int()>& local_rank) {
  const std::string choice = environment.value(env::device);
  if (choice == "host") return Device::host();
  const auto index = number_of<int>(std::string_view(choice).substr(std::min<std::size_t>(choice.size(), 5)));
  const bool is_numbered = choice.starts_with("cuda:") && index && *index >= 0;
  if (choice != "cuda" && !is_numbered) {
    throw Error(ErrorKind::usage, text(env::device.name, "=", choice, " is none of host, cuda, cuda:N"));
  }
  const int devices = cuda::runtime()->devices();
  if (is_numbered) return numbered(*index, devices, text(env::device.name, "=", choice));
  const int local = local_rank();
  if (devices > 0 && may_share_devices(environment)) return Device::cuda(local % devices);
  return numbered(local, devices, text("this rank is number ", local, " on its node (from 0)"));
}

Place Place::of(const std::string& host_id, Device device) {
  if (device.is_host()) return {host_id};
  return {host_id, cuda::runtime()->identity(device.index())};
}

std::string Place::note() const {
  return text(device.size(), " ", device, host_id);
}

Place Place::from(const std::string& note) {
  std::istringstream in(note);
  std::size_t length = 0;
  in >> length;
  in.get();
  const auto begin = static_cast<std::size_t>(in.tellg());
  return {note.substr(begin + length), note.substr(begin, length)};
}

bool check_places(const std::vector<Place>& places, bool may_share) {
  bool shared = false;
  for (std::size_t rank = 1; rank < places.size(); ++rank) {
    const bool first_on_host = places[0].device == "host";
    if ((places[rank].device == "host") != first_on_host) {
      throw Error(ErrorKind::mismatch,
                  text("rank 0 computes on ", first_on_host ? "the host" : "a CUDA device", " and rank ",
                       rank, " on ", first_on_host ? "a CUDA device" : "the host"),
                  "give every rank the same WEFT_DEVICE");
    }
  }
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    if (places[rank].device == "host") break;
    for (std::size_t other = 0; other < rank; ++other) {
      if (places[other].device != places[rank].device || places[other].host_id != places[rank].host_id)
        continue;
      shared = true;
      if (may_share) continue;
      throw Error(
          ErrorKind::usage,
          text("ranks ", other, " and ", rank, " use the same CUDA device (", places[rank].device, ")"),
          "give each its own (WEFT_DEVICE=cuda does), or set WEFT_SHARE_DEVICE=1, for tests: they take "
          "turns");
    }
  }
  return shared;
}

// NCCL compares node and device: from 2.30.3 on it can be told to allow both to be equal, before that only
// nodes that look different (source: NCCL 2.28.9 src/init.cc, 2.30.7 src/init.cc). What the user has set
// stays.
void let_nccl_share_devices(int rank, int nccl_version) {
  constexpr int keep = 0;
  if (nccl_version >= nccl::version_code(2, 30, 3)) {
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", keep);
    setenv("NCCL_NVLS_ENABLE", "0", keep);
  } else {
    setenv("NCCL_HOSTID", text("weft-", rank).c_str(), keep);
  }
}

}  // namespace weft::detail
