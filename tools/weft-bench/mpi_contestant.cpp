#include <type_traits>

#include "contestant.hpp"
#include "mpi_call.hpp"
#include "weft/core/error.hpp"

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
    const bool first = which.in_place && which.in_count() > which.out_count();
    return first ? memory().input(which) : memory().output(which);
  }
  void run(const Case& which, int times) override {
    std::byte* const mine = memory().input(which);
    const MpiCall call{.which = which,
                       .mine = mine,
                       .in = which.in_place ? MPI_IN_PLACE : mine,
                       .out = memory().output(which),
                       .count = static_cast<int>(which.count),
                       .type = type_of(which.dtype),
                       .op = reduces(which.op) ? operation_of(which.redop, which.dtype) : MPI_OP_NULL,
                       .comm = comm_};
    for (int i = 0; i < times; ++i) row_of(which.op).mpi(call);
  }

 private:
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
