"""Weir inside a guest of QEMU, between two emulated network cards, with a second guest as the router.

    python bench/guests.py [--cards virtio-net-pci e1000e] [--out build/guests]

Both guests run Debian's kernel, emulated (TCG); sockets are the cables. The tester's guest sees the files of
this machine, and keeps its changes in memory: so it runs Weir from this tree. It checks the device, measures
a trial and a small profile, and ends another trial by ``kill -9``; each time it compares its ports,
namespaces, control groups and processes with those before. Rates and delays of emulated CPUs mean nothing,
but counts do. Needs root, QEMU 7.2 and Debian's archive, for the kernel.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from machine import versions
from weirlab.lab.linux.inventory import look
from weirlab.lab.machines import building
from weirlab.lab.machines.root import Archive
from weirlab.store import Store

KERNEL: Final = "linux-image-amd64"
CARDS: Final = {"virtio-net-pci": "virtio_net", "e1000e": "e1000e"}
"""Network cards of the tester's guest, and their drivers."""
MODULES: Final = ("virtio_pci", "9pnet_virtio", "9p", "overlay", *CARDS.values())
PORTS: Final = ("eth0", "eth1")
RAMP_FRAMES: Final = 1_100
"""A tenth of a second at 1,000 and at 10,000 packets/s."""
LOADS: Final = "5%,10%,20%,50%,120%"
SHARED: Final = Path("/mnt")
"""Where the tester's guest leaves its results."""
PATIENCE_S: Final = 1500.0
TRIED_S: Final = 120.0
LINK_S: Final = 20.0

INIT: Final = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev
while read module; do insmod "$module"; done < /modules
if grep -q role=router /proc/cmdline; then
  net=18
  for port in eth0 eth1; do
    ip link set $port up; ip addr add 198.$net.0.1/16 dev $port; net=$((net + 1))
  done
  echo 1 > /proc/sys/net/ipv4/ip_forward
  echo READY
  while :; do sleep 1000; done
fi
options=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o $options,ro,cache=loose files /files
mount -t tmpfs t /changes; mkdir /changes/upper /changes/work
mount -t overlay -o lowerdir=/files,upperdir=/changes/upper,workdir=/changes/work o /whole
for each in proc sys dev; do mount --move /$each /whole/$each; done
for each in run tmp; do mount -t tmpfs t /whole/$each; done
mkdir /whole/run/lock; mount -t bpf b /whole/sys/fs/bpf; mount -t cgroup2 c /whole/sys/fs/cgroup
mount -t 9p -o $options results /whole/mnt
exec switch_root /whole /bin/sh -c '
  export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
  @INSIDE@
  sync; echo o > /proc/sysrq-trigger; while :; do :; done'
"""


def boot_files(out: Path) -> tuple[Path, Path]:
    """The kernel, and an archive of the modules that both guests load."""
    store, unpacked = out / "packages", out / "unpacked"
    store.mkdir(parents=True, exist_ok=True)
    kernels = [each for each in building.find(KERNEL, []) if each.name.startswith("linux-image")]
    building.download(kernels, store)
    shutil.rmtree(unpacked, ignore_errors=True)
    unpacked.mkdir()
    building.unpack(kernels, store, unpacked)
    (image,) = unpacked.glob("boot/vmlinuz-*")
    release = image.name.removeprefix("vmlinuz-")
    output(["depmod", "-b", str(unpacked), release])
    listed = output(["modprobe", "-d", str(unpacked), "-S", release, "-a", "--show-depends", *MODULES])
    wanted = dict.fromkeys(line.split()[1] for line in listed.splitlines() if line.startswith("insmod"))
    inside = shlex.join([sys.executable, str(Path(__file__).resolve()), "--inside"])
    archive = Archive()
    for folder in ("proc", "sys", "dev", "files", "changes", "whole"):
        archive.add_folder(folder)
    archive.add_file("bin/busybox", Path("/usr/bin/busybox").read_bytes(), 0o755)
    archive.add_file("init", INIT.replace("@INSIDE@", inside).encode(), 0o755)
    for path in wanted:
        archive.add_file(f"lib/{Path(path).name}", Path(path).read_bytes())
    archive.add_file("modules", "".join(f"/lib/{Path(path).name}\n" for path in wanted).encode())
    with (out / "initramfs").open("wb") as file:
        archive.write(file)
    return image, out / "initramfs"


def output(command: Sequence[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def guest(out: Path, name: str, card: str, *, listens: bool, files: tuple[Path, Path]) -> list[str]:
    """QEMU's command for the guest ``name``."""
    kernel, archive = files
    words = ["qemu-system-x86_64", "-machine", "q35", "-cpu", "max", "-accel", "tcg,thread=multi"]
    words += ["-display", "none", "-nodefaults", "-no-reboot", "-serial", f"file:{out / name}.log"]
    words += ["-kernel", str(kernel), "-initrd", str(archive)]
    words += ["-append", f"console=ttyS0 quiet panic=-1 role={name}"]
    for number in range(len(PORTS)):
        where = f"addr.type=unix,addr.path={out}/cable{number}"
        server = "on" if listens else "off"
        words += ["-netdev", f"stream,id=net{number},server={server},{where}"]
        mac = f"52:54:00:00:{'00' if listens else '11'}:{number:02}"
        words += ["-device", f"{card},netdev=net{number},mac={mac}"]
    if name == "tester":
        words += ["-m", "2048", "-smp", "3"]
        for tag, path, mode in (("files", "/", ",readonly=on"), ("results", str(out / "results"), "")):
            shared = f"local,path={path},mount_tag={tag},security_model=none,multidevs=remap{mode}"
            words += ["-virtfs", shared]
    else:
        words += ["-m", "256"]
    return words


def measured(out: Path, card: str, files: tuple[Path, Path]) -> dict[str, Any]:
    """What the tester's guest found with ``card``, and how long all took."""
    shutil.rmtree(out, ignore_errors=True)
    (out / "results").mkdir(parents=True)
    begun = time.monotonic()
    router = subprocess.Popen(guest(out, "router", "virtio-net-pci", listens=True, files=files))
    try:
        while not all((out / f"cable{number}").exists() for number in range(len(PORTS))):
            if router.poll() is not None or time.monotonic() > begun + TRIED_S:
                sys.exit("QEMU does not start the router's guest")
            time.sleep(0.1)
        tester = guest(out, "tester", card, listens=False, files=files)
        subprocess.run(tester, check=True, timeout=PATIENCE_S)
    finally:
        router.terminate()
        router.wait()
    found: dict[str, Any] = json.loads((out / "results/result.json").read_text())
    found["seconds"] = round(time.monotonic() - begun)
    store = Store(out / "results/store")
    profile = next(run for run in store.runs() if run.kind == "profile")
    trials = store.open(profile.run_id).trials()
    found["attempts"] = [
        {
            **{name: row[name] for name in ("label", "rate_text", "sent", "sent_warmup", "received", "lost")},
            **{name: row[name] for name in ("duplicated", "valid", "invalid", "backend", "left_out_s")},
            "counters": json.loads(row["dut_counters"]),
        }
        for row in trials.to_dicts()
    ]
    return found


def complaints(found: dict[str, Any]) -> list[str]:
    """What is wrong with the results of a guest."""
    wrong = []
    for step in found["steps"]:
        if step["left"]:
            wrong.append(f"{step['command']} leaves {step['left']}")
        if step["document"] is None:
            wrong.append(f"{step['command']} fails: {step['said']}")
    for attempt in found["attempts"]:
        counters = attempt["counters"]
        sent = attempt["sent"] + attempt["sent_warmup"]
        left = counters["tx_tx_packets"] + counters["tx_refused"]
        what = f"{attempt['rate_text']}, {attempt['sent']} sent"
        # Before the first high load come lower ones, which are no part of the attempt.
        if left < sent or (left > sent + RAMP_FRAMES and not attempt["left_out_s"]):
            wrong.append(f"{what}: the port counts {left} of {sent}, refused ones included")
        if attempt["duplicated"] or attempt["received"] > counters["rx_rx_packets"]:
            wrong.append(f"{what}: {attempt['received']} received, {counters['rx_rx_packets']} at the port")
    return wrong


def inside() -> None:
    """What the tester's guest does."""
    output(["ip", "link", "set", "lo", "up"])
    output(["ip", "link", "set", PORTS[1], "up"])
    Path("/proc/sys/net/ipv4/conf", PORTS[0], "rp_filter").write_text("2")
    between, store = ["--between", *PORTS], Path("/tmp/store")
    plan = ["--quick", "--machine", "noisy", "--frame", "256", "--loads", LOADS, "--repetitions", "2"]
    budget = ["--time-budget", "5min"]
    steps = [
        step("ports"),
        step("check", *between),
        killed("trial", *between, "--yes", "--rate", "500pps", "--duration", "60"),
        step("trial", *between, "--yes", "--rate", "500pps"),
        step("trial", *between, "--yes", "--rate", "500pps", "--senders", "2", "--flows", "8"),
        step("profile", *between, "--yes", *plan, *budget),
    ]
    shutil.copytree(store, SHARED / "store")
    (SHARED / "result.json").write_text(json.dumps({"kernel": os.uname().release, "steps": steps}, indent=1))


def weir(*words: str) -> list[str]:
    return [sys.executable, "-m", "weirlab", "--store", "/tmp/store", *words]


def step(*words: str) -> dict[str, Any]:
    """A command, its answer, and what it leaves behind."""
    print("weir", *words, flush=True)
    before, begun = state(), time.monotonic()
    done = subprocess.run(weir(*words, "--json"), capture_output=True, text=True, check=False)
    try:
        document = json.loads(done.stdout)
    except ValueError:
        document = None
    return {
        "command": " ".join(words),
        "seconds": round(time.monotonic() - begun, 1),
        "exit_code": done.returncode,
        "said": done.stderr[-2000:],
        "document": document,
        "left": difference(before, state()),
    }


def killed(*words: str) -> dict[str, Any]:
    """A command that is killed while it sends, and what ``weir lab clean`` leaves of it."""
    before = state()
    running = subprocess.Popen(weir(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + TRIED_S
    while any(Path("/sys/class/net", port).exists() for port in PORTS) and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(10)
    running.send_signal(signal.SIGKILL)
    running.wait()
    between = difference(before, state())
    found = step("lab", "clean")
    return {**found, "command": f"{' '.join(words)}, killed", "left_by_kill": between} | {
        "left": difference(before, state())
    }


def state() -> dict[str, Any]:
    """What a command must leave as it was, once the link of the port that is up has come back."""
    end = time.monotonic() + LINK_S
    while PORTS[1] in (known := look()) and not known[PORTS[1]].carrier and time.monotonic() < end:
        time.sleep(0.2)
    found: dict[str, Any] = {name: vars(facts) for name, facts in look().items()}
    for port in PORTS:
        sysctls = Path("/proc/sys/net/ipv4/conf", port)
        if sysctls.exists():
            found[f"sysctls of {port}"] = {path.name: path.read_text() for path in sysctls.iterdir()}
    found["routes"] = output(["ip", "-4", "-j", "route", "show", "table", "all"])
    found["namespaces"] = sorted(path.name for path in Path("/run/netns").glob("*"))
    found["control groups"] = sorted(str(path) for path in Path("/sys/fs/cgroup").rglob("*") if path.is_dir())
    found["locks"] = sorted(path.name for path in Path("/run/weir").glob("*"))
    commands = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline"))
    found["processes"] = sorted(command.decode().replace("\0", " ") for command in commands if command)
    return found


def difference(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What differs, by name."""
    return sorted(name for name in before | after if before.get(name) != after.get(name))


def main() -> None:
    """Run both guests with every card, and compare the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("build/guests"))
    parser.add_argument("--cards", nargs="+", choices=list(CARDS), default=list(CARDS))
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside:
        inside()
        return
    out = asked.out.resolve()
    files = boot_files(out)
    summary: dict[str, Any] = {"versions": versions(), "cards": {}}
    wrong = []
    for card in asked.cards:
        found = measured(out / card, card, files)
        summary["cards"][card] = found
        own = [f"{card}: {each}" for each in complaints(found)]
        wrong += own
        valid = sum(attempt["valid"] for attempt in found["attempts"])
        backends = {attempt["backend"] for attempt in found["attempts"]}
        frames = sum(attempt["sent"] for attempt in found["attempts"])
        print(
            f"{card}: {len(found['attempts'])} attempts ({valid} valid) with {frames:,} frames by "
            f"{' and '.join(sorted(backends))} in {found['seconds']} s; {len(own)} complaints",
            flush=True,
        )
    summary["wrong"] = wrong
    (out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
