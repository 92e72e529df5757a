/** What a person does to the fleet, and what all actions share. Each changes the state, and asks the server where it must. */
import { ask, Problem } from "./api.js";
import { encode } from "./link.js";
import { get, set } from "./store.js";
import { t } from "./words.js";

const DEFAULT_TRAFFIC = { concurrent: 8, context_tokens: { p50: 1000, p95: 4000 } };

/** Show what went wrong; an abort is no fault. */
export function blame(error) {
  if (error?.name === "AbortError") return;
  const faults = error instanceof Problem ? error.faults : [{ error: String(error?.message ?? error), hint: "", path: "" }];
  set({ faults });
}

/** Say something to people who listen instead of looking. */
export const say = (notice) => set({ notice });

/** An action whose failure is shown. */
export const guarded = (action) => async (...given) => {
  try {
    return await action(...given);
  } catch (error) {
    blame(error);
    return undefined;
  }
};

/** Replace the fleet; what was solved or moved for the old one is stale. */
export function setFleet(change) {
  set((state) => ({ fleet: typeof change === "function" ? change(state.fleet) : change, stale: true, replay: null }));
}

export const changeModel = (name, change) =>
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

export const askHub = guarded(async (id) => {
  say(t("reading", { name: id }));
  const found = await ask("models", { hub: id });
  addModel(found.id ?? id, found.name ?? id);
});

/** The plan as it is drawn: as solved, or as moved by hand. */
export const standing = ({ checked, plan } = get()) => checked?.plan ?? plan;

export const copyLink = guarded(async () => {
  const hash = await encode(get());
  history.replaceState(null, "", `#${hash}`);
  await navigator.clipboard?.writeText(location.href).catch(() => {});
  say(t("linkCopied"));
});
