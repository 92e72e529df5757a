"""What is told of cards and pages: NVML's binding, nvidia-smi, DCGM's gauges, /proc."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.edge.verifying.devices import DeviceSource, smi_process_bytes
from cotenant.edge.verifying.pages import file_pages
from cotenant.readers.device_metrics import dcgm_used_bytes, smi_processes
from tests.edge.stub_nvml import NVML
from tests.edge.verified import MIB, plan_of, port


def test_the_real_binding_reads_a_stub_of_the_library(tmp_path):
    pytest.importorskip("pynvml")
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    (tmp_path / "nvml.c").write_text(NVML)
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(tmp_path / "nvml.c")], check=True)
    script = """
from cotenant.edge.verifying.devices import nvml, nvml_cards, nvml_process_bytes
found = nvml()
print(nvml_cards(found))
print([nvml_process_bytes(found, frozenset(pids)) for pids in ({4242}, {7}, {9})])
"""
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    cards = [("NVIDIA A100-SXM4-80GB", 85899345920, 12884901888)] * 2
    assert done.stdout.splitlines() == [
        str(cards),
        str([8589934592, None, None]),
    ]  # the fullest; not told; not there


def test_tools_text_is_read():
    text = "4242, 8192, GPU-1\n7, 16 MiB, GPU-2\n4242, 1024, GPU-2\n9, [N/A], GPU-1\nno lines\n"
    assert smi_processes(text) == (
        ("GPU-1", 4242, 8192 * MIB), ("GPU-2", 7, 16 * MIB), ("GPU-2", 4242, 1024 * MIB)
    )  # fmt: skip
    assert smi_process_bytes(frozenset({4242}), text) == 8192 * MIB  # a rank's, as the plan's bytes are
    assert smi_process_bytes(frozenset({4242, 7}), "7, 16 MiB, GPU-2\n4242, 1024, GPU-2\n") == 1040 * MIB
    assert smi_process_bytes(frozenset({9}), text) is None
    gauges = (
        "# TYPE DCGM_FI_DEV_FB_USED gauge\n"
        'DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-1",modelName="NVIDIA A100-SXM4-80GB"} 12288\n'
        'DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-2"} 3 1700000000\n'
        'DCGM_FI_DEV_FB_FREE{gpu="0"} 99\nDCGM_FI_DEV_FB_USED{gpu="2"} NaN\n'
    )
    assert dcgm_used_bytes(gauges) == {0: 12288 * MIB, 1: 3 * MIB}


@given(st.text(max_size=200))
def test_any_text_is_survived(text):
    assert all(size >= 0 for _, _, size in smi_processes(text))
    assert all(size >= 0 for size in dcgm_used_bytes(text).values())


def test_gauges_from_a_file_are_those_of_the_replicas_cards(tmp_path):
    from cotenant.edge.plans import given_plan

    gauges = tmp_path / "dcgm.txt"
    gauges.write_text('DCGM_FI_DEV_FB_USED{gpu="0"} 100\nDCGM_FI_DEV_FB_USED{gpu="1"} 7\n')
    plan = given_plan(str(plan_of(tmp_path, port=port(), device="L4")))
    assert plan is not None
    assert DeviceSource(str(gauges)).of(plan.replicas[0])(os.getpid()) == 100 * MIB


def test_gauges_by_url_and_nvidia_smi_itself(tmp_path, monkeypatch):
    from cotenant.edge.plans import given_plan

    class Exporter(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/metrics" else 404)
            self.end_headers()
            self.wfile.write(b'DCGM_FI_DEV_FB_USED{gpu="0"} 100\n')

        def log_message(self, *_):
            pass

    plan = given_plan(str(plan_of(tmp_path, port=port(), device="L4")))
    assert plan is not None
    (replica,) = plan.replicas
    with HTTPServer(("127.0.0.1", 0), Exporter) as exporter:
        threading.Thread(target=exporter.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{exporter.server_port}"
        assert DeviceSource(f"{place}/metrics").of(replica)(os.getpid()) == 100 * MIB
        assert DeviceSource(f"{place}/elsewhere").of(replica)(os.getpid()) is None
        exporter.shutdown()
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f'#!/bin/sh\necho "{os.getpid()}, 300, GPU-1"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert DeviceSource("nvidia-smi").of(replica)(os.getpid()) == 300 * MIB
    tool.write_text("#!/bin/sh\nexit 9\n")
    assert DeviceSource("nvidia-smi").of(replica)(os.getpid()) is None


def test_pages_of_a_file_are_counted(tmp_path):
    import mmap

    path = tmp_path / "weights"
    path.write_bytes(b"x" * 8 * MIB)
    assert file_pages(os.getpid(), str(path)) == (0, 0)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[place] for place in range(0, 8 * MIB, 4096)) > 0
        resident, _ = file_pages(os.getpid(), str(path))
        assert resident == 8 * MIB
    assert file_pages(os.getpid(), "/nowhere") == (0, 0)
