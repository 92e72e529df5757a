/** Starts the page: the link's state or the first example, then the catalogue, then the answer. */
import { ask } from "./api.js";
import { App } from "./app.js";
import { blame, solve } from "./actions.js";
import { decode } from "./link.js";
import { get, listen, set } from "./store.js";
import { html, render } from "./view.js";
import { speak, t } from "./words.js";

const root = document.getElementById("app");
let asked = false;

function draw() {
  asked = false;
  render(html`<${App} state=${get()} />`, root);
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

async function linked() {
  try {
    return await decode(location.hash);
  } catch (error) {
    blame(new Error(t("badLink", { why: error.message })));
    return null;
  }
}

async function start() {
  const theme = kept("theme");
  if (theme) document.documentElement.dataset.theme = theme;
  set({ lang: speak(kept("lang")), theme });
  const link = await linked();
  if (link) set(link);
  const catalogue = await ask("catalogue");
  set({ catalogue });
  if (!link) await solve(catalogue.examples.find((one) => one.name.includes("trio"))?.fleet ?? catalogue.examples[0].fleet);
  else if (!link.plan) await solve();
}

root.replaceChildren();
start().catch(blame);
addEventListener("hashchange", async () => {
  const link = await linked();
  if (link) set({ plan: null, tune: {}, checked: null, ...link, answers: {}, replay: null, exported: null });
});
