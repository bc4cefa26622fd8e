#!/bin/sh
# torch 2.13.0
#
# Loading processes of a DataLoader look every five seconds whether the process that made them is still there, by
# os.getppid(). With the start method forkserver, the default of Python 3.14 on Linux, their parent is the fork server.
# That server ends when nobody holds its pipe any more, and each loading process holds it. So if the training process is
# killed by SIGKILL, as by the system when memory is short, its loading processes and the fork server stay for good,
# with their memory. With fork and spawn they end within some seconds.
# Seen, 60 s after the kill: fork 0, spawn 0, forkserver 2 of 2 loading processes.
# Way out: in worker_init_fn, a thread that waits for multiprocessing.parent_process() and then calls os._exit().
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet torch==2.13.0 numpy==2.3.5
cd "$work"
cat > load.py <<'PYTHON'
import multiprocessing
import sys
import time

from torch.utils.data import DataLoader

if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    batches = iter(DataLoader(range(1000), num_workers=2, persistent_workers=True))
    next(batches)
    print(*(child.pid for child in multiprocessing.active_children()), flush=True)
    time.sleep(600)
PYTHON
cat > kill.py <<'PYTHON'
import os
import signal
import subprocess
import sys
import time


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


left = {}
for method in ("fork", "spawn", "forkserver"):
    training = subprocess.Popen([sys.executable, "load.py", method], stdout=subprocess.PIPE)
    workers = [int(pid) for pid in training.stdout.readline().split()]
    assert len(workers) == 2, workers
    training.kill()
    training.wait()
    time.sleep(60)
    left[method] = [pid for pid in workers if runs(pid)]
    for pid in left[method]:
        os.kill(pid, signal.SIGKILL)
counts = {method: len(pids) for method, pids in left.items()}
print(counts)
assert counts == {"fork": 0, "spawn": 0, "forkserver": 2}, "this has changed"
PYTHON
"$work/venv/bin/python" kill.py
