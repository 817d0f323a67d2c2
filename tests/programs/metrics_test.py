#!/usr/bin/env python3
"""The figures of a real run, as promtool and a Prometheus see them; alerts, dashboard, and what scrapers and wrong options do to a run.

usage: metrics_test.py WEFT_SCALING WEFT_LAUNCH SOURCE_FOLDER
Ends with 77 where there is no promtool or no prometheus (Debian: prometheus), after the checks that need neither.
"""
import atexit
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

scaling, launch, source = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
folder = source / "launchers/prometheus"
work = pathlib.Path(tempfile.mkdtemp())
failures = 0
PATIENCE = 120


def fail(what):
    global failures
    failures += 1
    print("FAILED:", what)


def expect(holds, what):
    fail(what) if not holds else print("ok:", what)


def free_ports(count):
    """The first of so many ports in a row that nobody has."""
    while True:
        with socket.socket() as first:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
        try:
            for each in range(port, port + count):
                with socket.socket() as one:
                    one.bind(("127.0.0.1", each))
            return port
        except (OSError, OverflowError):
            continue


def get(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read().decode()


def wait_for(what, condition):
    """What the condition gives once it gives something."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            if found := condition():
                return found
        except (OSError, ValueError):
            pass
        time.sleep(0.2)
    raise SystemExit(f"FAILED: {what} did not come within {PATIENCE} s")


def figures(page):
    """{(name, labels): value}"""
    result = {}
    for line in page.splitlines():
        if match := re.fullmatch(r'(\w+)\{(.*)\} (\S+)', line):
            labels = tuple(sorted(re.findall(r'(\w+)="([^"]*)"', match[2])))
            result[match[1], labels] = float(match[3])
    return result


def total(page, name):
    return sum(value for (one, _), value in figures(page).items() if one == name)


class Run:
    """weft-scaling on two ranks, which serve."""

    def __init__(self, *options, steps=100000):
        self.port = free_ports(2)
        self.out = open(work / "run.out", "w+")
        command = [launch, "-n", "2", scaling, "--model", "gpt-tiny", "--text", work / "text.txt", "--steps", str(steps), "--metrics", str(self.port), *options]
        self.process = subprocess.Popen(command, stdout=self.out, stderr=subprocess.STDOUT)
        atexit.register(lambda: self.process.poll() is None and self.process.terminate())

    def page(self, rank):
        return get(f"http://127.0.0.1:{self.port + rank}/metrics")

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)
        self.out.seek(0)
        return self.out.read()


def refused(what, pattern, *options, before=(), status=42):
    """The run ends by itself, and says why."""
    done = subprocess.run([*before, scaling, "--model", "gpt-tiny", "--text", work / "text.txt", "--steps", "5", *options],
                          capture_output=True, text=True, timeout=PATIENCE)
    holds = done.returncode == status and re.search(pattern, done.stdout + done.stderr)
    expect(holds, what)
    if not holds:
        print(done.returncode, done.stdout, done.stderr)


def check_figures():
    run = Run("--strategies", "ddp,ddp+bf16")
    pages = wait_for("a page with accounts", lambda: [page for rank in (0, 1) if total(page := run.page(rank), "weft_accounted_steps_total") > 20])
    pages = [run.page(rank) for rank in (0, 1)]
    for rank, page in enumerate(pages):
        every = figures(page)
        expect(every and all(("rank", str(rank)) in labels for _, labels in every), f"rank {rank}: every sample has its rank")
        steps, seconds = total(page, "weft_steps_total"), total(page, "weft_step_seconds_sum")
        exposed, waited = total(page, "weft_exposed_seconds_total"), total(page, "weft_late_wait_seconds_total")
        expect(steps > 20 and total(page, "weft_step_seconds_count") == steps, f"rank {rank}: {steps} steps")
        expect(0 < exposed < seconds, f"rank {rank}: exposed {exposed} s of {seconds} s")
        expect(0 <= waited < seconds and total(page, "weft_late_seconds_total") <= total(page, "weft_arrival_skew_seconds_total"), f"rank {rank}: lateness")
        # The wire is inline or has a thread, as there are cores: with the first, none of what it carries is hidden.
        overlap, busy = total(page, "weft_overlap_seconds_total"), total(page, "weft_link_busy_seconds_total")
        expect(0 <= overlap <= busy and 0 < busy < seconds, f"rank {rank}: overlap {overlap} s of {busy} s")
        raw, wire = total(page, "weft_gradient_raw_bytes_total"), total(page, "weft_gradient_wire_bytes_total")
        # Half of the steps send f32 and half bf16, in turns of five: between 1 and 2, and about 4/3.
        expect(1.1 < raw / wire < 1.6, f"rank {rank}: a compression of {raw / wire}")
        expect(total(page, "weft_wire_bytes_total") >= wire, f"rank {rank}: gradients are a part of what is sent")
        expect(total(page, "weft_operation_number") > 20, f"rank {rank}: operations have numbers")
    return run, pages


def check_ledger():
    """What is sent of gradients is what the program's own ledger says of a step."""
    run = Run("--strategies", "ddp", "--json", work / "run.json", steps=200)
    seen = []
    while run.process.poll() is None:
        try:
            page = run.page(0)
            seen.append((total(page, "weft_steps_total"), total(page, "weft_gradient_wire_bytes_total")))
        except OSError:
            pass
        time.sleep(0.05)
    expect(run.process.returncode == 0, "a run that is scraped all the time ends well")
    each = json.loads((work / "run.json").read_text())["runs"][0]["wire_bytes_per_step"]
    seen = [(steps, sent) for steps, sent in seen if steps > 0]
    # A step is counted when it is over, and its bytes before.
    expect(seen and each > 0 and all(steps * each <= sent <= (steps + 1) * each for steps, sent in seen), f"{each} bytes a step, as in the ledger, in {len(seen)} scrapes")
    if failures:
        print(each, seen[:5])


def check_parts():
    """A pipeline, and optimizer state on the host."""
    run = Run("--strategies", "zero2+offload,pipeline:1f1b")
    page = wait_for("steps of a pipeline", lambda: total(page := run.page(1), "weft_pipeline_steps_total") > 10 and page)
    waits, seconds = total(page, "weft_pipeline_wait_seconds_total"), total(page, "weft_pipeline_seconds_total")
    expect(0 < waits < seconds, f"a pipeline waits {waits} s of {seconds} s")
    every = figures(page)
    parameters = every["weft_exposed_seconds_total", (("rank", "1"), ("wait", "parameters"))]
    expect(parameters > 0 and 0 <= total(page, "weft_offload_stall_seconds_total") <= total(page, "weft_exposed_seconds_total"), f"parameters are waited for: {parameters} s")
    expect(every["weft_wire_bytes_total", (("op", "send_receive"), ("rank", "1"))] > 0, "activations are sent")
    run.end()


def check_disturbances(run):
    silent = [socket.create_connection(("127.0.0.1", run.port)) for _ in range(60)]
    for one in silent[::2]:
        one.sendall(b"GET /metr")
    expect("weft_info" in run.page(0), "half-open connections keep nobody out")
    with socket.create_connection(("127.0.0.1", run.port)) as one:
        one.sendall(b"\x16\x03\x01 what is this\r\n\r\n")
        expect(b"400 Bad Request" in one.recv(1000), "rubbish is answered with 400")
    before = total(run.page(0), "weft_steps_total")
    wait_for("more steps", lambda: total(run.page(0), "weft_steps_total") > before + 5)
    print("ok: it trains on meanwhile")
    for one in silent:
        one.close()


def check_refusals():
    port = free_ports(2)
    two = (launch, "-n", "2")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port + 1))
        taken.listen()
        refused("a port that is taken, by rank 1 alone", rf"rank 1.*127.0.0.1:{port + 1}: Address already in use.*choose another port", "--metrics", str(port), before=two)
    refused("an address of another machine", "192.0.2.7:9400.*address of this machine", "--metrics", "9400", "--metrics-bind", "192.0.2.7")
    refused("an address that is none", "'lo', which is not an IP address", "--metrics", "9400", "--metrics-bind", "lo")
    refused("no port for rank 1", "65535, and on 65536 for rank 1 of its node", "--metrics", "65535", before=two)
    refused("port 0", "--metrics 0 is not a number from 1 to 65535", "--metrics", "0")
    refused("a port that is no number", "--metrics", "--metrics", "many")
    refused("an address without a port", "--metrics-bind.*--metrics is not given", "--metrics-bind", "127.0.0.1")
    refused("a port, and no other address", "serves metrics on http://127.0.0.1:", "--metrics", str(port), status=0)
    refused("any address", f"serves metrics on http://0.0.0.0:{port}/metrics", "--metrics", str(port), "--metrics-bind", "0.0.0.0", status=0)
    refused("an address of IPv6", rf"serves metrics on http://\[::1\]:{port}/metrics|Address family not supported|Cannot assign", "--metrics", str(port), "--metrics-bind", "::1", status=0) if pathlib.Path("/proc/net/if_inet6").exists() else None


def promtool(*arguments, text=None):
    return subprocess.run(["promtool", *map(str, arguments)], input=text, capture_output=True, text=True)


def expressions():
    """Of the dashboard, as Grafana sends them."""
    board = json.loads((folder / "grafana-dashboard.json").read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m").replace("$job", "weft")


def check_rules(pages):
    done = promtool("check", "rules", folder / "weft-alerts.yml")
    expect(done.returncode == 0, "promtool accepts the alerts " + done.stderr)
    done = promtool("test", "rules", folder / "weft-alerts_test.yml")
    expect(done.returncode == 0, "every alert fires when its test says " + done.stdout + done.stderr)
    rules = (folder / "weft-alerts.yml").read_text()
    tests = (folder / "weft-alerts_test.yml").read_text()
    page = (source / "docs/metrics.md").read_text()
    names = re.findall(r"- alert: (\w+)", rules)
    expect(len(names) >= 10, f"{len(names)} alerts")
    head, *blocks = re.split(r"(?m)^(?=  - name: )", tests)
    for name in names:
        for which in ("fires", "near miss"):
            expect(tests.count(f"- name: {name} {which}\n") == 1, f"{name} has a test: {which}")
        expect(f"| `{name}` |" in page, f"{name} is in docs/metrics.md")
        # Without its expression its own tests must notice, whichever way it is wrong.
        own = "".join(block for block in blocks if block.startswith(f"  - name: {name} "))
        (work / "weft-alerts_test.yml").write_text(head + own)
        (work / "weft-alerts.yml").write_text(rules)
        expect(promtool("test", "rules", work / "weft-alerts_test.yml").returncode == 0, f"{name} passes its own tests")
        for wrong in ("vector(0) > 1", "up or weft_steps_total or {__name__=~'weft.*'}"):
            at = rules.index(f"- alert: {name}\n")
            before, of_this = rules[:at], rules[at:]
            of_this = re.sub(r"expr: .*?(?=\n        for:)", f'expr: "{wrong}"', of_this, count=1, flags=re.S)
            (work / "weft-alerts.yml").write_text(before + of_this)
            if promtool("test", "rules", work / "weft-alerts_test.yml").returncode == 0:
                fail(f"{name} with the expression {wrong} passes its test")
    known = {name for name, _ in figures(pages[0])} | {"up", "weft_loss_scale", "weft_gradient_norm", "weft_watch_findings", "weft_watch_up"}
    texts = dict(expressions())
    groups = {"groups": [{"name": "dashboard", "rules": [{"record": f"panel:{i}", "expr": expr} for i, (_, expr) in enumerate(expressions())]}]}
    (work / "dashboard.yml").write_text(json.dumps(groups))  # JSON is YAML
    done = promtool("check", "rules", work / "dashboard.yml")
    expect(done.returncode == 0 and len(texts) > 10, f"promtool accepts {len(texts)} panels " + done.stderr)
    for what, text in [("alerts", rules), ("dashboard", json.dumps(groups))]:
        unknown = set(re.findall(r"\bweft_\w+", text)) - known
        expect(not unknown, f"the {what} name figures that are served {unknown or ''}")
    done = promtool("check", "config", "--syntax-only", folder / "prometheus.yml")
    expect(done.returncode == 0, "promtool accepts prometheus.yml " + done.stderr)
    for rank, one in enumerate(pages):
        done = promtool("check", "metrics", text=one)
        expect(done.returncode == 0 and not done.stderr, f"promtool accepts the figures of rank {rank} " + done.stdout + done.stderr)
    expect(promtool("check", "metrics", text="rubbish{").returncode != 0, "promtool refuses rubbish")


def check_prometheus(run):
    """Debian's Prometheus scrapes both ranks, and answers a query with both."""
    port = free_ports(1)
    (work / "prometheus.yml").write_text(json.dumps({
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [str(folder / "weft-alerts.yml")],
        "scrape_configs": [{"job_name": "weft", "static_configs": [{"targets": [f"127.0.0.1:{run.port}", f"127.0.0.1:{run.port + 1}"]}]}]}))
    log = open(work / "prometheus.log", "w")
    server = subprocess.Popen(["prometheus", f"--config.file={work}/prometheus.yml", f"--storage.tsdb.path={work}/data", f"--web.listen-address=127.0.0.1:{port}"],
                              stdout=log, stderr=subprocess.STDOUT)
    try:
        def query(text):
            return json.loads(get(f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": text})))["data"]["result"]

        found = wait_for("both ranks in Prometheus", lambda: (rows := query("rate(weft_steps_total[10s]) > 0")) and len(rows) == 2 and rows)
        expect({row["metric"]["rank"] for row in found} == {"0", "1"}, "a query of Prometheus returns both ranks")
        for title, expr in expressions():
            if not any(word in expr for word in ("pipeline", "loss_scale", "gradient_norm", "histogram")):
                expect(query(expr.replace("[5m]", "[10s]")), f"the panel {title} has data")
        shares = query("rate(weft_exposed_seconds_total{wait='gradients'}[10s]) / on (rank) rate(weft_step_seconds_sum[10s])")
        expect(len(shares) == 2 and all(0 <= float(row["value"][1]) <= 1 for row in shares), "exposed shares are shares")
        def evaluated():
            groups = json.loads(get(f"http://127.0.0.1:{port}/api/v1/rules"))["data"]["groups"]
            return groups and all(rule["health"] != "unknown" for rule in groups[0]["rules"]) and groups[0]["rules"]

        rules = wait_for("evaluated rules", evaluated)
        expect(all(rule["health"] != "err" for rule in rules), "Prometheus evaluates every alert")
    finally:
        server.kill()  # a graceful end writes its data first
        server.wait(PATIENCE)


def main():
    (work / "text.txt").write_bytes(os.urandom(30000).hex().encode())
    run, pages = check_figures()
    check_disturbances(run)
    has_tools = shutil.which("promtool") and shutil.which("prometheus")
    if has_tools:
        check_prometheus(run)
    out = run.end()
    expect(run.process.returncode == 130, f"Ctrl-C ends a run that serves: {run.process.returncode}")
    if run.process.returncode != 130:
        print(out)
    if has_tools:  # after the run, which would take the cores from promtool
        check_rules(pages)
    check_parts()
    check_ledger()
    check_refusals()
    shutil.rmtree(work)
    if failures:
        return 1
    if not has_tools:
        print("skipped: no promtool or no prometheus here (Debian: prometheus): rules, dashboard and a scrape are not checked")
        return 77
    return 0


sys.exit(main())
