/** Starts the page: the link's state or the first example, then the catalogue, then the answer. */
import { ask } from "./api.js";
import { App } from "./app.js";
import { blame } from "./actions.js";
import { solve, stopWork } from "./asking.js";
import { openPlan, took } from "./files.js";
import { reckonAnew } from "./sliders.js";
import { decode } from "./link.js";
import { get, listen, set } from "./store.js";
import { html, render } from "./view.js";
import { speak, t } from "./words.js";

const root = document.getElementById("app");
let asked = false;
let drawn = false;
let good = null; // the last state that was drawn

function draw() {
  asked = false;
  if (!drawn) root.replaceChildren(); // until then the document's own head is seen
  drawn = true;
  try {
    const state = get();
    render(html`<${App} state=${state} />`, root);
    if (state.fleet && state.catalogue) good = state;
  } catch (error) {
    if (!get().fleet) throw error;
    console.error(error);
    render(null, root); // a link or a file may hold anything: what was there before stays, and else there is still a page
    set(good ? { ...good, work: get().work } : { fleet: null, plan: null, checked: null, answers: {}, replay: null, tab: "plan" });
    good = null;
    blame(new Error(t("notDrawn")));
  }
}

listen(() => {
  if (!asked) requestAnimationFrame(draw);
  asked = true;
});

const kept = (key) => {
  try {
    return localStorage.getItem(`cotenant.${key}`);
  } catch {
    return null; // storage may be forbidden
  }
};

/** `{asked, ...}` as `decode` has it, or null; `broken` is called where there is a link that cannot be read. */
async function linked(broken) {
  try {
    return await decode(location.hash);
  } catch (error) {
    broken(new Error(t("badLink", { why: error.message })));
    return null;
  }
}

/** What `cotenant ui` was started with, if anything. */
async function openOwn() {
  const own = await ask("opens");
  try {
    if (own.plan) openPlan(own.plan);
  } catch (error) {
    blame(error);
  }
  if (own.fleet) await solve(own.fleet);
  return Boolean(get().fleet);
}

async function start() {
  const theme = kept("theme");
  if (theme) document.documentElement.dataset.theme = theme;
  set({ lang: speak(kept("lang")), theme });
  let fault = null;
  const { asked: turned, ...link } = (await linked((error) => (fault = error))) ?? {};
  set(link);
  const catalogue = await ask("catalogue");
  set({ catalogue });
  if (!link.fleet && (await openOwn())) return;
  const refused = get().faults; // it is said beside the example
  if (!link.fleet) await solve(catalogue.examples.find((one) => one.name === catalogue.first_example)?.fleet ?? catalogue.examples[0].fleet);
  else if (!link.plan) await solve();
  else reckonAnew(turned);
  if (refused.length) set({ faults: refused });
  if (fault) blame(fault);
}

start().catch(blame);
addEventListener("dragover", (event) => event.dataTransfer?.types.includes("Files") && event.preventDefault());
addEventListener("drop", (event) => {
  const file = event.dataTransfer?.files[0];
  if (!file || event.defaultPrevented) return; // the models' own place takes several
  event.preventDefault();
  if (get().catalogue) took(file);
});
addEventListener("hashchange", async () => {
  const found = await linked(blame);
  if (!found) return;
  const { asked: turned, ...link } = found;
  await stopWork();
  set({ plan: null, stale: false, tune: {}, checked: null, ...link, answers: {}, replay: null });
  if (!link.plan) await solve();
  else reckonAnew(turned);
});
