"""A sweep on a Slurm cluster: dask-jobqueue asks Slurm for workers, limitlab hands them points.

    pip install "limitlab[slurm]"
    python examples/slurm_sweep.py my.toml --jobs 50 --store /shared/me/runs

Run it on a node that the workers can reach (a login node). The store must be on a file system that all nodes see.
Scheduler and workers talk by TLS, with keys that are made for this run and lie in a folder beside the store that only
you can read: without them anybody on the network could run code as you.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import dask
import numpy as np
from dask_jobqueue import SLURMCluster
from distributed import Client
from distributed.security import Security

import limitlab as ll


def main() -> None:
    words = argparse.ArgumentParser(description="Simulate a problem over sample ratios and dimensions, on Slurm.")
    words.add_argument("spec", help="problem file (limitlab spec NAME > my.toml makes one to edit)")
    words.add_argument("--ratios", nargs="+", type=float, default=np.arange(0.5, 3.01, 0.05).round(2).tolist())
    words.add_argument("--dimensions", nargs="+", type=int, default=[200, 400, 800])
    words.add_argument("--replicas", type=int, default=20)
    words.add_argument("--store", required=True, help="folder for the points, on a shared file system")
    words.add_argument("--jobs", type=int, default=10, help="Slurm jobs")
    words.add_argument("--cores", type=int, default=8, help="processes of a job, one point each at a time")
    words.add_argument("--memory", default="16GB", help="of a job")
    words.add_argument("--walltime", default="02:00:00")
    words.add_argument("--queue", default=None, help="partition")
    asked = words.parse_args()
    ll.Store(asked.store)  # makes it
    beside = Path(asked.store).absolute().parent  # on the shared file system
    with tempfile.TemporaryDirectory(prefix=".keys-", dir=beside) as keys:
        run(asked, keys)


def run(asked: argparse.Namespace, keys: str) -> None:
    # No pages for other users of this node, and no folder in /tmp that they could put modules into.
    dask.config.set({"distributed.scheduler.http.routes": [], "temporary-directory": keys})
    cluster = SLURMCluster(
        protocol="tls://",
        security=Security.temporary(),
        shared_temp_directory=keys,
        scheduler_options={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
        python=f"{sys.executable} -P",  # modules that lie in the folder of a job are not run by their names
        queue=asked.queue,
        cores=asked.cores,
        processes=asked.cores,
        memory=asked.memory,
        walltime=asked.walltime,
        job_script_prologue=[
            "export NPROC=1 OMP_NUM_THREADS=1",  # one thread for each point
            "export DASK_DISTRIBUTED__WORKER__HTTP__ROUTES='[]'",  # no pages
            "export DASK_TEMPORARY_DIRECTORY=$(mktemp -d)",  # a folder that only you can enter, in the job's own TMPDIR
            "trap 'rm -rf \"$DASK_TEMPORARY_DIRECTORY\"' EXIT",
        ],
        worker_extra_args=[
            *("--lifetime", "110m", "--lifetime-stagger", "5m"),  # leave before Slurm ends the job
            *("--no-dashboard", "--dashboard-address", "127.0.0.1:0"),
        ],
    )
    cluster.scale(jobs=asked.jobs)
    with Client(cluster) as client:
        result = ll.sweep(
            ll.simulate,
            ll.load_spec(asked.spec),
            {"sample_ratio": asked.ratios, "d": asked.dimensions},
            replicas=asked.replicas,
            store=asked.store,
            scheduler=client,
            time_limit=3600,
        )
    ll.save(result, f"{asked.store}/result.nc")
    print(result)


if __name__ == "__main__":
    main()
