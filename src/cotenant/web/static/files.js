/** Files of one's own: a model's, a fleet, a plan; dropped or chosen. */
import { addModel, guarded, say } from "./actions.js";
import { ask } from "./api.js";
import { solve, stopWork } from "./asking.js";
import { get, set } from "./store.js";
import { t } from "./words.js";

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

async function base64(blob) {
  const bytes = new Uint8Array(await blob.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

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
