"""weft.torch.compress() beside a slow reference in Python, made from the gradients of all ranks; bucket sizes of plan_buckets()."""

import contextlib
import copy
import itertools
import os
import unittest

import torch
import torch.distributed as dist
import weft.torch
from torch.nn.parallel import DistributedDataParallel

from ranks import run

STEPS = 7
NAN_STEP, INF_STEP, MICRO_STEP = 3, 4, 5


class Net(torch.nn.Module):
    """A frozen layer, one that some steps do not use, parameters without elements and without dimensions, and sizes that are no whole cache lines."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.first = torch.nn.Linear(12, 33)
        self.frozen = torch.nn.Linear(33, 33)
        self.side = torch.nn.Linear(33, 33)
        self.last = torch.nn.Linear(33, 5)
        self.empty, self.number = torch.nn.Parameter(torch.zeros(0)), torch.nn.Parameter(torch.ones(()))
        self.frozen.requires_grad_(False)

    def forward(self, x, uses_side=True):
        x = torch.relu(self.first(x)) + torch.tanh(self.frozen(torch.ones(33, dtype=x.dtype)))
        return self.last(self.side(x) if uses_side else x) * self.number + self.empty.sum()


class Spy:
    """Notes the parameters of the buckets that a hook sees."""

    def __init__(self, compression, model):
        self.core, compression._core = compression._core, self
        self.names = {id(parameter): name for name, parameter in model.named_parameters()}
        self.buckets = []

    def reduce(self, bucket):
        self.buckets.append((bucket.index(), tuple(self.names[id(parameter)] for parameter in bucket.parameters())))
        return self.core.reduce(bucket)

    def state(self):
        return self.core.state()

    def load_state(self, tensors):
        self.core.load_state(tensors)


def is_bad(gradients):
    return not all(bool(torch.isfinite(one).all()) for one in gradients)


class Bf16:
    """Each rank's gradient rounded, the sum by rank, the mean rounded."""

    def reduce(self, index, names, ranks):
        flat = [torch.cat([one[name].flatten() for name in names]) for one in ranks]
        total = flat[0].bfloat16().float()
        for one in flat[1:]:
            total = total + one.bfloat16().float()
        return cut((total / len(ranks)).bfloat16().float(), names, ranks[0])


class TopK:
    """The largest quarter, with what was left of each rank's gradient in f32; exact before step 2. A bucket with NaN leaves no trace."""

    def __init__(self):
        self.lost, self.steps, self.names = {}, {}, {}

    def reduce(self, index, names, ranks):
        if self.names.get(index) != names:  # a new bucket; training goes on
            self.steps[index] = self.steps.get(index, self.steps[index - 1] - 1 if index else 0)
            self.names[index] = names
            self.lost[index] = None
        flat = [torch.nn.functional.pad(flat, (0, -flat.numel() % 32)) for flat in (torch.cat([one[name].flatten() for name in names]) for one in ranks)]
        lost = self.lost[index] or [torch.zeros_like(one) for one in flat]
        counts = not is_bad(flat)
        if self.steps[index] < 2:
            kept = flat
        else:
            values = [one + other for one, other in zip(flat, lost)]
            kept = []
            for one in values:
                largest = one.abs().sort(descending=True, stable=True).indices[: -(-one.numel() // 4)]
                kept.append(torch.zeros_like(one).index_copy_(0, largest, one[largest]))
            if counts:
                self.lost[index] = [one - other for one, other in zip(values, kept)]
        self.steps[index] += counts
        total = kept[0]
        for one in kept[1:]:
            total = total + one
        return cut(total / len(ranks), names, ranks[0]) if counts else None


class LowRank:
    """PowerSGD in f64: the mean of matrices and residuals, projected on the columns' main directions. A bucket with NaN leaves no trace."""

    def __init__(self, bases):
        self.bases = {name: basis.double() for name, basis in bases.items()}
        self.residuals = {}

    def reduce(self, index, names, ranks):
        if is_bad([one[name] for one in ranks for name in names]):
            return None
        means = {}
        for name in names:
            matrices = [one[name].double() for one in ranks]
            if name not in self.bases:
                means[name] = sum(matrices) / len(ranks)
                continue
            residuals = self.residuals.get(name, [0] * len(ranks))
            matrices = [one + residual for one, residual in zip(matrices, residuals)]
            left = torch.linalg.qr(sum(one @ self.bases[name] for one in matrices)).Q
            means[name] = left @ left.T @ (sum(matrices) / len(ranks))
            self.residuals[name] = [one - left @ left.T @ one for one in matrices]
            self.bases[name] = torch.linalg.qr(sum(matrices).T @ left).Q
        return means


def cut(flat, names, shapes):
    result = {}
    for name in names:
        count = shapes[name].numel()
        result[name], flat = flat[:count].reshape(shapes[name].shape), flat[count:]
    return result


def spoil(name, value):
    """Puts a value into one gradient of the last rank."""
    return lambda gradient: torch.cat([torch.tensor([value]), gradient.flatten()[1:]]).reshape(gradient.shape)


def gathered(local):
    ranks = [None] * dist.get_world_size()
    dist.all_gather_object(ranks, local)
    return ranks


def backward(model, rank, step, micro, uses_side):
    generator = torch.Generator().manual_seed(1000 * step + 10 * rank + micro)
    model(torch.randn(6, 12, generator=generator), uses_side).square().sum().backward()


def twin(rank, size, codec, options, reference, unused, as_views):
    """The gradients by step of DDP with a hook, beside those of the reference: (step, name, found, expected), expected None where there was NaN."""
    model = Net()
    alone = copy.deepcopy(model)
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.003, gradient_as_bucket_view=as_views, find_unused_parameters=unused)
    compression = weft.torch.compress(ddp, codec, **options)
    if isinstance(reference, LowRank):
        compression.load_state_dict({"codec": "powersgd", "tensors": {
            name: {"shape": list(model.get_parameter(name).shape), "rank": basis.shape[1], "steps": 0, "left_bases": False,
                   "basis": basis.T.contiguous(), "residual": torch.zeros(0)} for name, basis in reference.bases.items()}})
    spy = Spy(compression, model)
    out = []
    for step in range(STEPS):
        uses_side = not unused or step % 2 == 0
        value = {NAN_STEP: float("nan"), INF_STEP: float("inf")}.get(step) if rank == size - 1 else None
        hooks = [net.last.weight.register_hook(spoil("last.weight", value)) for net in (model, alone) if value is not None]
        for net in (ddp, alone):
            net.zero_grad(set_to_none=step % 2 == 0)
        for micro in range(2 if step == MICRO_STEP else 1):
            last = step != MICRO_STEP or micro == 1
            with contextlib.nullcontext() if last else ddp.no_sync():
                backward(ddp, rank, step, micro, uses_side)
            backward(alone, rank, step, micro, uses_side)
        for hook in hooks:
            hook.remove()
        ranks = gathered({name: torch.zeros_like(one) if one.grad is None else one.grad for name, one in alone.named_parameters() if one.requires_grad})
        buckets, spy.buckets = spy.buckets, []
        for index, names in buckets:
            expected = reference.reduce(index, names, ranks)
            for name in names:
                if uses_side or "side" not in name:  # DDP leaves gradients alone that no rank has
                    out.append((step, name, model.get_parameter(name).grad.clone(), expected and expected[name]))
        with torch.no_grad():
            for one, other in zip(model.parameters(), alone.parameters()):
                one += 0.01
                other += 0.01
    return out


BASES = {name: torch.linalg.qr(torch.randn(columns, 2, generator=torch.Generator().manual_seed(columns))).Q
         for name, columns in (("first.weight", 12), ("side.weight", 33), ("last.weight", 33))}
CODECS = {"bf16": ({}, Bf16, 0), "top-k": ({"fraction": 0.25, "residual": "f32", "start_step": 2}, TopK, 0),
         "powersgd": ({"rank": 2, "start_step": 0, "min_rate": 0.5, "residual": "f32"}, lambda: LowRank(BASES), 1e-3)}


def twins(rank, size, codec):
    options, reference, _ = CODECS[codec]
    return [twin(rank, size, codec, options, reference(), unused, as_views) for unused, as_views in itertools.product((False, True), repeat=2)]


def sums(rank, size, codec):
    """The sums of means with and without the codec over some steps, and the largest gradient."""
    net = Net()
    alone = copy.deepcopy(net)
    ddp = DistributedDataParallel(net, bucket_cap_mb=0.003)
    weft.torch.compress(ddp, codec, start_step=0)
    found, expected, largest = 0, 0, 0
    for step in range(20):
        for one in (ddp, alone):
            one.zero_grad()
            backward(one, rank, step, 0, True)
        flat = torch.cat([one.grad.flatten() for one in alone.parameters() if one.grad is not None])
        largest = max(largest, max(gathered(flat.abs().max().item())))
        dist.all_reduce(flat, op=dist.ReduceOp.AVG)
        if step >= 1:  # residuals of codecs begin anew with the buckets of the second step
            expected = expected + flat
            found = found + torch.cat([one.grad.flatten() for one in net.parameters() if one.grad is not None])
    return found, expected, largest


def random_k(rank, size):
    net = DistributedDataParallel(Net())
    weft.torch.compress(net, "random-k", fraction=0.25, start_step=0, seed=3)
    backward(net, 0, 0, 0, True)
    alone = Net()
    backward(alone, 0, 0, 0, True)
    return ([torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None]) for model in (net, alone)])


def in_bf16(rank, size):
    net = DistributedDataParallel(Net().bfloat16())
    weft.torch.compress(net, "powersgd", rank=1, start_step=0, min_rate=1)
    net(torch.ones(6, 12, dtype=torch.bfloat16)).sum().backward()  # of rank 1: what is sent is all that there is
    alone = Net().bfloat16()
    alone(torch.ones(6, 12, dtype=torch.bfloat16)).sum().backward()
    return [(net.module.get_parameter(name).grad.float(), alone.get_parameter(name).grad.float()) for name in ("side.weight", "last.weight")]


def two_groups(rank, size):
    other = dist.new_group(backend="weft")
    nets = [DistributedDataParallel(Net(), process_group=group, bucket_cap_mb=0.003) for group in (None, other)]
    for net in nets:
        weft.torch.compress(net, "top-k", fraction=1.0, start_step=0)
    for step in range(3):
        losses = [net(torch.full((2, 12), float(rank + step + 1))).square().sum() for net in nets]
        for loss in losses:
            loss.backward()
    return [[one.grad for one in net.parameters() if one.grad is not None] for net in nets]


def resumed(rank, size):
    """Gradients of the steps after a save, of the run that saved and of one that loads."""
    def train(ddp, steps):
        out = []
        for step in steps:
            ddp.zero_grad()
            backward(ddp, rank, step, 0, True)
            out.append([one.grad.clone() for one in ddp.parameters() if one.grad is not None])
        return out

    ddp = DistributedDataParallel(Net(), bucket_cap_mb=0.003)
    compression = weft.torch.compress(ddp, "powersgd", rank=1, start_step=1)
    train(ddp, range(4))
    state = copy.deepcopy(compression.state_dict())
    went_on = train(ddp, range(4, 7))
    ddp = DistributedDataParallel(Net(), bucket_cap_mb=0.006)
    compression = weft.torch.compress(ddp, "powersgd", rank=1, start_step=1)
    compression.load_state_dict(state)
    same = all(torch.equal(one["residual"], state["tensors"][name]["residual"]) for name, one in compression.state_dict()["tensors"].items())
    return went_on, train(ddp, range(4, 7)), same, sorted(state["tensors"])


class Hooks(unittest.TestCase):
    def equals_its_reference(self, codec, sizes=(2, 3)):
        for size in sizes:
            runs = run(twins, size, timeout=120, codec=codec)
            for rank, runs_of_rank in enumerate(runs):
                for number, steps in enumerate(runs_of_rank):
                    self.assertGreater(len(steps), 5 * STEPS)
                    seen_bad = 0
                    for i, (step, name, found, expected) in enumerate(steps):
                        where = f"{codec}, {size} ranks, rank {rank}, run {number}, step {step}, {name}"
                        self.assertTrue(torch.equal(found.nan_to_num(), runs[0][number][i][2].nan_to_num()), f"{where}: ranks differ")
                        if expected is None:
                            seen_bad += is_bad([found])
                        elif CODECS[codec][2]:
                            largest = max(expected.abs().flatten().tolist(), default=0)
                            torch.testing.assert_close(found.double(), expected, rtol=CODECS[codec][2], atol=CODECS[codec][2] * largest,
                                                       msg=lambda text: f"{where}: {text}")
                        else:
                            self.assertTrue(torch.equal(found.nan_to_num(), expected.nan_to_num()), f"{where}: {found} is not {expected}")
                    if codec != "bf16":
                        self.assertGreaterEqual(seen_bad, 2, "NaN and infinity are not hidden")

    def test_bf16_equals_its_reference_bitwise(self):
        self.equals_its_reference("bf16")

    def test_top_k_with_residuals_equals_its_reference_bitwise(self):
        self.equals_its_reference("top-k")

    def test_power_sgd_equals_its_reference(self):
        self.equals_its_reference("powersgd")

    def test_a_thread_may_carry_buckets(self):
        os.environ["WEFT_PROGRESS"] = "thread"  # what ranks with cores to spare do
        self.addCleanup(os.environ.pop, "WEFT_PROGRESS")
        for codec in ("top-k", "powersgd"):
            self.equals_its_reference(codec, (2,))

    def test_what_was_sent_adds_up(self):
        for codec, bound in (("int8", 3 / 127), ("int8:stochastic", 6 / 127), ("fp8-e4m3", 3 / 16), ("fp8-e5m2", 3 / 8), ("top-k:0.5", 3)):
            with self.subTest(codec=codec):
                for found, expected, largest in run(sums, 2, codec=codec):
                    self.assertLess((found - expected).abs().max().item(), bound * largest)
                    self.assertFalse(torch.equal(found, expected), "nothing was compressed")

    def test_fp16_rounds_twice(self):
        def once(rank, size):
            net, alone = DistributedDataParallel(Net()), Net()
            weft.torch.compress(net, "fp16")
            out = []
            for model in (net, alone):
                backward(model, rank, 0, 0, True)
                out.append(torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None]))
            dist.all_reduce(out[1], op=dist.ReduceOp.AVG)
            return out
        for found, expected in run(once, 3):
            torch.testing.assert_close(found, expected, rtol=2**-9, atol=2**-9 * expected.abs().max().item())
            self.assertFalse(torch.equal(found, expected))

    def test_random_k_sends_a_quarter(self):
        for found, expected in run(random_k, 2):
            sent = found != 0
            self.assertTrue(0.2 < sent.float().mean() < 0.3)
            torch.testing.assert_close(found[sent], expected[sent])

    def test_gradients_of_16_bits(self):
        for pairs in run(in_bf16, 2):
            for found, expected in pairs:
                torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2 * expected.abs().max().item())

    def test_several_groups(self):
        for first, second in run(two_groups, 2):
            for one, other in zip(first, second):
                self.assertTrue(torch.equal(one, other))

    def test_a_saved_state_goes_on_bitwise(self):
        for went_on, loaded, same, names in run(resumed, 2):
            self.assertEqual(names, ["first.weight", "last.weight", "side.weight"])
            self.assertTrue(same)
            for step, (left, right) in enumerate(zip(went_on, loaded)):
                for one, other in zip(left, right):
                    self.assertTrue(torch.equal(one, other), f"step {step}")


def refusals(rank, size):
    """(what, type of the error, its line) of wrong calls."""
    def of(call):
        try:
            call()
        except Exception as error:
            return type(error).__name__, str(error)
        return "nothing", ""

    net = DistributedDataParallel(Net())
    gloo = DistributedDataParallel(Net(), process_group=dist.new_group(backend="gloo"))
    power_sgd = weft.torch.compress(DistributedDataParallel(Net()), "powersgd", rank=1)
    codec = weft.torch.compress(DistributedDataParallel(Net()), "int8")
    compress = weft.torch.compress
    mixed = Net()
    mixed.first.double()
    calls = {
        "name": lambda: compress(net, "pwersgd"), "option": lambda: compress(net, "int8", rounds="nearest"), "word": lambda: compress(net, "int8", rounding="up"),
        "no fraction": lambda: compress(net, "top-k"), "fraction": lambda: compress(net, "top-k", fraction=2.0), "text": lambda: compress(net, "top-k:much"),
        "twice": lambda: compress(net, "top-k:0.1", fraction=0.2), "rank": lambda: compress(net, "powersgd", rank=0),
        "large rank": lambda: compress(net, "powersgd", rank=100), "negative": lambda: compress(net, "powersgd", start_step=-1),
        "whole": lambda: compress(net, "powersgd", whole=["nobody"]), "rate": lambda: compress(net, "powersgd", min_rate=float("nan")),
        "parameters": lambda: compress(net, "fp16:3"), "no name": lambda: compress(net, 4), "no ddp": lambda: compress(Net(), "fp16"),
        "gloo": lambda: compress(gloo, "fp16"), "no state": lambda: codec.state_dict(), "other state": lambda: power_sgd.load_state_dict({"codec": "int8"}),
        "other model": lambda: power_sgd.load_state_dict({"codec": "powersgd", "tensors": {"x": {
            "shape": [2], "rank": 1, "steps": 0, "left_bases": False, "basis": torch.zeros(2), "residual": torch.zeros(2)}}}),
        "half a state": lambda: power_sgd.load_state_dict({"codec": "powersgd", "tensors": {"x": {"shape": [2]}}}),
        "plan of ddp": lambda: weft.torch.plan_buckets(net), "plan of two types": lambda: weft.torch.plan_buckets(mixed),
        "plan without gradients": lambda: weft.torch.plan_buckets(Net(), step=lambda: None),
        "plan over gloo": lambda: weft.torch.plan_buckets(Net(), group=gloo.process_group),
    }
    found = {name: of(call) for name, call in calls.items()}
    net(torch.ones(2, 12)).sum().backward()  # a refused call has changed nothing
    return found


def different(rank, size, second):
    net = DistributedDataParallel(Net())
    weft.torch.compress(net, *(("int8", {}), second)[rank][:1], **(("int8", {}), second)[rank][1])
    try:
        net(torch.ones(2, 12)).sum().backward()
    except dist.DistBackendError as error:
        return str(error)


def left_alone(rank, size):
    net = DistributedDataParallel(Net())
    weft.torch.compress(net, "int8")
    net(torch.ones(2, 12)).sum().backward()
    if rank == 1:
        return None
    try:
        net(torch.ones(2, 12)).sum().backward()
    except dist.DistBackendError as error:
        return str(error)


class Errors(unittest.TestCase):
    def test_wrong_calls_are_refused(self):
        found = run(refusals, 2)[0]
        types = {"no name": "TypeError", "no ddp": "TypeError", "gloo": "TypeError", "plan of ddp": "TypeError", "plan over gloo": "TypeError"}
        words = {"name": "did you mean powersgd", "option": "rounding", "word": "nearest, stochastic", "no fraction": "fraction=0.01", "large rank": "smaller rank",
                 "gloo": "is gloo, not weft", "no state": "cannot be saved", "other model": "compressed there and not here", "whole": "nobody",
                 "twice": "say it once", "plan of two types": "float64", "plan without gradients": "no gradients", "half a state": "not whole"}
        for name, (kind, line) in found.items():
            self.assertEqual(kind, types.get(name, "ValueError"), f"{name}: {line}")
            self.assertIn(words.get(name, "weft"), line)

    def test_ranks_with_other_codecs_are_told_so(self):
        for second in (("fp8-e4m3", {}), ("int8", {"seed": 1, "rounding": "stochastic"}), ("powersgd", {})):
            for line in run(different, 2, second=second):
                self.assertIn("ranks compress a bucket in different ways: rank 0 ", line)
                self.assertIn("int8", line)

    def test_a_rank_that_left_is_named(self):
        line = run(left_alone, 2, timeout=4)[0]
        self.assertIn("rank 1", line)


def planned(rank, size, unused):
    torch.manual_seed(1)
    net = torch.nn.Sequential(*[torch.nn.Linear(128 + 8 * (i % 3), 128 + 8 * ((i + 1) % 3)) for i in range(9)])
    step = lambda: net(torch.ones(4, 128)).sum().backward()  # noqa: E731
    keywords = weft.torch.plan_buckets(net, step=step, find_unused_parameters=unused)
    gone = all(one.grad is None for one in net.parameters())
    of_one_size = weft.torch.plan_buckets(net)
    ddp = DistributedDataParallel(net, find_unused_parameters=unused, **keywords)
    sizes = []

    def as_it_is(_, bucket):
        sizes.append(4 * bucket.buffer().numel())
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    ddp.register_comm_hook(None, as_it_is)
    for _ in range(2):
        sizes.clear()
        ddp(torch.ones(4, 128)).sum().backward()
    return keywords["bucket_cap_mb_list"], of_one_size["bucket_cap_mb_list"], sizes, sum(4 * one.numel() for one in net.parameters()), gone


def places(rank, size, setting):
    """What the memory of DDP's buckets is mapped from, in the first step and after it."""
    if setting is not None:  # the group is there already: this is as if it had been set before
        os.environ["DDP_DISABLE_COMM_MEM"] = setting
    net = DistributedDataParallel(Net())
    seen = []

    def look(_, bucket):
        at = bucket.buffer().data_ptr()
        with open("/proc/self/maps") as maps:
            for line in maps:
                begin, end = (int(one, 16) for one in line.split()[0].split("-"))
                if begin <= at < end:
                    seen.append(" ".join(line.split()[5:]))
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    net.register_comm_hook(None, look)
    for _ in range(2):
        net(torch.ones(2, 12)).sum().backward()
    return seen, os.environ["DDP_DISABLE_COMM_MEM"]


class Buckets(unittest.TestCase):
    @unittest.skipIf(torch.cuda.device_count() > 0, "beside CUDA devices it is up to the user")
    def test_they_lie_in_the_node_heap(self):
        for seen, setting in run(places, 2, setting=None):
            self.assertEqual(setting, "0")
            self.assertEqual(len(seen), 2)
            for place in seen:
                self.assertIn("weft", place)
        for seen, _ in run(places, 2, setting="1"):
            for place in seen:
                self.assertNotIn("weft", place)

    def test_ddp_builds_the_planned_buckets(self):
        for unused in (False, True):
            results = run(planned, 2, unused=unused)
            for caps, of_one_size, sizes, total, gone in results:
                caps = [int(cap * 2**20) for cap in caps]
                self.assertEqual(caps, [int(cap * 2**20) for cap in results[0][0]], "ranks plan alike")
                self.assertEqual(sum(caps), total)
                self.assertEqual(caps, sizes[::-1] if unused else sizes)
                self.assertEqual([int(cap * 2**20) for cap in of_one_size], [total])
                self.assertTrue(gone)


if __name__ == "__main__":
    unittest.main()
