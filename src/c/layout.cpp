// Layouts, and initial values.

#include "c/training.hpp"

using namespace weft;

weft_status_t weft_layout_create(weft_dtype_t dtype, weft_layout_t* out) {
  return c::call("weft_layout_create", [&] {
    c::given(out, "out");
    c::give(out, c::layouts(), c::Layout{c::dtype_of(dtype), {}});
  });
}
int weft_layout_add(weft_layout_t layout, const char* name, const int64_t* shape, int dimensions,
                    const void* storage) {
  return c::ask("weft_layout_add", -1, [&] {
    std::vector<ParamSpec>& all = c::layouts().at(layout, "layout").parameters;
    ParamSpec one{.name = c::given(name, "name"), .count = 1, .storage = storage};
    if (dimensions < 0)
      throw Error(ErrorKind::usage, text("`", one.name, "` of ", dimensions, " dimensions"),
                  "give 0 or more");
    if (dimensions > 0) one.shape.assign(c::given(shape, "shape"), shape + dimensions);
    for (const std::int64_t extent : one.shape) {
      if (extent < 1 || __builtin_mul_overflow(one.count, extent, &one.count))
        throw Error(ErrorKind::usage, text("`", one.name, "` has a dimension of ", extent, " elements"),
                    "dimensions are 1 or more, and their product fits in 63 bits");
    }
    all.push_back(std::move(one));
    return static_cast<int>(all.size()) - 1;
  });
}
int weft_layout_parameters(weft_layout_t layout) {
  return c::ask("weft_layout_parameters", -1,
                [&] { return c::layouts().at(layout, "layout").parameters.size(); });
}
int64_t weft_layout_count(weft_layout_t layout, int id) {
  return c::ask("weft_layout_count", int64_t{-1}, [&] {
    const c::Layout& all = c::layouts().at(layout, "layout");
    return all.parameters[all.known(id)].count;
  });
}
weft_status_t weft_layout_free(weft_layout_t layout) {
  return c::free_handle("weft_layout_free", c::layouts(), layout, "layout");
}

namespace weft::c {

std::size_t Layout::known(int id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= parameters.size())
    throw Error(ErrorKind::usage, text("a parameter of number ", id, " in a layout of ", parameters.size()),
                "parameters are numbered from 0, in the order in which they were added");
  return static_cast<std::size_t>(id);
}

std::vector<NamedValues> Layout::values(void* const* all, Device device) const {
  std::vector<NamedValues> named;
  given(all, "values");
  for (std::size_t i = 0; i < parameters.size(); ++i)
    named.push_back(
        {parameters[i].name, View(given(all[i], "values[id]"), parameters[i].count, dtype, device)});
  return named;
}

}  // namespace weft::c

weft_status_t weft_sync_initial_values(weft_comm_t comm, weft_layout_t layout, void* const* values,
                                       int device, weft_initial_values_t how) {
  return c::call("weft_sync_initial_values", [&] {
    Communicator& over = c::comm_of(comm);
    sync_initial_values(over, c::layouts().at(layout, "layout").values(values, c::device_of(device)),
                        c::initial_values_of(how));
  });
}
