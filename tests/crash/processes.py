"""Processes that can be killed, forked from one that has imported everything."""

import multiprocessing
import os
import sys

os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["crash.kill_app", "crash.flow_app", "crash.team_app", "crash.fork_app", "runs.crash_app"]
)
