#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H
// weft in C: for trainers in C, and for languages that call C. C11 or newer, or C++. Part of libweft.so and libweft.a.
//
// This header is the C++ library (weft/weft.hpp) call by call. What an operation does, and at what price, stands in the C++ header
// that the comment here names; what differs in C stands here.
//
//   weft_world_t world = NULL;
//   weft_comm_t comm = NULL;
//   weft_stream_t stream = NULL;
//   if (weft_world_from_environment(NULL, &world) || weft_comm_connect(world, NULL, &comm) ||
//       weft_stream_create(WEFT_HOST, WEFT_STREAM_INLINE, &stream) ||
//       weft_comm_all_reduce(comm, mean, mean, count, WEFT_F32, WEFT_AVG, stream, NULL) ||
//       weft_stream_synchronize(stream, WEFT_NO_DEADLINE)) {
//     fprintf(stderr, "%s\n", weft_error());
//     return weft_exit_code(weft_last_status());    // 42: do not retry; 75: try again; 70: weft or system failed
//   }
//
// Errors. A call returns WEFT_OK or the kind of its error. weft_error() is the whole message of this thread's last call that failed,
// one line, until its next one fails. A call that returns a value instead has one for errors: -1, or NULL. Nothing is thrown
// through this interface, and nothing ends the process.
//
// Handles. A handle is a number in the form of a pointer, never an address. NULL, a handle that was freed, and one of another kind are
// usage errors that say so. Whoever got a handle frees it; its object lives as long as anything that was made from it. Freeing NULL does
// nothing. A handle that another thread frees while weft_work_wait, weft_event_wait or a call on its stream alone uses it goes after that call;
// free no other one while a thread is in a call with it.
//
// Options are structures that begin with their size, so that a program and a library of two versions understand each other. A field of 0
// is the default, and so is NULL in place of a structure. A size that this library does not know is a usage error.
//
//   const weft_world_options_t options = {.size = sizeof options, .timeout = 120};
//
// Threads. One thread at a time issues on a communicator (weft/collectives/communicator.hpp), fills a group, and uses what is named after one.
// Any thread uses a world, a stream, an event and a work. In a child after fork() a communicator of its parent is an error.
//
// Memory and counts. Counts are elements. Memory that is given to an operation lies on the device of the operation's stream. It stays alive
// and untouched until the operation is done. Memory of weft_buffer_create() is reached by other ranks without a copy.
//
// Functions of the caller get the `context` that was given beside them. They must not throw and not leave by longjmp. Where they are
// called, and what they may do, weft/core/event.hpp says. Handles may be freed in them.
//
// Before the process ends, free communicators and worlds: an MPI that weft began is finalized with the last of them.
//
// WRONG: weft_comm_all_reduce(comm, ...); free(data);          // the operation may not be done
// WRONG: if (weft_comm_rank(comm) == 0) weft_comm_barrier(...); // the others never come: an error after the timeout

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define WEFT_WORDS enum : int
extern "C" {
#else
#define WEFT_WORDS enum
#endif

// ---- Errors (weft/core/error.hpp)

typedef int weft_status_t;
WEFT_WORDS{
    WEFT_OK = 0,
    WEFT_USAGE = 1,      // wrong argument, option, variable or order of calls
    WEFT_MISMATCH = 2,   // ranks disagree on what they do together
    WEFT_TIMEOUT = 3,    // a deadline passed; the message names who is missing
    WEFT_PEER_LOST = 4,  // another rank died, failed or left
    WEFT_SYSTEM = 5,     // the operating system or a vendor library refused
    WEFT_INTERNAL = 6    // a defect of weft
};

// The message of this thread's last call that failed; "" before one did. Valid until this thread's next failure, or its end.
const char* weft_error(void);
// The status that it returned; WEFT_OK before one did.
weft_status_t weft_last_status(void);
// What a program ends with: 0, 42 (usage, mismatch), 75 (timeout, peer lost), 70 (system, internal, and what is no status).
int weft_exit_code(weft_status_t status);
// "usage", "peer lost", ..., "unknown".
const char* weft_status_name(weft_status_t status);
// The library's version and parts, as weft::library_version() and weft::built_with().
const char* weft_version(void);
const char* weft_built_with(void);

// ---- Handles and words

typedef struct weft_world* weft_world_t;
typedef struct weft_comm* weft_comm_t;
typedef struct weft_stream* weft_stream_t;
typedef struct weft_event* weft_event_t;
typedef struct weft_work* weft_work_t;
typedef struct weft_group* weft_group_t;
typedef struct weft_buffer* weft_buffer_t;
typedef struct weft_layout* weft_layout_t;
typedef struct weft_reducer* weft_reducer_t;
typedef struct weft_zero* weft_zero_t;
typedef struct weft_checkpointer* weft_checkpointer_t;

typedef int weft_dtype_t;
WEFT_WORDS{WEFT_F32 = 0, WEFT_F64 = 1, WEFT_F16 = 2, WEFT_BF16 = 3, WEFT_I32 = 4, WEFT_I64 = 5,
           WEFT_U8 = 6,  WEFT_I8 = 7,  WEFT_I16 = 8, WEFT_U32 = 9,  WEFT_U64 = 10};
typedef int weft_op_t;  // weft/collectives/reduce_op.hpp
WEFT_WORDS{WEFT_SUM = 0, WEFT_PROD = 1, WEFT_MIN = 2, WEFT_MAX = 3,
           WEFT_AVG = 4, WEFT_BAND = 5, WEFT_BOR = 6, WEFT_BXOR = 7};
typedef int weft_collective_t;
WEFT_WORDS{WEFT_ALL_REDUCE = 0, WEFT_REDUCE_SCATTER = 1, WEFT_ALL_GATHER = 2, WEFT_BROADCAST = 3,
           WEFT_REDUCE = 4,     WEFT_ALL_TO_ALL = 5,     WEFT_BARRIER = 6};

// A device: the host, or a CUDA device by its number, from 0.
#define WEFT_HOST (-1)
// Seconds to wait: as long as the operation itself may take.
#define WEFT_NO_DEADLINE (-1.0)
// The color of a rank that is in no part of weft_comm_split().
#define WEFT_NO_COLOR INT32_MIN

// ---- World (weft/collectives/world.hpp)

typedef struct weft_world_options {
  size_t size;             // sizeof(weft_world_options_t)
  int rank;                // with `ranks`
  int ranks;               // above 0: `rank` of so many, which outranks the environment
  const char* rendezvous;  // "tcp://...", "file://..."
  const char* device;      // "auto", "host", "cuda", "cuda:1"; default WEFT_DEVICE
  double connect_timeout;  // seconds; default WEFT_CONNECT_TIMEOUT
  double timeout;          // seconds; default WEFT_TIMEOUT
} weft_world_options_t;

// Who this process is, under any launcher. One a process.
weft_status_t weft_world_from_environment(const weft_world_options_t* options, weft_world_t* out);
int weft_world_rank(weft_world_t world);
int weft_world_size(weft_world_t world);
// WEFT_HOST or the number of a CUDA device; -2 for an error.
int weft_world_device(weft_world_t world);
weft_status_t weft_world_free(weft_world_t world);

// ---- Communicator (weft/collectives/communicator.hpp)

typedef struct weft_connect_options {
  size_t size;  // sizeof(weft_connect_options_t)
  int order;    // of sums between nodes: 0 as WEFT_ORDER says, 1 in rank order, 2 in any order
} weft_connect_options_t;

// Collective; blocks until all ranks are there.
weft_status_t weft_comm_connect(weft_world_t world, const weft_connect_options_t* options, weft_comm_t* out);
// Of this rank alone.
weft_status_t weft_comm_self(weft_comm_t* out);
// Collective; blocks. `out` is NULL for WEFT_NO_COLOR.
weft_status_t weft_comm_split(weft_comm_t comm, int32_t color, int key, weft_comm_t* out);
weft_status_t weft_comm_free(weft_comm_t comm);

typedef struct weft_threads_options {
  size_t size;         // sizeof(weft_threads_options_t)
  double timeout;      // seconds; default 60
  int private_memory;  // 1: as if no rank reached another's memory
} weft_threads_options_t;

// Calls `body` as so many ranks, each a thread of this process, and ends when all have. A body that returns a status other than WEFT_OK
// has failed with its thread's weft_error(), of which the other ranks hear. The first failure by rank is returned. `comm` is body's
// until it returns.
weft_status_t weft_comm_run_as_threads(int ranks, const weft_threads_options_t* options,
                                       weft_status_t (*body)(weft_comm_t comm, void* context), void* context);

int weft_comm_rank(weft_comm_t comm);
int weft_comm_size(weft_comm_t comm);
// WEFT_HOST or the number of a CUDA device; -2 for an error.
int weft_comm_device(weft_comm_t comm);
// "host (shared memory)", ...; valid as long as the handle.
const char* weft_comm_backend(weft_comm_t comm);
int weft_comm_nodes(weft_comm_t comm);
int weft_comm_node_of(weft_comm_t comm, int rank);
// 1 where a thread may issue that did not make the communicator, 0 where not.
int weft_comm_any_thread(weft_comm_t comm);
// Seconds; -1 for an error.
double weft_comm_timeout(weft_comm_t comm);
weft_status_t weft_comm_set_timeout(weft_comm_t comm, double seconds);
weft_status_t weft_comm_slow_after(weft_comm_t comm, double seconds);
int64_t weft_comm_wire_bytes(weft_comm_t comm);
int64_t weft_comm_network_bytes(weft_comm_t comm);
// How an operation on host memory would be carried out: writes at most `bytes` bytes to `text`, the closing 0 among them, and returns
// the length of the whole sentence; -1 for an error.
int64_t weft_comm_explain(weft_comm_t comm, weft_collective_t kind, weft_dtype_t dtype, int64_t count,
                          weft_op_t op, char* text, size_t bytes);
// This rank cannot go on: operations of all ranks fail with `why` as soon as they need it. `kind` is the kind of error that they get.
weft_status_t weft_comm_give_up(weft_comm_t comm, weft_status_t kind, const char* why);

// Every operation returns at once. `work` may be NULL: the stream carries the operation out all the same, and fails with it.
// `out` may be `in`. Both have `count` elements.
weft_status_t weft_comm_all_reduce(weft_comm_t comm, const void* in, void* out, int64_t count,
                                   weft_dtype_t dtype, weft_op_t op, weft_stream_t stream, weft_work_t* work);
// `out` has `count` elements, `in` as many for each rank. `out` may be this rank's part of `in`.
weft_status_t weft_comm_reduce_scatter(weft_comm_t comm, const void* in, void* out, int64_t count,
                                       weft_dtype_t dtype, weft_op_t op, weft_stream_t stream,
                                       weft_work_t* work);
// `in` has `count` elements, `out` as many for each rank. `in` may be this rank's part of `out`.
weft_status_t weft_comm_all_gather(weft_comm_t comm, const void* in, void* out, int64_t count,
                                   weft_dtype_t dtype, weft_stream_t stream, weft_work_t* work);
weft_status_t weft_comm_broadcast(weft_comm_t comm, void* data, int64_t count, weft_dtype_t dtype, int root,
                                  weft_stream_t stream, weft_work_t* work);
// `out` counts at root alone; others may give NULL.
weft_status_t weft_comm_reduce(weft_comm_t comm, const void* in, void* out, int64_t count, weft_dtype_t dtype,
                               weft_op_t op, int root, weft_stream_t stream, weft_work_t* work);
// Both have `count` elements for each rank, and do not overlap.
weft_status_t weft_comm_all_to_all(weft_comm_t comm, const void* in, void* out, int64_t count,
                                   weft_dtype_t dtype, weft_stream_t stream, weft_work_t* work);
weft_status_t weft_comm_barrier(weft_comm_t comm, weft_stream_t stream, weft_work_t* work);

// ---- Group: sends and receives that progress together

// The memory that is added lies on `device`. A group that was started is empty, and may be filled again.
weft_status_t weft_group_create(weft_comm_t comm, int device, weft_group_t* out);
weft_status_t weft_group_send(weft_group_t group, const void* data, int64_t count, weft_dtype_t dtype,
                              int peer, uint32_t tag);
weft_status_t weft_group_receive(weft_group_t group, void* data, int64_t count, weft_dtype_t dtype, int peer,
                                 uint32_t tag);
weft_status_t weft_group_receive_any(weft_group_t group, void* data, int64_t count, weft_dtype_t dtype,
                                     uint32_t tag);
weft_status_t weft_group_start(weft_group_t group, weft_stream_t stream, weft_work_t* work);
weft_status_t weft_group_free(weft_group_t group);

// ---- Work: the ticket of an operation (weft/collectives/work.hpp)

// 1 when it is done, with or without an error, 0 while it is not; -1 for an error of this call.
int weft_work_done(weft_work_t work);
// WEFT_OK while it has not failed; else what it failed with, which weft_error() then says.
weft_status_t weft_work_status(weft_work_t work);
// Blocks until it is done, for `seconds` at most, or WEFT_NO_DEADLINE. Returns what it failed with.
weft_status_t weft_work_wait(weft_work_t work, double seconds);
// Calls `function` once when it is done, with or without an error.
weft_status_t weft_work_then(weft_work_t work, void (*function)(void* context), void* context);
// Whose message the receive_any of this number took, from 0; -1 for an error.
int weft_work_source(weft_work_t work, size_t receive);
// "all_reduce", and its number among the communicator's; valid as long as the handle.
const char* weft_work_operation(weft_work_t work);
int64_t weft_work_number(weft_work_t work);
weft_status_t weft_work_event(weft_work_t work, weft_event_t* out);
weft_status_t weft_work_free(weft_work_t work);

// ---- Streams and events (weft/core/stream.hpp, weft/core/event.hpp)

typedef int weft_stream_kind_t;
WEFT_WORDS{
    WEFT_STREAM_INLINE = 0,  // on the host: of the caller's thread; on a device: a CUDA stream
    WEFT_STREAM_QUEUED = 1,  // on the host alone: with a thread of its own
    WEFT_STREAM_HIGH = 2     // on a device alone: of high priority
};

weft_status_t weft_stream_create(int device, weft_stream_kind_t kind, weft_stream_t* out);
// One for the operations of `comm`, beside the compute streams.
weft_status_t weft_stream_progress(weft_comm_t comm, weft_stream_t* out);
// A stream over the cudaStream_t of another library, which keeps it alive; and the cudaStream_t of a stream.
weft_status_t weft_stream_adopt(void* cuda_stream, int device, weft_stream_t* out);
weft_status_t weft_stream_native(weft_stream_t stream, void** cuda_stream);
// WEFT_HOST or the number of a CUDA device; -2 for an error.
int weft_stream_device(weft_stream_t stream);
// Submits a function of the host. It returns 0 when it is done, WEFT_AGAIN to be called again later, and anything else to fail, and the stream
// with it.
#define WEFT_AGAIN (-1)
weft_status_t weft_stream_run(weft_stream_t stream, int (*function)(void* context), void* context);
// to[i] = from[i], in the order of the stream. On a host stream both lie on the host.
weft_status_t weft_stream_copy(weft_stream_t stream, void* to, int to_device, const void* from,
                               int from_device, int64_t count, weft_dtype_t dtype);
// The point after all that was submitted so far; and later work of a stream starts after such a point.
weft_status_t weft_stream_record(weft_stream_t stream, weft_event_t* out);
weft_status_t weft_stream_wait(weft_stream_t stream, weft_event_t event);
// Progresses posted work: 1 when none is left, 0 when some is; -1 for an error of this call.
int weft_stream_poll(weft_stream_t stream);
// Blocks until all that was submitted has run, for `seconds` at most, or WEFT_NO_DEADLINE. Returns the stream's error.
weft_status_t weft_stream_synchronize(weft_stream_t stream, double seconds);
// Finishes its work, before it returns unless the stream's own thread calls.
weft_status_t weft_stream_free(weft_stream_t stream);

int weft_event_done(weft_event_t event);
weft_status_t weft_event_status(weft_event_t event);
weft_status_t weft_event_wait(weft_event_t event, double seconds);
weft_status_t weft_event_then(weft_event_t event, void (*function)(void* context), void* context);
weft_status_t weft_event_free(weft_event_t event);

// ---- Memory (Communicator::allocate)

// Zeroed memory on the device of `comm`, which its operations reach without a copy. On a device this is collective.
weft_status_t weft_buffer_create(weft_comm_t comm, weft_dtype_t dtype, int64_t count, weft_buffer_t* out);
// NULL for an error, and for a buffer of no elements.
void* weft_buffer_data(weft_buffer_t buffer);
int64_t weft_buffer_count(weft_buffer_t buffer);
weft_status_t weft_buffer_free(weft_buffer_t buffer);

// ---- Layout: the parameters of a model (weft/gradient/param_layout.hpp)

// Parameters are numbered from 0 in the order in which they are added: that of forward. A copy is taken by who uses it.
weft_status_t weft_layout_create(weft_dtype_t dtype, weft_layout_t* out);
// `shape` has `dimensions` numbers, row-major. `storage` is where the values are, to refuse what shares them; NULL: not known.
// Returns the parameter's number; -1 for an error.
int weft_layout_add(weft_layout_t layout, const char* name, const int64_t* shape, int dimensions,
                    const void* storage);
int weft_layout_parameters(weft_layout_t layout);
int64_t weft_layout_count(weft_layout_t layout, int id);
weft_status_t weft_layout_free(weft_layout_t layout);

// ---- Initial values (weft/gradient/initial_values.hpp)

typedef int weft_initial_values_t;
WEFT_WORDS{WEFT_COMPARE = 0, WEFT_FROM_RANK_0 = 1};

// Collective; blocks. values[id] has the whole parameter, on `device`.
weft_status_t weft_sync_initial_values(weft_comm_t comm, weft_layout_t layout, void* const* values,
                                       int device, weft_initial_values_t how);

// ---- Reducer: means of gradients, bucket by bucket (weft/gradient/gradient_reducer.hpp)

typedef int weft_unused_t;  // what a step does about parameters that were not marked
WEFT_WORDS{WEFT_UNUSED_REFUSE = 0, WEFT_UNUSED_FIND = 1, WEFT_UNUSED_AS_IN_FIRST_STEP = 2};
typedef int weft_uneven_t;  // what happens when ranks run out of batches at different times
WEFT_WORDS{WEFT_UNEVEN_REFUSE = 0, WEFT_UNEVEN_MEAN_OF_ALL = 1, WEFT_UNEVEN_MEAN_OF_THE_REST = 2};
typedef int weft_exchange_t;  // what a step does with its gradients
WEFT_WORDS{WEFT_EXCHANGE_NOW = 0, WEFT_NO_SYNC = 1};

typedef struct weft_reducer_options {
  size_t size;       // sizeof(weft_reducer_options_t)
  const char* hook;  // "bf16", "powersgd:4", ...; NULL: gradients as they are
  int64_t
      hook_start_step;  // hooks with error feedback reduce earlier steps as they are; 0: 100; below 0: none
  size_t bucket_bytes;  // 0: planned from the first steps
  size_t
      alone_bytes;  // with bucket_bytes: parameters of so many bytes have a bucket of their own; 0: none has
  const int*
      order;  // all parameters in the order in which backward finishes them; NULL: from the last to the first
  int order_count;  // how many `order` has: all of them
  weft_unused_t unused;
  weft_uneven_t uneven;
  int count_bad_values;   // 1: for weft_reducer_bad_values()
  int64_t micro_batches;  // of a step over all ranks, where ranks share them unevenly
} weft_reducer_options_t;

// Where a step's time went, in seconds (weft/gradient/step_account.hpp).
typedef struct weft_step_account {
  uint64_t step;
  double seconds;
  double exposed_seconds;
  double link_seconds;
  double overlap_seconds;
  double slowest_seconds;
  double skew_seconds;
  double late_seconds;
  int slowest;  // the rank that most of slowest_seconds was for; -1: none
} weft_step_account_t;

typedef struct weft_bad_values {
  uint64_t step;
  int64_t nans;
  int64_t infinities;
  int rank;
  int first;  // the first parameter that has any
} weft_bad_values_t;

// Collective.
weft_status_t weft_reducer_create(weft_comm_t comm, weft_layout_t layout,
                                  const weft_reducer_options_t* options, weft_reducer_t* out);
// Where backward writes, and where the mean is after a step; NULL for an error.
void* weft_reducer_gradient(weft_reducer_t reducer, int id);
weft_status_t weft_reducer_begin_step(weft_reducer_t reducer, weft_exchange_t exchange);
// 1 where backward must add to the gradients that are there, 0 where it overwrites them; -1 for an error.
int weft_reducer_accumulating(weft_reducer_t reducer);
weft_status_t weft_reducer_ready(weft_reducer_t reducer, int id, weft_stream_t stream);
// For a gradient in other memory on the stream's device, which is copied.
weft_status_t weft_reducer_ready_from(weft_reducer_t reducer, int id, const void* gradient,
                                      weft_stream_t stream);
// For a gradient in memory of weft_buffer_create(), which is reduced where it lies, if it can. `mean` is where the mean will be.
weft_status_t weft_reducer_ready_in_place(weft_reducer_t reducer, int id, void* gradient,
                                          weft_stream_t stream, void** mean);
weft_status_t weft_reducer_poll(weft_reducer_t reducer);
// Later work of `stream` sees the means.
weft_status_t weft_reducer_finish_step(weft_reducer_t reducer, weft_stream_t stream);
// For a rank without a batch, until no rank has one; `each` may be NULL. Blocks.
weft_status_t weft_reducer_join(weft_reducer_t reducer, weft_stream_t stream, void (*each)(void* context),
                                void* context);
// 1 where any rank had a gradient of it in the last exchanged step, 0 where none had; -1 for an error.
int weft_reducer_used(weft_reducer_t reducer, int id);
// Writes at most `most` ranks' bad values of the last exchanged step, of sizeof(weft_bad_values_t) each. Returns how many ranks had
// some; -1 for an error.
int weft_reducer_bad_values(weft_reducer_t reducer, weft_bad_values_t* values, size_t size_of_one, int most);
// Collective; blocks. Writes the newest `most` accounts of this rank since the last call, oldest first, of sizeof(weft_step_account_t) each.
// Returns how many it wrote; -1 for an error.
int weft_reducer_account(weft_reducer_t reducer, weft_step_account_t* accounts, size_t size_of_one, int most);
double weft_reducer_exposed_seconds(weft_reducer_t reducer);
int64_t weft_reducer_held_bytes(weft_reducer_t reducer);
weft_status_t weft_reducer_free(weft_reducer_t reducer);

// ---- ZeRO (weft/zero/sharded_params.hpp, weft/zero/sharded_optimizer.hpp)

typedef struct weft_zero_options {
  size_t size;  // sizeof(weft_zero_options_t)
  int stage;    // 0 to 3
  const char* hook;
  int64_t hook_start_step;  // as in weft_reducer_options_t
  size_t bucket_bytes;
  size_t bucket_ring_bytes;  // stages 2 and 3; 0: an eighth of the gradients
  const int* units;          // the first parameter of each unit, from 0; NULL: one unit of all
  const int* frozen;         // parameters without gradient; NULL: none
  int units_count;
  int frozen_count;
  weft_unused_t unused;  // stages 0 and 1
  int count_bad_values;
  int64_t micro_batches;
  int shard_ranks;         // sharded over so many consecutive ranks; 0: all
  int held_units;          // stage 3: units that are held at the same time; 0: 1
  size_t prefetch_bytes;   // stage 3; 0: one gather buffer
  int64_t whole_below;     // stage 3: units of fewer elements stay whole
  int offload_parameters;  // stage 3: 1: this rank's shard lies on the host
  int offload_gradients;   // stages 2 and 3
  weft_initial_values_t initial_values;
} weft_zero_options_t;

typedef int weft_rule_t;  // weft/zero/optimizer.hpp
WEFT_WORDS{WEFT_ADAMW = 0, WEFT_ADAM = 1, WEFT_SGD = 2, WEFT_LAMB = 3, WEFT_LARS = 4, WEFT_MUON = 5};

// Here 0 is a value like any other: let weft_optimizer_defaults() fill it, and then change what is to be different.
typedef struct weft_optimizer_options {
  size_t size;  // sizeof(weft_optimizer_options_t)
  weft_rule_t rule;
  int decay_matrices;  // 1: biases and gains of norms do not decay
  double learning_rate;
  double beta1;  // AdamW, Adam, LAMB
  double beta2;
  double epsilon;
  double momentum;  // SGD, LARS, Muon
  double weight_decay;
  double trust_coefficient;  // LARS
  double clip_norm;          // 0: no clipping
  int loss_scale;            // 1: dynamic loss scaling
  int skip_non_finite;       // 1: a step with NaN or infinite gradients is skipped, and not an error
  int split_masters;         // 1: of bf16 parameters only what they lack is kept
  double offload_share;      // of optimizer state that lies on the host, 0 to 1
} weft_optimizer_options_t;

typedef struct weft_step_result {
  size_t size;   // sizeof(weft_step_result_t), set before the call
  int skipped;   // 1: nothing has changed
  int has_norm;  // 1: `norm` was needed, and is known
  double norm;   // of the averaged gradients, before clipping
} weft_step_result_t;

#define WEFT_OWN_RATE (-1.0)

// `options` has size and rule set; all else is written.
weft_status_t weft_optimizer_defaults(weft_rule_t rule, weft_optimizer_options_t* options);
// Collective, here and below, but for what says a value. In this order: create, load all parameters, set the optimizer, train.
weft_status_t weft_zero_create(weft_comm_t comm, weft_layout_t layout, const weft_zero_options_t* options,
                               weft_zero_t* out);
// The whole parameter, on `device`; the same on every rank.
weft_status_t weft_zero_load(weft_zero_t zero, int id, const void* values, int device);
// NULL: AdamW.
weft_status_t weft_zero_set_optimizer(weft_zero_t zero, const weft_optimizer_options_t* options);
// A copy of the whole parameter to the host; blocks.
weft_status_t weft_zero_whole(weft_zero_t zero, int id, void* values);
int weft_zero_units(weft_zero_t zero);
int weft_zero_unit_of(weft_zero_t zero, int id);
// Later work of `stream` finds the unit's parameters whole, until it is released.
weft_status_t weft_zero_gather(weft_zero_t zero, int unit, weft_stream_t stream);
weft_status_t weft_zero_release(weft_zero_t zero, int unit);
// A whole parameter of a unit that is held; NULL for an error.
void* weft_zero_parameter(weft_zero_t zero, int id);
weft_status_t weft_zero_begin_step(weft_zero_t zero, weft_exchange_t exchange);
int weft_zero_accumulating(weft_zero_t zero);
// Where backward writes in this step; NULL for an error.
void* weft_zero_gradient(weft_zero_t zero, int id, weft_stream_t stream);
weft_status_t weft_zero_ready(weft_zero_t zero, int id, weft_stream_t stream);
weft_status_t weft_zero_poll(weft_zero_t zero);
// Ends a micro-step that was begun with WEFT_NO_SYNC; weft_zero_step() ends the last one.
weft_status_t weft_zero_finish_step(weft_zero_t zero, weft_stream_t stream);
// `learning_rate` may be WEFT_OWN_RATE: that of the options. `result` may be NULL.
weft_status_t weft_zero_step(weft_zero_t zero, weft_stream_t stream, double learning_rate,
                             weft_step_result_t* result);
// What the loss is multiplied by; -1 for an error.
double weft_zero_loss_scale(weft_zero_t zero);
int64_t weft_zero_steps(weft_zero_t zero);
double weft_zero_exposed_seconds(weft_zero_t zero);
int64_t weft_zero_held_bytes(weft_zero_t zero);
// Synchronize the stream of the steps before.
weft_status_t weft_zero_free(weft_zero_t zero);

// ---- Checkpoints of a training loop (weft/checkpoint/checkpointer.hpp)

typedef struct weft_checkpointer_options {
  size_t size;         // sizeof(weft_checkpointer_options_t)
  const char* folder;  // NULL: nothing is loaded or saved
  const char* run;     // what must be the same for a training to go on; NULL: nothing
  int64_t every;       // steps; 0: at the end and when asked
  int keep_last;       // how many stay; 0: 2; below 0: all
} weft_checkpointer_options_t;

// Collective, all of them.
weft_status_t weft_checkpointer_create(weft_comm_t comm, const weft_checkpointer_options_t* options,
                                       weft_checkpointer_t* out);
// Loads the newest one, if there is one. `steps`: after how many it was saved; 0 where there is none.
weft_status_t weft_checkpointer_resume_zero(weft_checkpointer_t checkpointer, weft_zero_t zero,
                                            weft_stream_t stream, int64_t* steps);
// Saves when it is time: after the last step, every so many, and when asked. `go_on` is 0 when a notice to end came: end with status 75.
weft_status_t weft_checkpointer_after_step_zero(weft_checkpointer_t checkpointer, int64_t steps, int last,
                                                weft_zero_t zero, weft_stream_t stream, int* go_on);
// The same for parameters that all ranks have alike: values[id] has the whole parameter, on the host.
weft_status_t weft_checkpointer_resume(weft_checkpointer_t checkpointer, weft_layout_t layout,
                                       void* const* values, int64_t* steps);
weft_status_t weft_checkpointer_after_step(weft_checkpointer_t checkpointer, int64_t steps, int last,
                                           weft_layout_t layout, void* const* values, int* go_on);
weft_status_t weft_checkpointer_free(weft_checkpointer_t checkpointer);

// ---- Metrics (weft/collectives/meter.hpp)

// The trainer has done a step that took so long.
weft_status_t weft_comm_count_step(weft_comm_t comm, double seconds);
// Calls `sample` with each figure of this rank: "weft_steps_total", {op="all_reduce"} without braces, or "". A histogram has the figures of
// Prometheus: NAME_bucket, NAME_sum, NAME_count.
weft_status_t weft_comm_metrics(weft_comm_t comm,
                                void (*sample)(void* context, const char* name, const char* labels,
                                               double value),
                                void* context);

#ifdef __cplusplus
}
#endif

#endif
