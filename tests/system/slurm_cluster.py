"""A real Slurm on loopback: munged, slurmctld and one slurmd a virtual node, without accounting.

Nothing of it outlives the ``with`` block, and it ends only what it started, by process id. Every
GPU is a link to /dev/null; a node can be made to register fewer than are configured.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from bigiron.host import Host

DAEMONS = ("munged", "slurmctld", "slurmd")
CLIENTS = ("scontrol", "sbatch", "squeue", "scancel", "sinfo")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
GPUS = 8


def unusable() -> str:
    """Why no cluster can be started here, "" if one can."""
    missing = [name for name in (*DAEMONS, *CLIENTS) if shutil.which(name, path=PATH) is None]
    if missing:
        return f"Slurm is not installed: no {', '.join(missing)}"
    try:
        address = socket.gethostbyname(socket.gethostname())
    except OSError:
        address = "nothing"
    if not address.startswith("127."):
        return f"the host's own name means {address}: slurmctld would not stay on loopback"
    return ""


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on just now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def wait_for(what: str, holds: Callable[[], bool], timeout_s: float = 30.0) -> None:
    """Until it holds. Raises TimeoutError naming what was waited for."""
    until = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > until:
            raise TimeoutError(f"{what}: not within {timeout_s:g} s")
        time.sleep(0.1)


class SlurmCluster:
    """Nodes n1 .. nN of eight GPUs each; ``fewer`` maps a node to how many it registers."""

    def __init__(self, nodes: int = 4, fewer: Mapping[str, int] | None = None) -> None:
        self.names = [f"n{number}" for number in range(1, nodes + 1)]
        self._fewer = fewer or {}
        self._folder = Path(tempfile.mkdtemp(prefix="slurm-test-", dir="/tmp"))
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def host(self) -> Host:
        """The door to this cluster's commands."""
        return Host(path=PATH, env={"SLURM_CONF": str(self._conf("etc"))})

    def run(self, *argv: str) -> str:
        """A client command's output."""
        return self.host.run(argv, timeout_s=30.0)

    def submit(self, script: str, *options: str) -> str:
        """Queue a shell script; its job id."""
        out = str(self._folder / "job-%j.out")
        argv = ["sbatch", "--parsable", f"--output={out}", "--chdir=/tmp", *options]
        return self.run(*argv, f"--wrap={script}").strip().split(";")[0]

    def stop_node(self, name: str) -> None:
        """Kill a node's slurmd, as a crash would."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def __enter__(self) -> "SlurmCluster":
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def _conf(self, folder: str) -> Path:
        return self._folder / folder / "slurm.conf"

    def _start(self) -> None:
        self._folder.chmod(0o755)
        for name in ("etc", "log", "state", "spool", "dev", "munge"):
            (self._folder / name).mkdir()
        for number in range(GPUS):
            (self._folder / "dev" / f"nvidia{number}").symlink_to("/dev/null")
        self._configure()
        self._start_munge()
        self._spawn("slurmctld", ["slurmctld", "-D"], "etc")
        wait_for("slurmctld", lambda: self._answers("scontrol", "ping"))
        for name in self.names:
            (self._folder / "spool" / name).mkdir()
            folder = f"etc-{name}" if name in self._fewer else "etc"
            self._spawn(name, ["slurmd", "-D", "-N", name], folder)
        wait_for("nodes", self._registered)

    def _start_munge(self) -> None:
        folder = self._folder / "munge"
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        names = {"key-file": key, "socket": folder / "socket", "pid-file": folder / "pid"}
        names |= {"log-file": folder / "log", "seed-file": folder / "seed"}
        options = [f"--{name}={path}" for name, path in names.items()]
        self._spawn("munged", ["munged", "--foreground", *options], "etc")
        wait_for("munged", (folder / "socket").exists)

    def _configure(self) -> None:
        ports = free_ports(len(self.names) + 1)
        for folder in ("etc", *(f"etc-{name}" for name in self._fewer)):
            (self._folder / folder).mkdir(exist_ok=True)
            self._conf(folder).write_text(self._slurm_conf(ports), "utf-8")
            count = self._fewer.get(folder.removeprefix("etc-"), GPUS)
            devices = f"{self._folder}/dev/nvidia[0-{count - 1}]"
            line = f"Name=gpu Type=h100 File={devices}\n"
            self._conf(folder).with_name("gres.conf").write_text(line, "utf-8")

    def _slurm_conf(self, ports: Sequence[int]) -> str:
        folder = self._folder
        user = Path(f"/proc/{os.getpid()}").owner()
        settings = {
            "ClusterName": "test",
            "SlurmctldHost": f"{socket.gethostname().split('.')[0]}(127.0.0.1)",
            "SlurmctldPort": ports[0],
            "SlurmUser": user,
            "SlurmdUser": user,
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={folder}/munge/socket,cred_expire=10",
            "StateSaveLocation": folder / "state",
            "SlurmdSpoolDir": f"{folder}/spool/%n",
            "SlurmctldPidFile": folder / "slurmctld.pid",
            "SlurmdPidFile": f"{folder}/slurmd-%n.pid",
            "SlurmctldLogFile": folder / "log/slurmctld.log",
            "SlurmdLogFile": f"{folder}/log/slurmd-%n.log",
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            "MpiDefault": "none",
            "JobAcctGatherType": "jobacct_gather/none",
            "AccountingStorageType": "accounting_storage/none",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_Core",
            "SchedulerParameters": "bf_interval=2,batch_sched_delay=0",
            "GresTypes": "gpu",
            "SlurmdParameters": "config_overrides",
            "CommunicationParameters": "NoAddrCache,NoInAddrAny,NoCtldInAddrAny",
            "MessageTimeout": 4,
            "TCPTimeout": 1,
            "SlurmdTimeout": 6,
            "KillWait": 2,
            "ReturnToService": 1,
        }
        lines = [f"{name}={value}" for name, value in settings.items()]
        shape = f"CPUs=96 Sockets=2 CoresPerSocket=48 RealMemory=1000 Gres=gpu:h100:{GPUS}"
        for name, port in zip(self.names, ports[1:], strict=True):
            where = f"NodeAddr=127.0.0.1 NodeHostname={socket.gethostname()} Port={port}"
            lines.append(f"NodeName={name} {where} {shape} Feature=h100 State=UNKNOWN")
        lines.append("PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
        return "\n".join(lines) + "\n"

    def _spawn(self, name: str, argv: Sequence[str], conf: str) -> None:
        path = shutil.which(argv[0], path=PATH)
        assert path is not None
        log = (self._folder / "log" / f"{name}.out").open("wb")
        env = {"PATH": PATH, "SLURM_CONF": str(self._conf(conf)), "LC_ALL": "C"}
        with log:
            self._running[name] = subprocess.Popen(
                [path, *argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=env,
                cwd=self._folder / "log",
            )

    def _answers(self, *argv: str) -> bool:
        env = {"PATH": PATH, "SLURM_CONF": str(self._conf("etc")), "LC_ALL": "C"}
        path = shutil.which(argv[0], path=PATH)
        done = subprocess.run(
            [path or argv[0], *argv[1:]], env=env, capture_output=True, timeout=30, check=False
        )
        return done.returncode == 0

    def _registered(self) -> bool:
        states = self.run("sinfo", "--noheader", "--Node", "--format=%T").split()
        return len(states) == len(self.names) and not any(
            "unk" in state or "*" in state or "down" in state for state in states
        )

    def _stop(self) -> None:
        if "slurmctld" in self._running:
            self._answers("scancel", f"--user={Path(f'/proc/{os.getpid()}').owner()}")
            self._settle()
        for name in reversed(list(self._running)):
            self._end(self._running.pop(name))
        shutil.rmtree(self._folder, ignore_errors=True)

    def _settle(self) -> None:
        """Wait until cancelled jobs have left their nodes: their steps outlive a slurmd."""
        until = time.monotonic() + 10.0
        while time.monotonic() < until:
            if not self._answers("squeue", "--noheader") or not self.run("squeue", "-h").strip():
                return
            time.sleep(0.2)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
