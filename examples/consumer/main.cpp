// The smallest whole program: averages one number over all ranks, under any launcher.
//   cmake -B build -DCMAKE_PREFIX_PATH=/where/weft/is/installed && cmake --build build
//   mpirun -n 4 build/consumer

#include <iostream>
#include <weft/weft.hpp>

int main() {
  try {
    const auto world = weft::World::from_environment();
    auto comm = weft::connect(world);
    weft::Stream stream;
    weft::Buffer value = comm.allocate(weft::DataType::f32, 1);
    value.as<float>()[0] = static_cast<float>(comm.rank());
    comm.all_reduce(value.view(), weft::ReduceOp::avg, stream);
    stream.synchronize();
    if (comm.rank() == 0)
      std::cout << "the mean rank of " << comm.size() << " is " << value.as<float>()[0] << '\n';
    return 0;
  } catch (const std::exception& error) {
    std::cerr << weft::message_of(error) << '\n';
    return weft::exit_code(error);
  }
}
