"""Tensors of a CUDA device over NCCL: every collective beside its sum done by hand, on 2 ranks; streams, futures, deadlines, a killed rank.

On a machine with a GPU all ranks share its device 0 (WEFT_SHARE_DEVICE=1). tests/torch/torch_test.sh emulated cuda_test.py runs the same over an
emulated CUDA and a fake of NCCL, where tensors of the host stand for the device's; what needs torch's own CUDA is skipped there, and says so.
Without either all is skipped, and it ends with 77.
"""

import glob
import os
import signal
import sys
import time
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist
import weft.torch
from torch.nn.parallel import DistributedDataParallel

import ranks

EMULATED = weft.torch.cuda_tensors().startswith("EMULATED")
DEVICE = torch.device("cpu" if EMULATED else "cuda:0")
os.environ.setdefault("WEFT_SHARE_DEVICE", "1")
SIZES = (2,) if not EMULATED else (2, 3)
# Of a GPU, each rank's CUDA begins with its first tensor: a process that has used CUDA cannot fork.
HAS_DEVICE = EMULATED or (weft.torch.cuda_tensors() == "over NCCL" and torch.backends.cuda.is_built() and glob.glob("/dev/nvidia[0-9]*"))
WHY_NOT = f"no CUDA device here, or a build without CUDA: tensors of devices are {weft.torch.cuda_tensors()}"
needs_torchs_cuda = unittest.skipIf(EMULATED, "an emulated device has no streams of torch's")


def on_its_own_host(rank, size, inner):
    os.environ["NCCL_HOSTID"] = f"weft-{rank}"  # NCCL below 2.30.3 takes two ranks on one device where their hosts differ
    return inner(rank, size)


def run(body, size, **arguments):
    return ranks.run(on_its_own_host, size, timeout=120, inner=body, **arguments)


def numbers(rank, count, dtype=torch.float32, seed=0):
    """Small integers, whose sums are exact in every type."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    return torch.randint(0, 4, (count,), generator=generator).to(dtype)


def here(tensor):
    return tensor.clone().to(DEVICE)


def host(tensor):
    return tensor.cpu().clone()


def of_all(size, count, dtype=torch.float32, seed=0):
    return [numbers(rank, count, dtype, seed) for rank in range(size)]


def equal(found, expected, what):
    assert torch.equal(host(found), expected), f"{what}: {host(found).flatten()[:8]} in place of {expected.flatten()[:8]}"


REDUCED = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64)
BY_HAND = {dist.ReduceOp.SUM: lambda all: torch.stack(all).sum(0), dist.ReduceOp.PRODUCT: lambda all: torch.stack(all).prod(0),
           dist.ReduceOp.MIN: lambda all: torch.stack(all).amin(0), dist.ReduceOp.MAX: lambda all: torch.stack(all).amax(0)}


def reductions(rank, size):
    for dtype in REDUCED:
        for op, by_hand in BY_HAND.items():
            for count in (1, 7, 1000):
                expected = by_hand(of_all(size, count, dtype)).to(dtype)
                tensor = here(numbers(rank, count, dtype))
                dist.all_reduce(tensor, op=op)
                equal(tensor, expected, f"all_reduce of {count} {dtype}")
                rooted = here(numbers(rank, count, dtype))
                dist.reduce(rooted, dst=size - 1, op=op)
                if rank == size - 1:
                    equal(rooted, expected, f"reduce of {count} {dtype}")


def means_and_factors(rank, size):
    mean = here(torch.full((5,), float(rank)))
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    equal(mean, torch.full((5,), sum(range(size)) / size), "a mean")
    scaled = here(torch.full((5,), float(rank + 1)))
    dist.all_reduce(scaled, op=dist._make_nccl_premul_sum(0.5))
    equal(scaled, torch.full((5,), 0.5 * (sum(range(size)) + size)), "a premultiplied sum")
    factor = here(torch.tensor([2.0]))
    scaled = here(torch.full((5,), float(rank + 1)))
    dist.all_reduce(scaled, op=dist._make_nccl_premul_sum(factor))
    equal(scaled, torch.full((5,), 2.0 * (sum(range(size)) + size)), "a sum multiplied by a tensor")
    pairs = here(torch.full((3,), complex(rank, 1)))
    dist.all_reduce(pairs)
    equal(pairs, torch.full((3,), complex(sum(range(size)), size)), "a complex sum")
    truths = here(torch.tensor([rank == 0, rank == size - 1, False, True]))
    dist.all_reduce(truths)
    equal(truths, torch.tensor([True, True, False, True]), "the or")
    truths = here(torch.tensor([rank == 0, True]))
    dist.all_reduce(truths, op=dist.ReduceOp.PRODUCT)
    equal(truths, torch.tensor([False, True]), "the and")


def raw(tensor):
    return host(tensor).view(torch.uint8)


def moves(rank, size):
    for dtype in REDUCED + (torch.bool, torch.int16, torch.complex64, torch.float8_e4m3fn):
        tensor = numbers(rank, 12, torch.float32).to(dtype)
        everywhere = here(tensor)
        dist.broadcast(everywhere, src=size - 1)
        equal(raw(everywhere), raw(numbers(size - 1, 12).to(dtype)), f"broadcast of {dtype}")
        places = [here(torch.zeros(12).to(dtype)) for _ in range(size)]
        dist.all_gather(places, here(tensor))
        for i in range(size):
            equal(raw(places[i]), raw(numbers(i, 12).to(dtype)), f"all_gather of {dtype}")
        on_root = [here(torch.zeros(12).to(dtype)) for _ in range(size)] if rank == 1 else None
        dist.gather(here(tensor), on_root, dst=1)
        for i in range(size if rank == 1 else 0):
            equal(raw(on_root[i]), raw(numbers(i, 12).to(dtype)), f"gather of {dtype}")
        mine = here(torch.zeros(12).to(dtype))
        dist.scatter(mine, [here(numbers(0, 12, seed=i).to(dtype)) for i in range(size)] if rank == 0 else None, src=0)
        equal(raw(mine), raw(numbers(0, 12, seed=rank).to(dtype)), f"scatter of {dtype}")


def parts(rank, size):
    for rows in (1, 4, 1000):
        whole = here(torch.zeros(size * rows, 3))
        dist.all_gather_into_tensor(whole, here(numbers(rank, rows * 3)).reshape(rows, 3))
        equal(whole, torch.cat(of_all(size, rows * 3)).reshape(size * rows, 3), "all_gather_into_tensor")
        part = here(torch.zeros(rows * 3))
        dist.reduce_scatter_tensor(part, here(numbers(rank, size * rows * 3, seed=1)))
        expected = torch.stack(of_all(size, size * rows * 3, seed=1)).sum(0)
        equal(part, expected[rank * rows * 3:(rank + 1) * rows * 3], "reduce_scatter_tensor")
    uneven = [here(torch.zeros(i + 1)) for i in range(size)]
    dist.all_gather(uneven, here(torch.full((rank + 1,), float(rank))))
    for i in range(size):
        equal(uneven[i], torch.full((i + 1,), float(i)), "all_gather of different sizes")
    place = here(torch.zeros(rank + 1))
    dist.reduce_scatter(place, [here(torch.full((i + 1,), float(rank))) for i in range(size)])
    equal(place, torch.full((rank + 1,), float(sum(range(size)))), "reduce_scatter of different sizes")
    strided = here(numbers(rank, 12)).reshape(3, 4).t()
    dist.all_reduce(strided)
    equal(strided, torch.stack(of_all(size, 12)).sum(0).reshape(3, 4).t(), "all_reduce of a transposed tensor")


def all_to_alls(rank, size):
    even = here(torch.zeros(size * 5))
    dist.all_to_all_single(even, here(torch.arange(size * 5.0) + 100 * rank))
    equal(even, torch.cat([torch.arange(5.0) + 5 * rank + 100 * i for i in range(size)]), "all_to_all_single")
    sizes = [[(i + j) % 3 + 1 for j in range(size)] for i in range(size)]  # from i to j, the same both ways
    sent = torch.cat([torch.full((sizes[rank][j],), float(10 * rank + j)) for j in range(size)])
    got = here(torch.zeros(sum(sizes[rank])))
    dist.all_to_all_single(got, here(sent), sizes[rank], sizes[rank])
    equal(got, torch.cat([torch.full((sizes[i][rank],), float(10 * i + rank)) for i in range(size)]), "all_to_all_single of different sizes")
    places = [here(torch.zeros((i + rank) % 3)) for i in range(size)]
    dist.all_to_all(places, [here(torch.full(((i + rank) % 3,), float(rank))) for i in range(size)])
    for i in range(size):
        equal(places[i], torch.full(((i + rank) % 3,), float(i)), "all_to_all")


def messages(rank, size):
    left, right = (rank - 1) % size, (rank + 1) % size
    # Alone: between two ranks. The tag means nothing, as with NCCL.
    tensor = here(numbers(rank, 1000))
    if rank == 0:
        dist.send(tensor, 1, tag=5)
    elif rank == 1:
        dist.recv(tensor, 0, tag=7)
        equal(tensor, numbers(0, 1000), "recv")
    # Together, both ways, larger than what a transport keeps.
    got = [here(torch.zeros(1 << 20)) for _ in range(2)]
    mine = here(numbers(rank, 1 << 20))
    ops = [dist.P2POp(dist.isend, mine, right), dist.P2POp(dist.irecv, got[0], left),
           dist.P2POp(dist.isend, mine, left), dist.P2POp(dist.irecv, got[1], right)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    equal(got[0], numbers(left, 1 << 20), "a batch from the left")
    equal(got[1], numbers(right, 1 << 20), "a batch from the right")
    try:
        dist.recv(tensor)
        raise AssertionError("a receive from any rank was not refused")
    except ValueError as error:
        assert "NCCL" in str(error), error


def coalesced(rank, size):
    tensors = [here(numbers(rank, 10 + i)) for i in range(4)]
    with dist._coalescing_manager(device=DEVICE, async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    for i, tensor in enumerate(tensors):
        equal(tensor, torch.stack(of_all(size, 10 + i)).sum(0), "a coalesced all_reduce")
    # What torch does not collect itself.
    group = dist.group.WORLD
    group._start_coalescing(DEVICE)
    both = [here(numbers(rank, 5)), here(numbers(rank, 6))]
    works = [dist.broadcast(both[0], 0, async_op=True), dist.broadcast(both[1], 1, async_op=True)]
    try:
        works[0].wait()
        raise AssertionError("a call that has not begun was waited for")
    except dist.DistBackendError as error:
        assert "coalesced" in str(error), error
    group._end_coalescing(DEVICE).wait()
    equal(both[0], numbers(0, 5), "the first coalesced broadcast")
    equal(both[1], numbers(1, 6), "the second coalesced broadcast")


def futures(rank, size):
    works = [dist.all_reduce(here(torch.full((100,), float(i))), async_op=True) for i in range(5)]
    values = [work.get_future().then(lambda future: future.value()[0] * 2) for work in works]
    for i, value in enumerate(values):
        equal(value.wait(), torch.full((100,), 2.0 * i * size), "a future's value")
    for work in works:
        work.wait(timedelta(seconds=60))  # by the host
        assert work.is_completed()
    dist.barrier(device_ids=None if EMULATED else [0])


def several_groups(rank, size):
    pair = dist.new_group([0, 1])
    if rank < 2:
        tensor = here(torch.full((3,), float(rank + 1)))
        dist.all_reduce(tensor, group=pair)
        equal(tensor, torch.full((3,), 3.0), "all_reduce of a group")
    if not EMULATED:
        on_host = torch.full((3,), float(rank))
        dist.all_reduce(on_host)  # the same group takes both
        equal(on_host, torch.full((3,), float(sum(range(size)))), "all_reduce on the host beside")
    dist.barrier()


def refusals(rank, size):
    def refused(call, *words):
        try:
            call()
        except ValueError as error:
            for word in words:
                assert word in str(error), error
        else:
            raise AssertionError(f"not refused: {words}")

    refused(lambda: dist.all_reduce(here(torch.ones(3, dtype=torch.int32)), op=dist.ReduceOp.BAND), "NCCL")
    refused(lambda: dist.all_reduce(here(torch.ones(3, dtype=torch.int16))), "NCCL")
    refused(lambda: dist.all_gather_into_tensor(here(torch.zeros(3)), here(torch.zeros(3))), "elements")
    if not EMULATED:
        refused(lambda: dist.all_gather([torch.zeros(3), here(torch.zeros(3))], here(torch.zeros(3))), "cpu", "cuda:0", "one device")
    tensor = here(torch.ones(3))
    dist.all_reduce(tensor)  # what is refused leaves the group alone
    equal(tensor, torch.full((3,), float(size)), "all_reduce after refusals")


def one_dies(rank, size):
    tensor = here(torch.ones(1000))
    dist.all_reduce(tensor)
    if not EMULATED:
        torch.cuda.synchronize()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    try:
        dist.all_reduce(tensor, async_op=True).wait(timedelta(seconds=60))
    except dist.DistBackendError as error:
        return str(error), time.monotonic() - begin
    return "no error", 0.0


def one_is_late(rank, size):
    dist.all_reduce(here(torch.ones(1)))
    if rank == 1:
        time.sleep(3)
        return None
    options = dist.AllreduceOptions()
    options.timeout = timedelta(seconds=1)
    begin = time.monotonic()
    try:
        dist.group.WORLD.allreduce([here(torch.ones(1))], options).wait(timedelta(seconds=60))
    except dist.DistBackendError as error:
        return str(error), time.monotonic() - begin
    return "no error", 0.0


def one_dies_and_no_one_asks(rank, size):
    """Calls that the host does not wait for: a later one says what happened."""
    tensor = here(torch.ones(1000))
    dist.all_reduce(tensor)
    if rank == 1:
        host(tensor)
        os.kill(os.getpid(), signal.SIGKILL)
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            dist.all_reduce(tensor)
        except dist.DistBackendError as error:
            return str(error)
        time.sleep(0.05)
    return "no error"


def one_aborts(rank, size):
    tensor = here(torch.ones(10))
    dist.all_reduce(tensor)
    if rank == 0:
        work = dist.all_reduce(tensor, async_op=True)  # for which the others do not come
        dist.group.WORLD._get_backend(DEVICE).abort()
    else:
        time.sleep(1)
    try:
        if rank == 0:
            work.wait(timedelta(seconds=30))
        else:
            dist.all_reduce(tensor, async_op=True).wait(timedelta(seconds=30))
    except dist.DistBackendError as error:
        return str(error)
    return "no error"


def connected_at_once(rank, size):
    """As init_process_group(device_id=) does. A message alone then goes over the communicator of all."""
    dist.group.WORLD._get_backend(DEVICE).eager_connect_single_device(DEVICE)
    tensor = here(numbers(rank, 10))
    if rank == 0:
        dist.send(tensor, 1)
    elif rank == 1:
        dist.recv(tensor, 0)
        equal(tensor, numbers(0, 10), "recv")
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)


def training(rank, size):
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(DEVICE)
    alone = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(DEVICE)
    alone.load_state_dict(model.state_dict())
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.0005)
    for step in range(3):
        batches = [torch.rand(4, 8, generator=torch.Generator().manual_seed(10 * step + i)) for i in range(size)]
        ddp(here(batches[rank])).square().mean().backward()
        for batch in batches:
            (alone(here(batch)).square().mean() / size).backward()
        for mine, other in zip(model.parameters(), alone.parameters()):
            torch.testing.assert_close(mine.grad, other.grad)
            mine.data -= 0.1 * mine.grad
            other.data -= 0.1 * other.grad
            mine.grad = other.grad = None


def streams(rank, size):
    """The host never waits, and results are there where a stream waits."""
    side = torch.cuda.Stream()
    tensor = torch.zeros(1 << 24, device=DEVICE)
    for step in range(1, 6):
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)  # what the collective needs comes late
            tensor.fill_(step)
            work = dist.all_reduce(tensor, async_op=True)
        work.wait()  # of the main stream
        doubled = tensor * 2
        side.wait_stream(torch.cuda.current_stream())
        equal(doubled, torch.full((1 << 24,), 2.0 * step * size), "after a stream's wait")


def memory_is_kept(rank, size):
    """A tensor that is dropped at once lives until the device is done with it."""
    outs = []
    for step in range(20):
        out = torch.empty(1 << 20, device=DEVICE)
        dist.all_reduce(torch.full((1 << 20,), float(step), device=DEVICE), async_op=True)  # dropped
        dist.broadcast(out.fill_(rank + step), src=0, async_op=True).wait()
        outs.append(out)
    for step, out in enumerate(outs):
        equal(out, torch.full((1 << 20,), float(step)), "beside dropped tensors")


def a_capture_is_refused(rank, size):
    tensor = torch.ones(4, device=DEVICE)
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        doubled = tensor * 2
        try:
            dist.all_reduce(tensor)
            return "not refused"
        except ValueError as error:
            line = str(error)
    graph.replay()
    equal(doubled, torch.full((4,), 2.0 * size), "a graph beside weft")
    return line


@unittest.skipUnless(HAS_DEVICE, WHY_NOT)
class OnDevice(unittest.TestCase):
    def each(self, body, sizes=SIZES):
        for size in sizes:
            run(body, size)

    def test_reductions(self):
        self.each(reductions)

    def test_means_factors_complex_numbers_and_truth_values(self):
        self.each(means_and_factors)

    def test_moves_of_every_type(self):
        self.each(moves)

    def test_parts_even_and_uneven_and_strided(self):
        self.each(parts)

    def test_all_to_all_with_any_sizes(self):
        self.each(all_to_alls)

    def test_messages_alone_and_in_batches(self):
        self.each(messages)

    def test_coalesced_calls(self):
        self.each(coalesced)

    def test_futures_and_the_waits_of_the_host(self):
        self.each(futures)

    def test_several_groups_and_host_tensors_beside(self):
        self.each(several_groups)

    def test_what_nccl_has_not_is_refused(self):
        self.each(refusals)

    def test_a_killed_rank_is_named(self):
        line, seconds = run(one_dies, 2, may_die=(1,))[0]
        self.assertIn("rank 1", line)
        self.assertLess(seconds, 20)

    def test_a_killed_rank_is_told_by_a_later_call(self):
        self.assertIn("rank 1", run(one_dies_and_no_one_asks, 2, may_die=(1,))[0])

    def test_an_abort_ends_what_is_under_way_on_all_ranks(self):
        for line in run(one_aborts, 2):
            self.assertIn("was aborted", line)

    def test_a_device_is_connected_at_once(self):
        self.each(connected_at_once)

    def test_a_timeout_of_one_call_names_who_is_missing(self):
        line, seconds = run(one_is_late, 2, may_die=(1,))[0]
        self.assertIn("rank 1", line)
        self.assertLess(seconds, 20)

    def test_ddp_has_the_gradients_of_one_process(self):
        self.each(training)

    @needs_torchs_cuda
    def test_streams_wait_and_the_host_does_not(self):
        self.each(streams)

    @needs_torchs_cuda
    def test_memory_is_kept_until_the_device_is_done(self):
        self.each(memory_is_kept)

    @needs_torchs_cuda
    def test_a_capture_is_refused_and_goes_on(self):
        for line in run(a_capture_is_refused, 2):
            self.assertIn("CUDA graph", line)


if __name__ == "__main__":
    if not HAS_DEVICE:
        print(f"all is skipped: {WHY_NOT}")
        sys.exit(77)
    print(f"tensors of CUDA devices: {weft.torch.cuda_tensors()}; torch {torch.__version__}", file=sys.stderr)
    unittest.main(verbosity=2)
