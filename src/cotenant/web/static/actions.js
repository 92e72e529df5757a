/** What a person can do here. Each action changes the state and asks the server where it must. */
import { ask, job, newest, Problem } from "./api.js";
import { encode } from "./link.js";
import { get, set } from "./store.js";
import { settingOf } from "./scene.js";
import { t } from "./words.js";

const DEFAULT_TRAFFIC = { concurrent: 8, context_tokens: { p50: 1000, p95: 4000 } };
const estimates = new Map(); // by replica: so that one slider aborts only its own question

/** Show what went wrong; an abort is no fault. */
export function blame(error) {
  if (error?.name === "AbortError") return;
  const faults = error instanceof Problem ? error.faults : [{ error: String(error?.message ?? error), hint: "", path: "" }];
  set({ faults });
}

/** Say something to people who listen instead of looking. */
export const say = (notice) => set({ notice });

const guarded = (action) => async (...given) => {
  try {
    return await action(...given);
  } catch (error) {
    blame(error);
    return undefined;
  }
};

/* ---- the fleet ---- */

/** Replace the fleet; what was solved or moved for the old one is stale. */
export function setFleet(change) {
  set((state) => ({ fleet: typeof change === "function" ? change(state.fleet) : change, stale: true, replay: null }));
}

const changeModel = (name, change) =>
  setFleet((fleet) => ({ ...fleet, models: fleet.models.map((one) => (one.name === name ? change(one) : one)) }));

export function addModel(id, title = id) {
  const { fleet } = get();
  const base = title.split("/").pop().toLowerCase().replace(/\.(json|gguf)$/, "").replace(/[^a-z0-9._-]+/g, "-").replace(/^[^a-z0-9]+/, "").slice(0, 40) || "model";
  let name = base;
  for (let n = 2; fleet.models.some((one) => one.name === name); n += 1) name = `${base}-${n}`;
  setFleet({ ...fleet, models: [...fleet.models, { name, model: id, traffic: structuredClone(DEFAULT_TRAFFIC) }] });
  say(`${name}`);
}

export const removeModel = (name) =>
  setFleet((fleet) => ({ ...fleet, models: fleet.models.filter((one) => one.name !== name) }));

export function addCards(type) {
  setFleet((fleet) => ({ ...fleet, gpus: [...fleet.gpus, { type, count: 1 }] }));
}

export const changePool = (number, change) =>
  setFleet((fleet) => ({ ...fleet, gpus: fleet.gpus.map((pool, at) => (at === number ? change({ ...pool }) : pool)) }));

export const removePool = (number) => setFleet((fleet) => ({ ...fleet, gpus: fleet.gpus.filter((_, at) => at !== number) }));

/** A dropped or chosen file: a config.json whole, of a GGUF the head alone, as much as the server reads. */
export const upload = guarded(async (file) => {
  say(t("reading", { name: file.name }));
  const gguf = file.name.toLowerCase().endsWith(".gguf");
  const body = gguf
    ? { gguf: await base64(file.slice(0, get().catalogue.upload_bytes)), size_bytes: file.size, name: file.name.slice(0, 200) }
    : { config: await file.text(), name: file.name.slice(0, 200) };
  const found = await ask("models", body);
  addModel(found.id, found.name ?? file.name);
});

export const askHub = guarded(async (id) => {
  say(t("reading", { name: id }));
  const found = await ask("models", { hub: id });
  addModel(found.id ?? id, found.name ?? id);
});

async function base64(blob) {
  const bytes = new Uint8Array(await blob.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

/** The plan as it is drawn: as solved, or as moved by hand. */
export const standing = ({ checked, plan } = get()) => checked?.plan ?? plan;

/* ---- long questions ---- */

async function work(kind, path, body) {
  await stopWork();
  const tell = (told) => {
    if (get().work?.token !== token) return;
    const { message, ...figures } = told.progress ?? told;
    set(({ work: now }) => ({ work: { ...now, ...figures, lines: message ? [...now.lines.slice(-4), message] : now.lines } }));
  };
  const token = Symbol(kind);
  const { result, stop } = job(path, body, tell);
  set({ work: { kind, token, stop, lines: [], cost: null, bound: null, gap: null }, faults: [] });
  try {
    return await result;
  } finally {
    if (get().work?.token === token) set({ work: null });
  }
}

export async function stopWork() {
  const { work: running } = get();
  set({ work: null });
  await running?.stop();
}

/** What an answer is about: it is another question once one of these has changed. */
const subject = () => [get().fleet, get().plan, get().checked];
const changedSince = (before) => subject().some((one, at) => one !== before[at]);
const sayChanged = () => set({ faults: [{ error: t("changedMeanwhile"), hint: "", path: "" }] });

/** Plan the fleet; `text` may be a fleet file as an example holds it. What was changed meanwhile stays as it is: sliders
 *  and lists stay where they are beside the answer, and of a move by hand the answer says nothing, so that one stays. */
export const solve = guarded(async (text) => {
  const { fleet, tune, checked } = get();
  const plan = await work("solve", "plan", { fleet: text ?? fleet });
  if (!plan) return;
  const now = get();
  if (now.checked !== checked) {
    sayChanged();
    return;
  }
  const turned = now.fleet !== fleet || now.tune !== tune;
  const mine = turned ? { stale: true } : { fleet: plan.fleet ?? now.fleet, stale: false, answers: {}, tune: {} };
  set({ plan, ...mine, checked: null, replay: null, picked: keepPicked(plan) });
  if (turned) for (const replica of plan.replicas) if (now.answers[replica.id]) reckon(replica, performance.now());
  say(t("solved"));
});

/** A plan as it is, not solved anew. */
export function openPlan(plan) {
  const shaped = Array.isArray(plan.replicas) && Array.isArray(plan.gpus) && Array.isArray(plan.warnings);
  if (!shaped || !Array.isArray(plan.fleet?.models) || !Array.isArray(plan.fleet.gpus)) throw new Error(t("noPlanFile"));
  set({ fleet: plan.fleet, plan, ...EMPTY, picked: plan.replicas[0]?.id ?? null });
}

const EMPTY = { checked: null, answers: {}, tune: {}, stale: false, replay: null, exported: null, tab: "plan", faults: [] };

/** In place of what is there: a plan as it is, or a fleet file's text, solved. What was there stays if it is refused. */
export const open = guarded(async (text) => {
  const before = get();
  const plan = planIn(text);
  history.replaceState(null, "", location.pathname);
  if (plan) {
    await stopWork();
    openPlan(plan);
    return;
  }
  set({ fleet: null, plan: null, ...EMPTY });
  await solve(text);
  if (get().fleet) return;
  const { fleet, plan: was, checked, answers, tune, stale, picked } = before; // cancelled, or refused
  set({ fleet, plan: was, checked, answers, tune, stale, picked });
});

function planIn(text) {
  try {
    const found = JSON.parse(text);
    return String(found?.schema).startsWith("cotenant/plan/") ? found : null;
  } catch {
    return null; // a fleet file may be YAML; what is neither, the server says
  }
}

/** A fleet or a plan of one's own. */
export const openFile = guarded(async (file) => {
  if (file.size > LARGEST_FILE) throw new Error(t("tooLong", { name: file.name.slice(0, 80) }));
  say(t("reading", { name: file.name }));
  await open(await file.text());
});

/** A file dropped somewhere: a fleet or a plan is opened, a model is added. */
export const took = guarded(async (file) => {
  if (/\.ya?ml$/i.test(file.name) || (/\.json$/i.test(file.name) && file.size <= LARGEST_FILE && isWhole(await file.text()))) await openFile(file);
  else await upload(file);
});

function isWhole(text) {
  try {
    const found = JSON.parse(text);
    return Boolean(planIn(text)) || (Array.isArray(found?.models) && Array.isArray(found.gpus));
  } catch {
    return false;
  }
}

const LARGEST_FILE = 6 * 2 ** 20;

function keepPicked(plan) {
  const { picked } = get();
  return plan.replicas.some((one) => one.id === picked) ? picked : (plan.replicas[0]?.id ?? null);
}

/** The plan that is drawn, moved by hand or not, under the fleet's traffic as the sliders have it. */
export const replay = guarded(async () => {
  const { fleet, policy, seed, conditions, stale, catalogue } = get();
  const [plan, before] = [standing(), subject()];
  const placed = plan && catalogue.policies_of_plans.includes(policy); // others place the fleet anew
  const played = !placed ? { fleet } : stale ? { plan, fleet } : { plan };
  const found = await work("replay", "simulate", { ...played, policy, seed, ...said(conditions) });
  if (!found) return;
  if (changedSince(before)) sayChanged();
  else set({ replay: found });
});

/** Conditions as the server takes them: what is left empty is not said, failures are a list. */
function said(conditions) {
  const found = Object.fromEntries(Object.entries(conditions ?? {}).map(([key, text]) => [key, String(text).trim()]).filter(([, text]) => text));
  return found.fail ? { ...found, fail: found.fail.split(/[\s,;]+/).filter(Boolean) } : found;
}

export const explain = guarded(async () => {
  const { log, logCard, logModel } = get();
  set({ explanation: null, reading: true, faults: [] });
  try {
    set({ explanation: await ask("explain", { log, gpu: logCard || undefined, model: logModel.trim() || undefined }) });
  } finally {
    set({ reading: false });
  }
});

const exporting = newest("deploy");

/** The plan that stands as files for `target`; what is kept says which plan and target it is of. */
export const exportTo = guarded(async (plan, target) => {
  set({ faults: [] });
  const found = await exporting({ plan, target });
  if (found) set({ exported: { ...found, plan, target } });
});

/* ---- sliders ---- */

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

function reckon(replica, at) {
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

/* ---- moving by hand ---- */

const checks = newest("check");

/** Put a replica on a card (`{type, node, index}`) and ask at once what breaks. */
export const move = guarded(async (id, card) => {
  const { plan, fleet, checked } = get();
  set({ carried: null, over: null, picked: id });
  const found = await checks({ plan: checked?.plan ?? plan, fleet, move: { replica: id, gpu: { node: card.node, index: card.index, type: card.type } } });
  if (!found) return;
  set({ checked: found, replay: null });
  if (get().fleet !== fleet) recheckSoon();
  say(found.ok ? t("moveOk") : `${t("moveBad")} ${found.breaks.join("; ")}`);
});

let rechecking = 0;
function recheckSoon() {
  clearTimeout(rechecking);
  rechecking = setTimeout(guarded(async () => {
    const { checked, fleet } = get();
    if (!checked?.plan) return;
    const found = await checks({ plan: checked.plan, fleet });
    if (found) set({ checked: found });
  }), 60);
}

export const undoMoves = () => set({ checked: null, replay: null });

/* ---- links, looks ---- */

export const copyLink = guarded(async () => {
  const hash = await encode(get());
  history.replaceState(null, "", `#${hash}`);
  await navigator.clipboard?.writeText(location.href).catch(() => {});
  say(t("linkCopied"));
});
