"""llama-server's flags and Ollama's words on the command line."""

QWEN = ("estimate", "Qwen/Qwen3-8B", "--gpu", "RTX-4090", "--quantization", "gguf-q4_k_m")


def test_llama_servers_own_flags_size_the_cache(run):
    argv = (*QWEN, "--engine", "llama.cpp@b10229", "--n-gpu-layers", "99", "-c", "32768", "-np", "4")
    found = run(*argv, "-ctk", "q8_0", "-ctv", "q8_0", "--json").document
    assert found["fits"]
    assert found["per_gpu"][0]["kv_cache_bytes"] == 36 * 2 * 8 * 128 * 34 // 32 * 32768
    assert (found["settings"]["n_ctx"], found["settings"]["n_parallel"]) == (32768, 4)
    assert found["host"]["weights_bytes"] > 0
    assert found["arguments"][-12:-2] == [
        "-c", "32768", "-np", "4", "-ctk", "q8_0", "-ctv", "q8_0", "-fa", "on",
    ]  # fmt: skip


def test_text_tells_what_stays_with_the_host_and_what_was_assumed(run):
    out = run(*QWEN, "--engine", "llama.cpp").out
    assert "Host memory, beside the GPU's: weights" in out
    assert "The context was not given: 40,960 tokens for 4 slots assumed." in out


def test_ollama_is_told_in_its_words(run):
    out = run(*QWEN, "--engine", "ollama", "--set", "num_ctx=8192", "--set", "OLLAMA_NUM_PARALLEL=2").out
    assert "OLLAMA_NUM_PARALLEL=2 OLLAMA_CONTEXT_LENGTH=8192" in out


def test_faults_are_named(run):
    assert "not options of vLLM" in run(*QWEN[:4], "-c", "4096").err
    assert "cache_type_k must be one of" in run(*QWEN, "--engine", "llama.cpp", "-ctk", "q9").err
    assert "is not NAME=VALUE" in run(*QWEN, "--engine", "ollama", "--set", "num_ctx").err
    assert "num_ctx" in run(*QWEN, "--engine", "ollama", "--set", "num_cxt=4").err


def test_help_keeps_them_apart(run):
    out = run("estimate", "--help").out
    assert out.index("llama.cpp's own options") < out.index("--n-gpu-layers") < out.index("Ollama's own words")
