"""Writes what NCCL prints in a job of many ranks, for tests. Hosts are made up.

usage: nccl_log_of_many.py HOSTS RANKS_PER_HOST [LINES_OF_CHANNELS] > LOG

The last host differs from the others: it has an older version, one network card fewer, and TCP towards the first host.
"""
import sys


def lines(hosts, per_host, channels):
    total = hosts * per_host
    for rank in range(total):
        host, local = divmod(rank, per_host)
        odd = hosts > 1 and host == hosts - 1
        head = f"node{host:04d}:{7000 + local}:{8000 + local} [{local}] NCCL INFO "
        yield head + f"Bootstrap: Using eth0:10.1.{host // 250}.{host % 250}<0>"
        yield head + "cudaDriverVersion 13000"
        yield head + f"NCCL version {'2.27.5' if odd else '2.28.9'}+cuda13.0"
        cards = " ".join(f"[{i}]mlx5_{i}:1/IB" for i in range(per_host - odd))
        yield head + f"NET/IB : Using {cards} [RO]; OOB eth0:10.1.{host // 250}.{host % 250}<0>"
        yield head + "Using network IB"
        yield head + f"NCCL_IB_QPS_PER_CONNECTION set by environment to {4 if odd else 2}."
        yield head + (f"ncclCommInitRank comm 0x55{rank:06x} rank {rank} nranks {total} cudaDev {local} nvmlDev {local} busId {0x18000 + 0x1000 * local:x} "
                      "commId 0xabcdef0123456789 - Init START")
        yield head + f"comm 0x55{rank:06x} rank {rank} nRanks {total} nNodes {hosts} localRanks {per_host} localRank {local} MNNVL 0"
        after, before = (rank + 1) % total, (rank - 1) % total
        for channel in range(channels):
            for peer, mine in ((after, True), (before, False)):
                link = f"Channel {channel:02d}/0 : {rank if mine else peer}[{local}] -> {peer if mine else rank}[{peer % per_host}] "
                if peer // per_host == host:
                    if mine:
                        yield head + link + "via P2P/CUMEM"
                    continue
                tcp = {host, peer // per_host} == {0, hosts - 1} and hosts > 2
                yield head + link + f"[{'send' if mine else 'receive'}] via " + (f"NET/Socket/{local}" if tcp else f"NET/IB/{local}/GDRDMA")
        yield head + (f"ncclCommInitRank comm 0x55{rank:06x} rank {rank} nranks {total} cudaDev {local} nvmlDev {local} busId {0x18000 + 0x1000 * local:x} "
                      "commId 0xabcdef0123456789 - Init COMPLETE")


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    for line in lines(*numbers[:2], numbers[2] if len(numbers) > 2 else 8):
        print(line)
