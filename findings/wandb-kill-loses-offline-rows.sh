#!/bin/sh
# wandb 0.30.0
#
# In offline mode, W&B writes its file in blocks of 32 KiB. A process that is killed, such as by a scheduler
# or for memory, loses the rows of the last block, however long ago it logged them. A run of a few
# hundred rows loses all: its file has seven bytes.
# Seen: 100 rows, then ten seconds, then kill -9: seven bytes. 400 rows: whole blocks of 32,768 bytes.
# The same run has all rows in its file if it ends by itself.
# Way out: keep a log of your own, and send it again.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet wandb==0.30.0
cd "$work"
cat > log.py <<'EOF'
import os
import signal
import sys
import time

import wandb

rows, ends = int(sys.argv[1]), sys.argv[2]
run = wandb.init(mode="offline", dir=sys.argv[3])
for row in range(rows):
    run.log({"score": row})
time.sleep(10)
if ends == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
EOF
export WANDB_SILENT=true
size() {  # Prints the bytes of a run with so many rows, which ends in this way.
    mkdir "$work/$1-$2"
    "$work/venv/bin/python" log.py "$1" "$2" "$work/$1-$2" > output 2>&1 || true
    sleep 5
    cat "$work/$1-$2"/wandb/offline-run-*/*.wandb | wc -c
}
few=$(size 100 kill)
many=$(size 400 kill)
finished=$(size 100 finish)
echo "100 rows, killed: $few bytes; finished: $finished bytes. 400 rows, killed: $many bytes"
test "$few" -eq 7
test "$many" -gt 0
test $((many % 32768)) -eq 0
test "$finished" -gt 10000
