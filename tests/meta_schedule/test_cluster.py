"""Builders and runners over the workers of a cluster (dask.distributed), one of which dies during the search."""

import os
import signal
import threading
import time

import pytest
from programs_of_tests import product

from unity import meta_schedule as ms

distributed = pytest.importorskip("distributed", reason="the extra [cluster] is not installed")


class KillOneWorker(ms.MeasureCallback):
    """After the first round a process of the cluster dies while the next is being built."""

    def __init__(self, client):
        self.client, self.killed = client, None

    def apply(self, task_scheduler, task_id, measure_candidates, builder_results, runner_results):
        if self.killed is None:
            self.killed = next(iter(self.client.run(os.getpid).values()))
            threading.Timer(0.05, os.kill, (self.killed, signal.SIGKILL)).start()


def test_a_search_on_a_cluster_outlives_a_worker():
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
    ):
        executor, death = client.get_executor(), KillOneWorker(client)
        database = ms.tune_tir(
            product(), target="llvm", max_trials_global=4, num_trials_per_iter=2, seed=0, database="memory",
            builder=ms.builder.LocalBuilder(executor=executor), runner=ms.runner.LocalRunner(executor=executor),
            measure_callbacks=[*ms.MeasureCallback.create("default"), death],
        )  # fmt: skip
        for _ in range(100):
            if death.killed not in client.run(os.getpid).values():
                break
            time.sleep(0.1)
        assert death.killed not in client.run(os.getpid).values(), "the process is another one now"
    records = database.get_all_tuning_records()
    assert len(records) == 5 and records[-1].verdict in ("kept", "default")
    assert len([record for record in records if record.is_valid()]) >= 4
