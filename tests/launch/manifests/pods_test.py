#!/usr/bin/env python3
"""The jobs of launchers/kubernetes, acted out on the hosts of launchers/cluster.sh: each pod is a process tree with host name, processes, /dev/shm
of 64 MB, memory limit and /etc/hosts of its own, in which the name of the first pod appears late. Commands, arguments and environment are the
manifests'; what is changed is in `acted`. Ends with 77 (skipped) without root, python3-yaml, or where namespaces are not allowed.

    pods_test.py PROJECT BIN [JOB ...]     jobset, indexed-job, trainer, mpijob, notice, late, wrong; all without a name
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

try:
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}; install python3-yaml (launchers/setup.sh test)")
    sys.exit(77)

PROJECT, BIN = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
KUBERNETES, CLUSTER = PROJECT / "launchers" / "kubernetes", PROJECT / "launchers" / "cluster.sh"
TOKEN = "0123456789abcdef" * 4
RANKS = 2  # of a pod, instead of 8
SECONDS = 60  # for a job that takes 5
failures = 0


def fail(line):
    global failures
    failures += 1
    print("FAILED:", line)


def acted(words):
    """Words of a container as they are run here: programs of this build, fewer ranks, no GPUs, a model of a moment."""
    words = [word.replace("/opt/weft/bin/", f"{BIN}/") for word in words]
    for option, value in (("-n", str(RANKS)), ("-np", str(2 * RANKS)), ("--map-by", f"ppr:{RANKS}:node")):
        if option in words:
            words[words.index(option) + 1] = value
    if "--device" in words:
        at = words.index("--device")
        del words[at:at + 2]
    program = words[-1] if words[-1].endswith("gpt") else next(word for word in words if word.endswith(("/gpt", "/weft-scaling")))
    words += ["--model", "gpt-tiny", "--steps", "12"]
    return words + (["--text", "/usr/share/common-licenses/GPL-3"] if program.endswith("gpt") else ["--quiet"])


def documents(path):
    return {one["kind"]: one for one in yaml.safe_load_all((KUBERNETES / path).read_text())}


def environment(container, more):
    values = {}
    for entry in container.get("env", []):
        values[entry["name"]] = entry["value"] if "value" in entry else TOKEN
    return {**values, **more}


def expanded(words, values):
    """$(NAME), as the kubelet does it."""
    return [re.sub(r"\$\((\w+)\)", lambda found: values.get(found[1], found[0]), word) for word in words]


class Pods:
    """What pods have in common: a folder for their files, and a memory limit where this user can make one."""

    def __init__(self, work):
        self.work = pathlib.Path(work)
        (self.work / "nsswitch.conf").write_text("hosts: files\n")
        self.group = None
        for folder, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            group = pathlib.Path(folder, f"weft-pods-{os.getpid()}")
            if (pathlib.Path(folder) / "cgroup.procs").exists() and self.group is None:
                try:
                    group.mkdir()
                    (group / limit).write_text(str(2 << 30))
                    self.group = group
                except OSError:
                    continue
        if self.group is None:
            print("left out: the memory limit of pods, which this user cannot make")

    def close(self):
        if self.group is not None:
            try:
                self.group.rmdir()
            except OSError:
                pass

    def start(self, host, name, words, values, mounts=()):
        """A pod; its names are in the file WORK/NAME.hosts. With process 1 of its own, as in a container."""
        hosts = self.work / f"{name}.hosts"
        hosts.write_text(f"127.0.0.1 localhost\n{address(host)} {name}\n")
        script = [f"hostname {name}", "mount -t tmpfs -o size=64m tmpfs /dev/shm", f"mount --bind {hosts} /etc/hosts",
                  f"mount --bind {self.work}/nsswitch.conf /etc/nsswitch.conf"]
        script += [f"mkdir -p {at} && mount --bind {what} {at}" for what, at in mounts]
        script = f"set -e; {'; '.join(script)}; exec \"$@\""
        # ip netns exec hides the control groups, so the pod joins before.
        join = f"echo $$ > {self.group}/cgroup.procs && exec \"$@\"" if self.group else 'exec "$@"'
        line = ["sh", "-c", join, "pod", "ip", "netns", "exec", f"wefth{host}", "unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc",
                "sh", "-c", script, "pod", *words]
        values = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0", "HOME": "/root",
                  "WEFT_FLIGHT_DIR": "off", "KUBERNETES_SERVICE_HOST": "10.96.0.1", **values}
        out = open(self.work / f"{name}.out", "w")
        return subprocess.Popen(line, env=values, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)

    def name(self, pod, line):
        with open(self.work / f"{pod}.hosts", "a") as hosts:
            hosts.write(line + "\n")

    def output(self, pod):
        return (self.work / f"{pod}.out").read_text(errors="replace")


def address(host):
    return f"10.77.0.{10 + host}"


def end(process, seconds=SECONDS):
    """The status of a pod, or None: it was killed after so long."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def two_pods(pods, container, first_name, short, values=None, change=lambda words: words, late=2.0, mounts=()):
    """Starts both pods of a job; the name of the first appears so many seconds later in the second."""
    started = []
    for index in (0, 1):
        env = environment(container, {"JOB_COMPLETION_INDEX": str(index), **(values(index) if values else {})})
        words = change(acted(expanded(container["command"] + container["args"], env)))
        started.append(pods.start(index, f"{short}-{index}", words, env, mounts))
    pods.name(f"{short}-0", f"{address(0)} {first_name}")
    if late is not None:
        time.sleep(late)
        pods.name(f"{short}-1", f"{address(0)} {first_name}")
    return started


def expect(pods, job, started, names, status, words):
    found = [end(one) for one in started]
    output = "".join(pods.output(name) for name in names)
    if found != status or not re.search(words, output):
        fail(f"{job}: statuses {found}, not {status}, or no {words!r} in\n{output[-3000:]}")
        return False
    print("ok:", job)
    return True


def of(path, kind):
    """The container of a job's pods."""
    spec = documents(path)[kind]["spec"]
    if kind == "ClusterTrainingRuntime":
        spec = spec["template"]["spec"]
    inner = spec["replicatedJobs"][0]["template"]["spec"] if "replicatedJobs" in spec else spec
    return inner["template"]["spec"]["containers"][0]


def checkpoints(pods):
    folder = pods.work / "checkpoints"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return [(folder, "/checkpoints")]


def run_jobset(pods):
    container = of("base/jobset/jobset.yaml", "JobSet")
    started = two_pods(pods, container, "weft-node-0-0.weft", "weft-node-0", mounts=checkpoints(pods))
    expect(pods, "jobset", started, ["weft-node-0-0"], [0, 0], "loss")


def run_indexed(pods):
    container = of("base/indexed-job/job.yaml", "Job")
    started = two_pods(pods, container, "weft-0.weft", "weft", mounts=checkpoints(pods))
    expect(pods, "indexed-job", started, ["weft-0"], [0, 0], "loss")


def run_trainer(pods):
    def injected(index):  # by Trainer's policy `torch`
        return {"PET_NNODES": "2", "PET_NPROC_PER_NODE": str(RANKS), "PET_NODE_RANK": str(index), "PET_MASTER_ADDR": "weft-node-0-0.weft",
                "PET_MASTER_PORT": "29500"}
    container = of("base/trainer/runtime.yaml", "ClusterTrainingRuntime")
    started = two_pods(pods, container, "weft-node-0-0.weft", "weft-node-0", injected)
    expect(pods, "trainer", started, ["weft-node-0-0"], [0, 0], "ddp")


def run_wrong(pods):
    """A mistake in the arguments ends with 42 at once, which podFailurePolicy takes for the job's end."""
    container = of("base/jobset/jobset.yaml", "JobSet")
    started = two_pods(pods, container, "weft-node-0-0.weft", "weft-node-0", late=0,
                       change=lambda words: ["--stepps" if word == "--steps" else word for word in words])
    expect(pods, "wrong", started, ["weft-node-0-0"], [42, 42], "stepps")


def run_late(pods):
    """A name that never appears: the pod says so when its time is over, and is to be tried again."""
    container = of("base/indexed-job/job.yaml", "Job")
    started = two_pods(pods, container, "weft-0.weft", "weft", lambda _: {"WEFT_CONNECT_TIMEOUT": "2"}, late=None, mounts=checkpoints(pods))
    expect(pods, "late", started, ["weft-0", "weft-1"], [75, 75], r"rank 0 did not answer at weft-0.weft:29500 within 2")


def notified(pods, job, container, mounts):
    """Starts a long job, runs preStop of its second pod, and returns the step that was saved; all ranks are to end with 75."""
    names = ["weft-node-0-0", "weft-node-0-1"]
    started = two_pods(pods, container, "weft-node-0-0.weft", "weft-node-0", late=0, mounts=mounts,
                       change=lambda words: ["200000" if word == "12" else word for word in words])
    until = time.monotonic() + SECONDS
    while " steps, " not in pods.output(names[0]) and time.monotonic() < until and started[0].poll() is None:
        time.sleep(0.1)
    first = subprocess.run(["pgrep", "-P", str(started[1].pid)], capture_output=True, text=True).stdout.split()  # its process 1
    hook = container["lifecycle"]["preStop"]["exec"]["command"][0].replace("/opt/weft/kubernetes", str(KUBERNETES))
    notice = subprocess.run(["nsenter", "--target", first[0] if first else "0", "--mount", "--pid", hook], capture_output=True, text=True, timeout=SECONDS)
    if notice.returncode not in (0, -signal.SIGKILL) and "No such process" not in notice.stderr:  # it may end with the pod
        fail(f"notice.sh: {notice.returncode} {notice.stderr}")
    if not expect(pods, job, started, names, [75, 75], r"told to end: saved after step \d+"):
        return None
    return int(re.search(r"saved after step (\d+)", "".join(map(pods.output, names)))[1])


def run_notice(pods):
    """Preempted twice: the job goes on from where it was."""
    container = of("base/jobset/jobset.yaml", "JobSet")
    mounts = checkpoints(pods)
    first = notified(pods, "notice", container, mounts)
    second = notified(pods, "notice, again", container, mounts)
    if first is None or second is None or second <= first:
        fail(f"saved after step {first}, then after step {second}")


def run_mpijob(pods):
    """mpirun of the launcher reaches workers through what stands for ssh: no variable of a container comes along."""
    if shutil.which("mpirun") is None or "libmpi" not in subprocess.run(["ldd", str(BIN / "weft-scaling")], capture_output=True, text=True).stdout:
        print("left out: mpijob, in a build without Open MPI")
        return
    spec = documents("base/mpijob/mpijob.yaml")["MPIJob"]["spec"]["mpiReplicaSpecs"]
    launcher = spec["Launcher"]["template"]["spec"]["containers"][0]
    workers = [f"weft-worker-{index}.weft.default.svc" for index in (0, 1)]
    (pods.work / "hostfile").write_text("".join(f"{worker} slots={RANKS}\n" for worker in workers))
    agent = pods.work / "ssh"
    agent.write_text("#!/bin/sh\n" 'while [ "${1#-}" != "$1" ]; do [ "$1" = -o ] && shift; shift; done\n' "host=$1; shift\n"
                     "number=${host#weft-worker-}; number=${number%%.*}\n"
                     "exec env -i PATH=/usr/bin:/bin HOME=/root OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \\\n"
                     "  ip netns exec wefth$((number + 1)) unshare --mount --uts --ipc sh -c "
                     f"\"hostname $host; mount -t tmpfs -o size=64m tmpfs /dev/shm; mount --bind {pods.work}/workers.hosts /etc/hosts; $*\"\n")
    agent.chmod(0o755)
    names = "127.0.0.1 localhost\n" + "".join(f"{address(index + 1)} {worker}\n" for index, worker in enumerate(workers)) + f"{address(0)} weft-launcher\n"
    (pods.work / "workers.hosts").write_text(names)
    injected = {"OMPI_MCA_orte_keep_fqdn_hostnames": "true", "OMPI_MCA_orte_default_hostfile": f"{pods.work}/hostfile", "K_MPI_JOB_ROLE": "launcher",
                "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10", "OMPI_MCA_orte_set_default_slots": str(RANKS)}
    here = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_plm_rsh_agent": str(agent), "OMPI_MCA_plm": "rsh",
            "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_oob_tcp_if_include": "eth0", "LD_LIBRARY_PATH": ""}
    words = acted(launcher["command"] + launcher["args"])
    process = pods.start(0, "weft-launcher", words, environment(launcher, {**injected, **here}))
    for line in names.splitlines()[1:]:
        pods.name("weft-launcher", line)
    expect(pods, "mpijob", [process], ["weft-launcher"], [0], "ddp")


JOBS = {"jobset": run_jobset, "indexed-job": run_indexed, "trainer": run_trainer, "mpijob": run_mpijob, "notice": run_notice, "late": run_late,
        "wrong": run_wrong}


def main(names):
    if os.geteuid() != 0:
        print("skipped: network namespaces need root")
        return 77
    for program in ("nsenter", "unshare", "ip", "pgrep"):
        if shutil.which(program) is None:
            print(f"skipped: there is no {program}")
            return 77
    if "WEFT_PODS_ALONE" not in os.environ:  # a network of its own, beside which another cluster may be up
        alone = ["unshare", "--mount", "--net", "sh", "-c",
                 'mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns && ip link set lo up && exec "$@"', "alone", sys.executable, *sys.argv]
        probe = subprocess.run(alone[:5] + [alone[5].replace('exec "$@"', "true")], capture_output=True, text=True)
        if probe.returncode != 0:
            print("skipped:", probe.stderr.strip() or "no network namespace")
            return 77
        os.execvpe("unshare", alone, {**os.environ, "WEFT_PODS_ALONE": "1"})
    up = subprocess.run([CLUSTER, "up", "3", "1gbit"], capture_output=True, text=True)
    if up.returncode != 0:
        print("skipped:", up.stderr.splitlines()[0] if up.stderr else up.returncode)
        return 77
    work = tempfile.mkdtemp()
    pods = Pods(work)
    try:
        for name in names or JOBS:
            begun = time.monotonic()
            JOBS[name](pods)
            print(f"{name}: {time.monotonic() - begun:.1f} s")
    finally:
        subprocess.run([CLUSTER, "down"])
        pods.close()
        shutil.rmtree(work, ignore_errors=True)
    print(failures, "failed")
    return 1 if failures else 0


sys.exit(main(sys.argv[3:]))
