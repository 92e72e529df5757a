/** On the left: what must be served. */
import { addModel, askHub, removeModel } from "./actions.js";
import { took } from "./files.js";
import { contextOf } from "./sliders.js";
import { Combobox, search } from "./combobox.js";
import { set } from "./store.js";
import { count, parameters } from "./units.js";
import { html, t, useState } from "./view.js";

const PATH = /^[./~]|\\|\/.*\/|\.(json|gguf|safetensors|bin|yaml)$/i;
const HUB = /^[A-Za-z0-9][\w.-]{0,95}\/[\w][\w.-]{0,95}$/;

export function Models({ state }) {
  const { catalogue, fleet, plan, picked } = state;
  const find = (text) => {
    const rows = search(catalogue.models, text).map((one) => ({
      key: one.name, title: one.name, off: one.supported === false, note: one.supported === false ? t("unsupported") : parameters(one.parameters), id: one.name,
    }));
    const id = text.trim();
    if (HUB.test(id) && !catalogue.models.some((one) => one.name === id)) rows.push({ key: `hub ${id}`, title: t("useHub", { name: id }), note: "", hub: id });
    return rows;
  };
  return html`<section class="panel models" aria-labelledby="models-head">
    <h2 id="models-head">${t("models")} <small>${fleet.models.length}</small></h2>
    <ul class="list">${fleet.models.map((model, at) => html`<${Row} key=${model.name} model=${model} colour=${at % 8} catalogue=${catalogue}
      picked=${plan?.replicas.find((one) => one.id === picked)?.model === model.name} plan=${plan} />`)}</ul>
    <${Combobox} id="add-model" label=${t("addModel")} hint=${t("addModelHint")} find=${find} none=${(text) => t(PATH.test(text) ? "noPath" : "noModel")}
      take=${(row) => (row.hub ? askHub(row.hub) : addModel(row.id))} />
    <${Drop} />
  </section>`;
}

function Row({ model, colour, catalogue, picked, plan }) {
  const id = typeof model.model === "string" ? model.model : t("rawFigures");
  const entry = catalogue.models.find((one) => one.name === id || one.aliases?.includes(id));
  const replica = plan?.replicas.find((one) => one.model === model.name);
  const traffic = model.traffic;
  const load = traffic.concurrent ? `${count(traffic.concurrent)} × ${count(contextOf(traffic))}` : traffic.requests_per_second ? `${traffic.requests_per_second}/s · ${count(contextOf(traffic))}` : "trace";
  return html`<li class=${picked ? `model c${colour} picked` : `model c${colour}`}>
    <button class="pick" onClick=${() => replica && set({ picked: replica.id })} aria-pressed=${picked} disabled=${!replica}>
      <i class="swatch weights"></i><span class="name">${model.name}</span><span class="quiet size">${parameters(entry?.parameters)}</span>
      <span class="id quiet">${id.startsWith("upload-") ? t("uploaded") : id}</span>
      <span class="facts quiet">${replica?.quantization ?? ""}${replica ? " · " : ""}${load}</span></button>
    <button class="plain x" aria-label=${t("remove", { name: model.name })} onClick=${() => removeModel(model.name)}>×</button></li>`;
}

function Drop() {
  const [over, setOver] = useState(false);
  const take = (files) => [...files].slice(0, 8).reduce((before, file) => before.then(() => took(file)), Promise.resolve());
  return html`<div class=${over ? "drop over" : "drop"} onDragOver=${(event) => { event.preventDefault(); setOver(true); }} onDragLeave=${() => setOver(false)}
      onDrop=${(event) => { event.preventDefault(); setOver(false); take(event.dataTransfer.files); }}>
    <span>${t("drop")} </span><label class="file"><input type="file" accept=".json,.gguf" onChange=${(event) => { take(event.target.files); event.target.value = ""; }} /><span>${t("browse")}</span></label>
    <small class="quiet">${t("onlyHead")}</small></div>`;
}
