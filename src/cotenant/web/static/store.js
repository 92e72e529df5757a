/** The one state of the page, and who is told when it changes. */

const START = {
  lang: null, theme: null, // null: as the browser says
  catalogue: null, fleet: null, plan: null, stale: false,
  tune: {}, // by model: options of an engine that a fleet file has no word for
  answers: {}, // by replica: what the sliders' last estimate said
  checked: null, // what /api/check said of moves by hand
  picked: null, carried: null, over: null, // the chosen replica, the one that is carried, the card under it
  work: null, // the running job: {kind, lines, cost, bound, gap, stop}
  tab: "plan", policy: "static", seed: 0, conditions: {}, replay: null, log: "", logCard: "", logModel: "", reading: false, explanation: null, target: "compose", exported: null, live: null, doors: 0, // keys of a gateway that were tried
  faults: [], notice: "",
};

let state = { ...START };
const listeners = new Set();

export const get = () => state;

/** Change some of it; listeners hear of it once per frame at most through their own scheduling. */
export function set(patch) {
  state = { ...state, ...(typeof patch === "function" ? patch(state) : patch) };
  for (const listener of listeners) listener(state);
}

export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
