#include "collectives/network/mpi/mpi_library.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "collectives/diagnosis/poll_deadline.hpp"
#include "collectives/kernels/reduce_kernel.hpp"
#include "weft/core/error.hpp"

namespace weft::detail {
namespace {

/// Types whose elements MPI cannot combine, or not as weft does: it has no 16-bit floats, and with AVX Open
/// MPI's sums of integers of 8 and 16 bits stop at their limits where weft's wrap around. A function that
/// combines is told the type only.
struct OwnTypes {
  static constexpr std::array dtypes{DataType::f16, DataType::bf16, DataType::u8, DataType::i8,
                                     DataType::i16};
  std::array<MPI_Datatype, dtypes.size()> types{};
  std::array<MPI_Op, 8> ops{};  // by ReduceOp; avg is a sum, divided afterwards

  /// Made with the first use, while MPI is held; MPI ends with the process, and they with it.
  static const OwnTypes& made() {
    static const OwnTypes own;
    return own;
  }
  /// Null where MPI's own will do.
  static const MPI_Datatype* of(DataType dtype) {
    const auto found = std::ranges::find(dtypes, dtype);
    return found == dtypes.end() ? nullptr : &made().types[static_cast<std::size_t>(found - dtypes.begin())];
  }

 private:
  template <ReduceOp op>
  static void combine(void* in, void* in_out, int* count, MPI_Datatype* type) {
    const std::array sources{static_cast<const std::byte*>(in_out), static_cast<const std::byte*>(in)};
    std::byte* const result = static_cast<std::byte*>(in_out);
    const auto index = std::ranges::find(made().types, *type) - made().types.begin();
    reduce(sources, {std::span(&result, 1)}, *count, dtypes[static_cast<std::size_t>(index)], op);
  }
  static MPI_Datatype of_bytes(std::size_t count) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MpiRuntime::check(MPI_Type_contiguous(static_cast<int>(count), MPI_BYTE, &type), "MPI_Type_contiguous");
    MpiRuntime::check(MPI_Type_commit(&type), "MPI_Type_commit");
    return type;
  }
  OwnTypes() {
    std::ranges::transform(dtypes, types.begin(), [](DataType dtype) { return of_bytes(size_of(dtype)); });
    const std::array<MPI_User_function*, 8> functions{
        combine<ReduceOp::sum>, combine<ReduceOp::prod>, combine<ReduceOp::min>, combine<ReduceOp::max>,
        combine<ReduceOp::sum>, combine<ReduceOp::band>, combine<ReduceOp::bor>, combine<ReduceOp::bxor>};
    for (std::size_t i = 0; i < functions.size(); ++i)
      MpiRuntime::check(MPI_Op_create(functions[i], 1, &ops[i]), "MPI_Op_create");
  }
};
static_assert(static_cast<int>(ReduceOp::sum) == 0 && static_cast<int>(ReduceOp::avg) == 4 &&
              static_cast<int>(ReduceOp::bxor) == 7);

MPI_Datatype type_of(DataType dtype) {
  if (const MPI_Datatype* own = OwnTypes::of(dtype)) return *own;
  switch (dtype) {
    case DataType::f32:
      return MPI_FLOAT;
    case DataType::f64:
      return MPI_DOUBLE;
    case DataType::i32:
      return MPI_INT32_T;
    case DataType::i64:
      return MPI_INT64_T;
    case DataType::u32:
      return MPI_UINT32_T;
    case DataType::u64:
      return MPI_UINT64_T;
    default:
      break;
  }
  return MPI_DATATYPE_NULL;
}

MPI_Op op_of(ReduceOp op, DataType dtype) {
  const auto index = static_cast<std::size_t>(op);  // a mean is a sum that is divided afterwards
  if (OwnTypes::of(dtype) != nullptr) return OwnTypes::made().ops[index];
  const std::array predefined{MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_SUM, MPI_BAND, MPI_BOR, MPI_BXOR};
  return predefined[index];
}

class MpiLibraryCollective final : public Task {
 public:
  MpiLibraryCollective(std::shared_ptr<MpiRendezvous> rendezvous, const Operation& operation,
                       std::chrono::nanoseconds timeout)
      : rendezvous_(std::move(rendezvous)), op_(operation), timeout_(timeout), poll_deadline_(timeout) {}

  ~MpiLibraryCollective() override {
    if (!begun_ || ended_) return;
    // Given up: MPI may still write to the buffers, and can no longer be finalized in peace.
    rendezvous_->runtime()->mark_broken();
    MpiRuntime::keep_for_ever(std::make_shared<Buffer>(std::move(room_)));
  }

  bool advance() override {
    {
      const auto entered = rendezvous_->runtime()->enter();
      if (!begun_) {
        poll_deadline_ = PollDeadline(timeout_);
        post();
        begun_ = true;
      }
      int ended = 0;
      MpiRuntime::check(MPI_Test(&request_, &ended, MPI_STATUS_IGNORE), "MPI_Test");
      ended_ = ended != 0;
    }
    if (ended_) {
      finish();
      return true;
    }
    if (poll_deadline_.time_to_look() && poll_deadline_.exhausted()) {
      throw Error(ErrorKind::timeout,
                  text("waited ", poll_deadline_.waited_seconds(), " s for other ranks in MPI's own ",
                       name(op_.kind), ", which does not say for whom"),
                  "choose an algorithm of weft's to hear which rank is late, or raise the timeout");
    }
    return false;
  }

 private:
  void post();
  // The mean is taken of the whole sum; the choice of algorithm has seen to it that the type can hold that.
  void finish() {
    const bool has_result = op_.kind != Collective::reduce || rendezvous_->rank() == op_.root;
    const bool averages = op_.reduces() && op_.op == ReduceOp::avg;
    if (!has_result || (!averages && room_.view().empty())) return;
    std::byte* const out = op_.out.bytes();
    const std::byte* const sum = room_.view().empty() ? out : room_.view().bytes();
    reduce({&sum, 1}, {std::span(&out, 1)}, op_.out.count(), op_.dtype,
           averages ? ReduceOp::avg : ReduceOp::sum, op_.divisor == 0 ? rendezvous_->size() : op_.divisor);
  }

  std::shared_ptr<MpiRendezvous> rendezvous_;
  Operation op_;
  std::chrono::nanoseconds timeout_;
  PollDeadline poll_deadline_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  Buffer room_;  // of a result that would lie in the input
  bool begun_ = false;
  bool ended_ = false;
};

void MpiLibraryCollective::post() {
  const MPI_Comm comm = rendezvous_->communicator();
  const MPI_Datatype type = type_of(op_.dtype);
  const auto count = static_cast<int>(op_.count);
  const void* const in = op_.in.data();
  void* const out = op_.out.data();
  // What MPI calls in place: both arguments the same, or a rank's part lying where it belongs.
  const std::byte* const own =
      op_.out.bytes() + op_.in.size_bytes() * static_cast<std::size_t>(rendezvous_->rank());
  const bool is_root = rendezvous_->rank() == op_.root;
  int code = MPI_SUCCESS;
  switch (op_.kind) {
    case Collective::all_reduce:
      code = MPI_Iallreduce(in == out ? MPI_IN_PLACE : in, out, count, type, op_of(op_.op, op_.dtype), comm,
                            &request_);
      break;
    case Collective::reduce:
      code = MPI_Ireduce(is_root && in == out ? MPI_IN_PLACE : in, out, count, type, op_of(op_.op, op_.dtype),
                         op_.root, comm, &request_);
      break;
    case Collective::reduce_scatter:
      if (out == op_.in.bytes() + op_.out.size_bytes() * static_cast<std::size_t>(rendezvous_->rank()))
        room_ = Buffer::on_host(op_.dtype, op_.count);
      code = MPI_Ireduce_scatter_block(in, room_.view().empty() ? out : room_.view().data(), count, type,
                                       op_of(op_.op, op_.dtype), comm, &request_);
      break;
    case Collective::all_gather:
      code = MPI_Iallgather(in == own ? MPI_IN_PLACE : in, count, type, out, count, type, comm, &request_);
      break;
    case Collective::broadcast:
      code = MPI_Ibcast(out, count, type, op_.root, comm, &request_);
      break;
    case Collective::all_to_all:
      code = MPI_Ialltoall(in, count, type, out, count, type, comm, &request_);
      break;
    default:
      throw Error(ErrorKind::internal, text("MPI was asked for ", name(op_.kind)));
  }
  MpiRuntime::check(code, "MPI's collective");
}

}  // namespace

std::unique_ptr<Task> make_mpi_library_collective(std::shared_ptr<MpiRendezvous> rendezvous,
                                                  const Operation& operation,
                                                  std::chrono::nanoseconds timeout) {
  if (operation.count > std::numeric_limits<int>::max()) {
    throw Error(ErrorKind::usage,
                text("MPI's own ", name(operation.kind), " carries at most 2147483647 elements, not ",
                     operation.count),
                "choose another algorithm for so many");
  }
  return std::make_unique<MpiLibraryCollective>(std::move(rendezvous), operation, timeout);
}

}  // namespace weft::detail
