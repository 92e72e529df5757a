/** The plan as files for each target. */
import { standing } from "./actions.js";
import { exportTo } from "./asking.js";
import { Code } from "./answer.js";
import { set } from "./store.js";
import { html, t, useEffect } from "./view.js";

export function Export({ state }) {
  const { catalogue, target } = state;
  const plan = standing(state);
  useEffect(() => {
    if (plan) exportTo(plan, target);
  }, [plan, target]);
  const exported = state.exported?.plan === plan && state.exported?.target === target ? state.exported : null;
  return html`<div class="export"><div class="targets" role="group" aria-label=${t("target")}>${catalogue.targets.map((one) => html`<button key=${one.name} class=${one.name === target ? "chip on" : "chip"}
      aria-pressed=${one.name === target} title=${one.title} disabled=${!plan} onClick=${() => set({ target: one.name })}>${one.name}</button>`)}</div>
    ${exported && html`${(exported.notes ?? []).map((one, at) => html`<p class="quiet" lang="en" key=${at}>${one}</p>`)}
      ${exported.files.map((file) => html`<section key=${file.name} class="file-out"><h3>${file.name} <button class="plain" onClick=${() => save(file)}>${t("download")}</button></h3><${Code} text=${file.text} label=${file.name} /></section>`)}`}
    ${!exported && plan && !state.faults.length && html`<p class="quiet">${t("exporting")}</p>`}</div>`;
}

function save({ name, text }) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  link.download = name.replaceAll("/", "-"); // machines have files of the same names
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
