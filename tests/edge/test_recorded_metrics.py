"""What engines on GPUs say of themselves, as their documentation writes it, read by their drivers.

vLLM: docs.vllm.ai, design/metrics; SGLang: docs.sglang.ai, references/production_metrics; TGI: huggingface.co,
text-generation-inference/reference/metrics; the values are ours.
"""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cotenant.edge.engines import find_driver

VLLM = """# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="chat"} 7.0
vllm:num_requests_waiting{engine="0",model_name="chat"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="chat"} 0.625
vllm:num_preemptions_total{engine="0",model_name="chat"} 3.0
vllm:prompt_tokens_total{engine="0",model_name="chat"} 12345.0
vllm:generation_tokens_total{engine="0",model_name="chat"} 6789.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="chat"} 4.0
"""
SGLANG = """# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="chat"} 7.0
sglang:num_queue_reqs{model_name="chat"} 2.0
sglang:token_usage{model_name="chat"} 0.625
sglang:prompt_tokens_total{model_name="chat"} 12345.0
sglang:generation_tokens_total{model_name="chat"} 6789.0
"""
TGI = """# TYPE tgi_batch_current_size gauge
tgi_batch_current_size 7
tgi_queue_size 2
tgi_request_input_length_sum 12345
tgi_request_generated_tokens_sum 6789
"""


@contextmanager
def serving(text: str) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("engine", "text", "kv_used", "preemptions"),
    [("vllm", VLLM, 0.625, 3), ("sglang", SGLANG, 0.625, None), ("tgi", TGI, None, None)],
)
def test_figures_are_found_by_each_engines_names(engine, text, kv_used, preemptions):
    with serving(text) as url:
        found = find_driver(engine).metrics(url)
    assert (found.running, found.waiting, found.prompt_tokens, found.generated_tokens) == (7, 2, 12345, 6789)
    assert (found.kv_used, found.preemptions) == (kv_used, preemptions)
