/** Questions that take a while: solve, replay, explain, export. One works at a time, and can be cancelled. */
import { guarded, say, standing } from "./actions.js";
import { ask, job, newest } from "./api.js";
import { reckon } from "./sliders.js";
import { get, set } from "./store.js";
import { t } from "./words.js";

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
