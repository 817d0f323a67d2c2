#include <type_traits>

#include "contestant.hpp"
#include "weft/core/error.hpp"
#include "weft/interop/mpi.hpp"

#if WEFT_HAS_MPI

namespace weft::bench {
namespace {

template <class T, ReduceOp op>
void combine(void* in, void* in_out, int* count, MPI_Datatype*) {
  const T* next = static_cast<const T*>(in);
  T* all = static_cast<T*>(in_out);
  for (int i = 0; i < *count; ++i) {
    const float a = static_cast<float>(all[i]);
    const float b = static_cast<float>(next[i]);
    if constexpr (op == ReduceOp::sum) all[i] = static_cast<T>(a + b);
    if constexpr (op == ReduceOp::prod) all[i] = static_cast<T>(a * b);
    if constexpr (op == ReduceOp::max) all[i] = static_cast<T>(a < b ? b : a);
    if constexpr (op == ReduceOp::min) all[i] = static_cast<T>(b < a ? b : a);
  }
}

template <ReduceOp op>
MPI_Op user_operation(DataType dtype) {
  MPI_Op made = MPI_OP_NULL;
  MPI_Op_create(dtype == DataType::f16 ? combine<Half, op> : combine<BFloat16, op>, 1, &made);
  return made;
}

MPI_Datatype type_of(DataType dtype) {
  switch (dtype) {
    case DataType::f32:
      return MPI_FLOAT;
    case DataType::f64:
      return MPI_DOUBLE;
    case DataType::f16:
    case DataType::bf16:
      return MPI_UINT16_T;
    case DataType::i32:
      return MPI_INT32_T;
    case DataType::i64:
      return MPI_INT64_T;
    case DataType::u8:
      return MPI_UINT8_T;
    case DataType::i8:
      return MPI_INT8_T;
    case DataType::i16:
      return MPI_INT16_T;
    case DataType::u32:
      return MPI_UINT32_T;
    case DataType::u64:
      return MPI_UINT64_T;
  }
  return MPI_BYTE;
}

template <ReduceOp op>
MPI_Op operation(DataType dtype, MPI_Op predefined) {
  if (dtype != DataType::f16 && dtype != DataType::bf16) return predefined;
  static const std::array made{user_operation<op>(DataType::f16), user_operation<op>(DataType::bf16)};
  return made[dtype == DataType::f16 ? 0 : 1];
}

MPI_Op operation_of(ReduceOp op, DataType dtype) {
  switch (op) {
    case ReduceOp::sum:
      return operation<ReduceOp::sum>(dtype, MPI_SUM);
    case ReduceOp::prod:
      return operation<ReduceOp::prod>(dtype, MPI_PROD);
    case ReduceOp::min:
      return operation<ReduceOp::min>(dtype, MPI_MIN);
    case ReduceOp::max:
      return operation<ReduceOp::max>(dtype, MPI_MAX);
    case ReduceOp::band:
      return MPI_BAND;
    case ReduceOp::bor:
      return MPI_BOR;
    case ReduceOp::bxor:
      return MPI_BXOR;
    case ReduceOp::avg:
      break;
  }
  throw Error(ErrorKind::usage, "MPI has no operation avg", "compare sum instead");
}

class Mpi final : public Contestant {
 public:
  explicit Mpi(Memory memory) : Contestant(std::move(memory)) { MPI_Comm_dup(MPI_COMM_WORLD, &comm_); }
  ~Mpi() override { MPI_Comm_free(&comm_); }

  std::string name() const override { return "mpi"; }
  // MPI puts its part of a reduce_scatter in place at the beginning of the buffer.
  const std::byte* result(const Case& which) override {
    const bool first = which.op == Op::reduce_scatter && which.in_place;
    return first ? memory().input(which) : memory().output(which);
  }
  void run(const Case& which, int times) override {
    const MPI_Op op = reduces(which.op) ? operation_of(which.redop, which.dtype) : MPI_OP_NULL;
    for (int i = 0; i < times; ++i) run(which, op);
  }

 private:
  void run(const Case& which, MPI_Op op) {
    std::byte* const mine = memory().input(which);
    std::byte* const out = memory().output(which);
    const void* const in = which.in_place ? MPI_IN_PLACE : mine;
    const auto count = static_cast<int>(which.count);
    const MPI_Datatype type = type_of(which.dtype);
    switch (which.op) {
      case Op::all_reduce:
        MPI_Allreduce(in, out, count, type, op, comm_);
        break;
      case Op::reduce_scatter:  // in place MPI reads, and puts the result at the beginning of, the receive
                                // buffer
        MPI_Reduce_scatter_block(in, which.in_place ? mine : out, count, type, op, comm_);
        break;
      case Op::all_gather:
        MPI_Allgather(in, count, type, out, count, type, comm_);
        break;
      case Op::broadcast:
        MPI_Bcast(out, count, type, which.root, comm_);
        break;
      case Op::reduce:
        MPI_Reduce(which.rank == which.root ? in : mine, out, count, type, op, which.root, comm_);
        break;
      case Op::all_to_all:
        MPI_Alltoall(mine, count, type, out, count, type, comm_);
        break;
      case Op::send_receive:
        MPI_Sendrecv(mine, count, type, (which.rank + 1) % which.ranks, 0, out, count, type,
                     (which.rank + which.ranks - 1) % which.ranks, 0, comm_, MPI_STATUS_IGNORE);
        break;
    }
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace

std::unique_ptr<Contestant> make_mpi(std::size_t bytes, bool out_of_place) {
  const auto count = static_cast<std::int64_t>(bytes);
  return std::make_unique<Mpi>(
      Memory{Buffer::on_host(DataType::u8, count), Buffer::on_host(DataType::u8, out_of_place ? count : 0)});
}

}  // namespace weft::bench

#else

namespace weft::bench {

std::unique_ptr<Contestant> make_mpi(std::size_t, bool) {
  throw Error(ErrorKind::usage, "--against mpi, but weft was built without MPI", "build it with WEFT_MPI=ON");
}

}  // namespace weft::bench

#endif
