"""The Slurm recipe of the docs, with a stand-in for Slurm that starts jobs on this machine."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import limitlab as ll
from limitlab.sweep.storage.store import Store

EXAMPLE = Path(__file__).parents[2] / "examples" / "slurm_sweep.py"
SBATCH = """#!/bin/sh
copy=$(mktemp) && cp "$1" "$copy" && cp "$1" "$(dirname "$0")/job.sh"
setsid sh "$copy" > /dev/null 2>&1 &
echo "Submitted batch job $!"
"""
SCANCEL = """#!/bin/sh
for job in "$@"; do kill -TERM -- "-$job" 2> /dev/null; done
exit 0
"""


@pytest.mark.slow
def test_the_slurm_recipe_runs_a_sweep_through_batch_jobs(tmp_path):
    pytest.importorskip("dask_jobqueue", reason="the extra limitlab[slurm] is not installed")
    for name, text in {"sbatch": SBATCH, "scancel": SCANCEL}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    glm = ll.Problem(
        teacher=ll.SingleIndex(ll.GaussianPrior()), channel=ll.Sign(), sample_ratio=1.0, algorithm=ll.GAMP(iterations=3)
    )
    ll.save_spec(glm, tmp_path / "my.toml")
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    words = [str(EXAMPLE), "my.toml", "--store", str(tmp_path / "runs"), "--jobs", "1", "--cores", "2"]
    words += ["--memory", "4GB", "--ratios", "1", "2", "--dimensions", "40", "80", "--replicas", "2"]
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    good, bad = Store(tmp_path / "runs").verify()
    assert good == 4 and bad == []
    job = (tmp_path / "job.sh").read_text()  # by TLS, isolated, with the names of the keys and not the keys themselves
    assert re.search(r" -P -m distributed\.cli\.dask_worker tls://", job) and "--tls-key" in job
    assert "PRIVATE KEY" not in job and not list(tmp_path.glob(".keys-*"))
    assert (ll.load(tmp_path / "runs" / "result.nc")["status"] == "ok").all()
