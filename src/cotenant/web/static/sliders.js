/** "What if": each slider changes the fleet, and asks for the estimate of each replica that it concerns. */
import { blame, changeModel, guarded, setFleet, standing } from "./actions.js";
import { newest } from "./api.js";
import { recheckSoon } from "./moves.js";
import { settingOf } from "./scene.js";
import { get, set } from "./store.js";
import { t } from "./words.js";

const estimates = new Map(); // by replica: so that one slider aborts only its own question

const length = (lengths) => lengths?.p95 ?? lengths?.max ?? lengths?.p50 ?? 0;

/** Tokens of context at the 95th percentile. */
export const contextOf = (traffic) => length(traffic.context_tokens) || length(traffic.input_tokens) + length(traffic.output_tokens);

function scaled(lengths, ratio) {
  if (!lengths) return lengths;
  return Object.fromEntries(Object.entries(lengths).map(([key, tokens]) => [key, typeof tokens === "number" ? Math.max(1, Math.round(tokens * ratio)) : tokens]));
}

/** One slider of a model; `value` is what the fleet file would say. Asks for the estimate of each of its replicas. */
export function turn(name, knob, value, at = performance.now()) {
  const change = {
    context: (one) => {
      const ratio = value / Math.max(1, contextOf(one.traffic));
      const { context_tokens: both, input_tokens: asked, output_tokens: told } = one.traffic;
      const traffic = { ...one.traffic };
      if (both) traffic.context_tokens = { ...scaled(both, ratio), ...(both.p95 ? { p95: value } : {}) };
      if (asked) traffic.input_tokens = scaled(asked, ratio);
      if (told) traffic.output_tokens = scaled(told, ratio);
      return { ...one, traffic };
    },
    concurrent: (one) => ({ ...one, traffic: { ...one.traffic, concurrent: value } }),
    rate: (one) => ({ ...one, traffic: { ...one.traffic, requests_per_second: value } }),
    precision: (one) => without({ ...one, quantization: value ? [value] : undefined }),
    kvDtype: (one) => without({ ...one, kv_cache_dtype: value ? [value] : undefined }),
  }[knob];
  if (change) changeModel(name, change);
  else set(({ tune }) => ({ tune: { ...tune, [name]: without({ ...tune[name], [knob]: value ?? undefined }) }, stale: true }));
  for (const replica of standing()?.replicas ?? []) if (replica.model === name) reckon(replica, at);
}

const without = (one) => Object.fromEntries(Object.entries(one).filter(([, value]) => value !== undefined));

/** How much of the traffic's context the pool must hold: one figure for the whole fleet. */
export function turnHeld(share, at = performance.now()) {
  setFleet((fleet) => ({ ...fleet, kv_overflow: `${Number((100 - share).toFixed(3))}%` }));
  for (const replica of standing()?.replicas ?? []) reckon(replica, at);
}

export function turnHeadroom(share) {
  const at = performance.now();
  setFleet((fleet) => ({ ...fleet, headroom: `${share}%` }));
  recheckSoon();
  measured(at);
}

/** The keywords of cotenant.estimate for one replica as the fleet and the sliders have it. */
export function question(replica, state = get()) {
  const model = state.fleet.models.find((one) => one.name === replica.model);
  if (!model) return null;
  const { traffic } = model;
  const tuned = state.tune[model.name] ?? {};
  const adapters = model.adapters?.map(({ name, rank }) => ({ name, rank }));
  const kv = model.kv_cache_dtype?.[0] ?? replica.kv_cache_dtype;
  const longest = contextOf(traffic);
  const wished = model.quantization?.length === 1 ? model.quantization[0] : null;
  const format = wished ? (typeof wished === "string" ? wished : Object.keys(wished)[0]) : replica.quantization;
  return without({
    model: model.model, gpu: cardOf(replica, state), engine: replica.engine, quantization: format,
    tensor_parallel_size: replica.tensor_parallel_size, pipeline_parallel_size: replica.pipeline_parallel_size,
    kv_cache_dtype: kv === "auto" ? undefined : kv,
    max_model_len: replica.engine.startsWith("vllm") && longest * 2 <= replica.max_model_len ? replica.max_model_len : undefined,
    gpu_memory_utilization: tuned.utilisation,
    adapters: adapters?.length ? adapters : undefined, speculative_config: model.speculative_config ?? undefined,
    concurrent: traffic.concurrent, context_tokens: traffic.context_tokens,
    requests_per_second: traffic.requests_per_second, input_tokens: traffic.input_tokens, output_tokens: traffic.output_tokens,
    ttft: model.slo?.ttft, tpot: model.slo?.tpot, percentile: model.slo?.percentile, kv_overflow: state.fleet.kv_overflow,
  });
}

function cardOf(replica, state) {
  return standing(state)?.replicas.find((one) => one.id === replica.id)?.devices[0]?.type ?? replica.devices[0]?.type;
}

/** Ask for the estimate of one replica; `at`: when the slider moved. */
export function reckon(replica, at) {
  const words = question(replica);
  if (!words) return;
  if (!estimates.has(replica.id)) estimates.set(replica.id, newest("estimate"));
  estimates.get(replica.id)(words).then((document) => {
    if (!document) return; // a newer question is on its way
    set(({ answers }) => ({ answers: { ...answers, [replica.id]: { document, fills: words.gpu_memory_utilization !== undefined, said: t("kvNeeded", { share: settingOf(get(), "kv_overflow") }) } }, faults: [] }));
    measured(at);
  }, blame);
}

/** How long a slider's answer took to be drawn: an entry "slider" of the browser's own timeline. */
function measured(at) {
  requestAnimationFrame(() => {
    const channel = new MessageChannel(); // after the frame that shows it
    channel.port1.onmessage = () => performance.measure("slider", { start: at, end: performance.now() });
    channel.port2.postMessage(0);
  });
}

/** The sliders' answers again: a link says which replicas were asked about, not what was said. */
export const reckonAnew = guarded(async (ids) => {
  for (const replica of ids.map((id) => standing()?.replicas.find((one) => one.id === id))) if (replica) reckon(replica, performance.now());
});
