/** Where each byte of a replica as it is planned comes from. */
import { ask } from "./api.js";
import { get } from "./store.js";

/** The keywords of cotenant.estimate for a replica exactly as it is planned. */
function asPlanned(replica) {
  const model = get().fleet.models.find((one) => one.name === replica.model);
  const adapters = model?.adapters?.map(({ name, rank }) => ({ name, rank }));
  const kept = ["engine", "quantization", "tensor_parallel_size", "pipeline_parallel_size", "max_model_len", "max_num_seqs",
    "max_num_batched_tokens", "gpu_memory_utilization", "kv_cache_memory_bytes", "decode_context_parallel_size", "block_size",
    "enforce_eager", "enable_expert_parallel", "enable_prefix_caching", "max_loras", "max_lora_rank"];
  const settings = Object.fromEntries(kept.map((key) => [key, replica[key] ?? undefined]));
  const kv = replica.kv_cache_dtype === "auto" ? undefined : replica.kv_cache_dtype;
  return { ...settings, model: model?.model ?? replica.model_id, gpu: replica.devices[0]?.type, kv_cache_dtype: kv, adapters: adapters?.length ? adapters : undefined,
    speculative_config: model?.speculative_config ?? undefined };
}

/** Where each byte of a replica as planned comes from, asked once when somebody looks; again where it failed. */
const reasons = new Map();
export async function reasonsOf(replica) {
  const words = asPlanned(replica);
  const key = JSON.stringify(words);
  if (!reasons.has(key)) {
    const forget = () => {
      reasons.delete(key);
      return null;
    };
    reasons.set(key, ask("estimate", words).catch(forget));
  }
  return reasons.get(key);
}
