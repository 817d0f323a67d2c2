"""Every collective over weft beside the same over gloo, on 2, 3 and 4 ranks: equal results."""

import unittest

import torch
import torch.distributed as dist
import weft.torch  # noqa: F401

from ranks import over_both, run

SIZES = (2, 3, 4)
TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])
# What gloo reduces, too.
NUMBERS = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64)
OPS = (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX)
BIT_OPS = (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR)


def numbers(rank, count, dtype=torch.float32, seed=0):
    """Small integers, whose sums are exact in every type."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    return torch.randint(0, 4, (count,), generator=generator).to(dtype)


def reductions(rank, size):
    out = []
    for dtype in NUMBERS:
        for op in OPS + (() if dtype.is_floating_point else BIT_OPS):
            for count in (1, 7, 1000):
                tensor = numbers(rank, count, dtype, seed=count)
                dist.all_reduce(tensor, op=op)
                rooted = numbers(rank, count, dtype, seed=count)
                dist.reduce(rooted, dst=size - 1, op=op)
                out += [tensor, rooted if rank == size - 1 else None]
    return out


def large_reduction(rank, size):
    tensor = torch.rand(3_000_001, generator=torch.Generator().manual_seed(rank))
    dist.all_reduce(tensor)
    return tensor


def gathers(rank, size):
    out = []
    for dtype in (torch.float32, torch.float64, torch.float16, torch.int8, torch.uint8, torch.int32, torch.int64):
        for shape in ((3,), (2, 5), ()):
            tensor = (numbers(rank, 10, dtype)[: max(1, torch.Size(shape).numel())]).reshape(shape)
            places = [torch.zeros_like(tensor) for _ in range(size)]
            dist.all_gather(places, tensor)
            out.append(places)
            on_root = [torch.zeros_like(tensor) for _ in range(size)] if rank == 1 else None
            dist.gather(tensor, on_root, dst=1)
            out.append(on_root)
            mine = torch.zeros_like(tensor)
            dist.scatter(mine, [tensor + i for i in range(size)] if rank == 0 else None, src=0)
            out.append(mine)
            everywhere = tensor.clone()
            dist.broadcast(everywhere, src=size - 1)
            out.append(everywhere)
    return out


def whole_tensors(rank, size):
    out = []
    for rows in (1, 4, 1000):
        whole = torch.zeros(size * rows, 3)
        dist.all_gather_into_tensor(whole, numbers(rank, rows * 3).reshape(rows, 3))
        part = torch.zeros(rows, 3)
        dist.reduce_scatter_tensor(part, numbers(rank, size * rows * 3, seed=1).reshape(size * rows, 3))
        out += [whole, part]
        parts = [torch.zeros(rows) for _ in range(size)]
        place = torch.zeros(rows)
        dist.reduce_scatter(place, [numbers(rank, rows, seed=i) for i in range(size)])
        out += [place, parts]
    return out


def all_to_alls(rank, size):
    even = torch.zeros(size * 5)
    dist.all_to_all_single(even, numbers(rank, size * 5))
    in_sizes = [(rank + i) % 3 for i in range(size)]
    out_sizes = [(i + rank) % 3 for i in range(size)]
    uneven = torch.zeros(sum(out_sizes), 2)
    dist.all_to_all_single(uneven, numbers(rank, 2 * sum(in_sizes)).reshape(-1, 2), out_sizes, in_sizes)
    places = [torch.zeros(4) for _ in range(size)]
    parts = [numbers(rank, 4, seed=i) for i in range(size)]
    if dist.get_backend() == "gloo":  # torch 2.11's has no all_to_all of lists
        whole = torch.zeros(4 * size)
        dist.all_to_all_single(whole, torch.cat(parts))
        places = list(whole.chunk(size))
    else:
        dist.all_to_all(places, parts)
    return [even, uneven, places]


def messages(rank, size):
    out = []
    for peer in range(size):  # each to each, in both directions at once
        if peer == rank:
            continue
        received = torch.zeros(100)
        works = [dist.isend(numbers(rank, 100, seed=peer), peer), dist.irecv(received, peer)]
        for work in works:
            work.wait()
        out.append(received)
    ring = torch.zeros(4)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, numbers(rank, 4), (rank + 1) % size),
                                        dist.P2POp(dist.irecv, ring, (rank - 1) % size)]):
        work.wait()
    return out + [ring]


def asynchronous(rank, size):
    tensors = [numbers(rank, 100 + i, seed=i) for i in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works):
        work.wait()
    futures = []
    for i in range(5):
        tensor = numbers(rank, 50, seed=i)
        futures.append(dist.all_reduce(tensor, async_op=True).get_future().then(lambda future: 2 * future.value()[0]))
    return tensors + [future.wait() for future in futures]


def several_groups(rank, size):
    out = []
    groups = [dist.new_group([i for i in range(size) if i % 2 == parity]) for parity in (0, 1)] + [dist.new_group()]
    for step in range(5):
        own = numbers(rank, 10, seed=step)
        dist.all_reduce(own, group=groups[rank % 2])
        everyone = own.clone()
        work = dist.all_reduce(everyone, group=groups[2], async_op=True)
        dist.broadcast(own, src=0)
        work.wait()
        out += [own, everyone]
    return out


def split(rank, size):
    """Groups split off the world and off each other; the ranks that are left out go on."""
    out = []
    halves = [list(range(size // 2)), list(range(size // 2, size))]
    own = dist.split_group(split_ranks=halves)
    tensor = numbers(rank, 10)
    dist.all_reduce(tensor, group=own)
    out.append(tensor)
    first = dist.split_group(split_ranks=[list(range(size - 1))])
    if rank < size - 1:
        last = dist.split_group(first, split_ranks=[[size - 2]])  # by ranks of the group that is split
        for group in (first, last):
            if group != dist.GroupMember.NON_GROUP_MEMBER:
                tensor = numbers(rank, 10, seed=dist.get_world_size(group))
                dist.all_reduce(tensor, group=group)
                out += [tensor, dist.get_process_group_ranks(group)]
    everyone = numbers(rank, 10, seed=2)
    dist.all_reduce(everyone)
    dist.destroy_process_group(own)
    return out + [everyone, first is None or rank < size - 1]


def coalesced(rank, size):
    with dist._coalescing_manager():
        tensors = [numbers(rank, 10 + i, seed=i) for i in range(4)]
        for tensor in tensors:
            dist.all_reduce(tensor)
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    return tensors + [objects]


def sparse(rank, size):
    tensor = torch.sparse_coo_tensor([[rank, 5, rank], [0, 1, 0]], [1.0, 2.0, 3.0], (8, 2))
    dist.all_reduce(tensor)
    empty = torch.sparse_coo_tensor(torch.zeros((1, rank % 2), dtype=torch.int64), torch.ones(rank % 2), (4,))
    dist.all_reduce(empty)
    return [tensor.to_dense(), empty.to_dense()]


def strided(rank, size):
    tensor = numbers(rank, 12).reshape(3, 4).t()
    dist.all_reduce(tensor)
    other = numbers(rank, 12).reshape(3, 4)[:, ::2]
    dist.broadcast(other, src=0)
    return [tensor.contiguous(), other.contiguous()]


class Twins(unittest.TestCase):
    def same(self, body, sizes=SIZES):
        for size in sizes:
            with self.subTest(ranks=size):
                gloo, weft_ = over_both(body, size)
                for rank in range(size):
                    self.equal(gloo[rank], weft_[rank], f"rank {rank} of {size}")

    def equal(self, expected, found, where):
        if isinstance(expected, torch.Tensor):
            self.assertEqual(expected.dtype, found.dtype, where)
            self.assertTrue(torch.equal(expected, found), f"{where}: gloo has {expected}, weft {found}")
        elif isinstance(expected, (list, tuple)):
            self.assertEqual(len(expected), len(found), where)
            for i, (left, right) in enumerate(zip(expected, found)):
                self.equal(left, right, f"{where}, result {i}")
        else:
            self.assertEqual(expected, found, where)

    def test_reductions(self):
        self.same(reductions)

    def test_gather_scatter_and_broadcast(self):
        self.same(gathers)

    def test_whole_tensors(self):
        self.same(whole_tensors)

    def test_all_to_all_with_any_sizes(self):
        self.same(all_to_alls)

    def test_messages(self):
        self.same(messages)

    def test_asynchronous_operations_and_futures(self):
        self.same(asynchronous)

    def test_several_groups(self):
        self.same(several_groups)

    @unittest.skipIf(TORCH < (2, 15), "gloo's groups are split since torch 2.15")
    def test_groups_split_off_others(self):
        self.same(split)

    def test_coalesced_operations(self):
        self.same(coalesced, (2,))

    def test_sums_of_sparse_tensors(self):
        self.same(sparse)

    def test_large_sums_differ_by_rounding_alone(self):
        gloo, weft_ = over_both(large_reduction, 3)
        torch.testing.assert_close(gloo[0], weft_[0])
        self.assertTrue(torch.equal(weft_[0], weft_[1]) and torch.equal(weft_[0], weft_[2]))


def logic(rank, size):
    out = []
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.BXOR):
        tensor = torch.tensor([True, False, rank == 0, rank == 1])
        dist.all_reduce(tensor, op=op)
        out.append(tensor)
    return out


def beyond_gloo(rank, size):
    mean = torch.full((5,), float(rank))
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    scaled = torch.full((5,), float(rank + 1))
    dist.all_reduce(scaled, op=dist._make_nccl_premul_sum(0.5))
    complex_sum = torch.full((3,), complex(rank, 1))
    dist.all_reduce(complex_sum)
    uneven = [torch.zeros(i + 1) for i in range(size)]
    dist.all_gather(uneven, torch.full((rank + 1,), float(rank)))
    places = [torch.zeros((i + rank) % 3) for i in range(size)]
    dist.all_to_all(places, [torch.full(((i + rank) % 3,), float(rank)) for i in range(size)])
    part = torch.zeros(rank + 1)
    dist.reduce_scatter(part, [torch.full((i + 1,), float(rank)) for i in range(size)])
    return [mean, scaled, complex_sum, uneven, places, part]


def callbacks(rank, size):
    # Each calls a collective and waits for it: the ranks' callbacks must run in one order, and what they call must end meanwhile. They have a
    # group of their own, for the program calls meanwhile.
    order = []
    group = dist.new_group()

    def call(i, future):
        other = future.value()[0].clone()
        dist.all_reduce(other, group=group, async_op=True).get_future().wait()
        order.append(i)
        return other

    futures = []
    for i in range(6):
        tensor = torch.full((10 * (6 - i),), 1.0)
        futures.append(dist.all_reduce(tensor, async_op=True).get_future().then(lambda future, i=i: call(i, future)))
    return [future.wait().tolist() for future in futures], order


def tagged(rank, size):
    left, right = (rank - 1) % size, (rank + 1) % size
    sent = [dist.isend(torch.full((3,), 2.0), right, tag=2), dist.isend(torch.full((3,), 1.0), right, tag=1)]
    first, second = torch.zeros(3), torch.zeros(3)
    dist.recv(first, left, tag=1)  # which was sent last
    dist.recv(second, left, tag=2)
    for work in sent:
        work.wait()
    sources = []
    if rank == 0:
        for _ in range(size - 1):
            tensor = torch.zeros(2)
            source = dist.recv(tensor, tag=3)
            assert tensor[0] == source
            sources.append(source)
    else:
        dist.send(torch.full((2,), float(rank)), 0, tag=3)
    return first[0].item(), second[0].item(), sorted(sources)


class BeyondGloo(unittest.TestCase):
    def test_sum_of_truth_values_is_or_and_product_is_and(self):
        for size in SIZES:
            either, both, most, least, odd = run(logic, size)[0]
            self.assertEqual(either.tolist(), [True, False, True, True])
            self.assertEqual(most.tolist(), [True, False, True, True])
            self.assertEqual(both.tolist(), [True, False, False, False])
            self.assertEqual(least.tolist(), [True, False, False, False])
            self.assertEqual(odd.tolist(), [size % 2 == 1, False, True, True])

    def test_means_premultiplied_and_complex_sums_and_uneven_parts(self):
        for size in SIZES:
            total = sum(range(size))
            for rank, (mean, scaled, complex_sum, uneven, places, part) in enumerate(run(beyond_gloo, size)):
                self.assertEqual(mean.tolist(), [total / size] * 5)
                self.assertEqual(scaled.tolist(), [0.5 * (total + size)] * 5)
                self.assertEqual(complex_sum.tolist(), [complex(total, size)] * 3)
                self.assertEqual([each.tolist() for each in uneven], [[float(i)] * (i + 1) for i in range(size)])
                self.assertEqual([each.tolist() for each in places], [[float(i)] * ((i + rank) % 3) for i in range(size)])
                self.assertEqual(part.tolist(), [float(total)] * (rank + 1))

    def test_callbacks_run_in_order_and_may_wait_for_what_they_call(self):
        for size in SIZES:
            for values, order in run(callbacks, size):
                self.assertEqual(order, list(range(6)))
                self.assertEqual(values, [[float(size * size)] * (10 * (6 - i)) for i in range(6)])

    def test_messages_by_tag_and_from_any_rank(self):
        for size in SIZES:
            for rank, (first, second, sources) in enumerate(run(tagged, size)):
                self.assertEqual((first, second), (1.0, 2.0))
                self.assertEqual(sources, sorted(set(range(size)) - {rank}) if rank == 0 else [])

    def test_tensors_that_are_not_contiguous(self):
        for size in SIZES:
            for tensor, other in run(strided, size):
                expected = sum(numbers(rank, 12).reshape(3, 4).t() for rank in range(size))
                self.assertTrue(torch.equal(tensor, expected))
                self.assertTrue(torch.equal(other, numbers(0, 12).reshape(3, 4)[:, ::2]))


if __name__ == "__main__":
    unittest.main()
