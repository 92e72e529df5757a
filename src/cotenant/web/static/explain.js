/** A pasted log: what the engine printed beside what was predicted, and what would have worked. */
import { explain } from "./asking.js";
import { Code } from "./answer.js";
import { set } from "./store.js";
import { gib } from "./units.js";
import { html, t } from "./view.js";

const ORDER = ["weights", "kv_cache", "activations", "runtime"];

export function Explain({ state }) {
  return html`<div class="split">
    <form class="ask" onSubmit=${(event) => { event.preventDefault(); explain(); }}>
      <label for="log">${t("log")}</label><p class="quiet small">${t("explainHint")}</p>
      <textarea id="log" rows="10" spellcheck=${false} value=${state.log} onInput=${(event) => set({ log: event.target.value })}></textarea>
      <label class="compact" for="log-model">${t("ofWhich")} <input id="log-model" type="text" list="log-models" autocomplete="off" spellcheck=${false} placeholder=${t("asLogged")} value=${state.logModel} onInput=${(event) => set({ logModel: event.target.value })} />
        <datalist id="log-models">${modelsFirst(state).map(([id, name]) => html`<option key=${id} value=${id}>${name}</option>`)}</datalist></label>
      <label class="compact" for="log-card">${t("onWhich")} <select id="log-card" value=${state.logCard} onChange=${(event) => set({ logCard: event.target.value })}>
        <option value="">${t("asLogged")}</option>${cardsFirst(state).map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></label>
      <button class="main" disabled=${state.reading || !state.log.trim()}>${t("explain")}</button>
    </form>
    <div>${state.reading && html`<p class="quiet" role="status">${t("explaining")}</p>`}${state.explanation && html`<${Found} found=${state.explanation} />`}</div></div>`;
}

/** The fleet's own cards before the others. */
function cardsFirst({ catalogue, fleet }) {
  const own = fleet.gpus.map((pool) => pool.type);
  return [...new Set([...own, ...catalogue.gpus.map((one) => one.name)])];
}

/** [what it is asked by, how it is called], the fleet's own before the catalogue's. */
function modelsFirst({ catalogue, fleet }) {
  const own = fleet.models.filter((one) => typeof one.model === "string").map((one) => [one.model, one.name]);
  return [...new Map([...catalogue.models.map((one) => [one.name, ""]), ...own])].sort(([a], [b]) => own.some(([id]) => id === b) - own.some(([id]) => id === a));
}

function Found({ found }) {
  const bad = found.shortfall_bytes > 0;
  return html`<article class="found"><h3 lang="en">${found.cause || found.verdict}</h3>
    ${bad && html`<p class="bad">${t("shortfall", { size: gib(found.shortfall_bytes, 2) })}</p>`}
    ${found.per_gpu.map((share) => html`<${Share} key=${share.name} share=${share} />`)}
    ${found.changes.length > 0 && html`<h4>${t("changes")}</h4><ul class="changes" lang="en">${found.changes.map((one, at) => html`<li key=${at}><${Code} text=${`${one.argument || one.flag} ${one.becomes === true ? "" : (one.becomes ?? "")}`.trim()} label=${one.argument || one.flag} words />
      <span class="quiet small">${[one.was != null && t("was", { value: one.was }), one.spare_bytes != null && t("toSpare", { size: gib(one.spare_bytes, 2) })].filter(Boolean).join(" · ")}</span></li>`)}</ul>`}
    ${found.advice?.length > 0 && html`<h4>${t("advice")}</h4><ul class="changes" lang="en">${found.advice.map((one, at) => html`<li key=${at}>${one}</li>`)}</ul>`}
    ${found.assumed?.length > 0 && html`<p class="quiet small" lang="en">${found.assumed.join("; ")}</p>`}</article>`;
}

function Share({ share }) {
  const rows = Object.entries(share).filter(([, value]) => value && typeof value === "object" && "printed" in value && (value.printed !== null || value.predicted !== null));
  rows.sort(([a], [b]) => rank(a) - rank(b));
  const most = Math.max(1, share.capacity_bytes ?? 0, ...rows.flatMap(([, pair]) => [pair.printed ?? 0, pair.predicted ?? 0]));
  const bar = (bytes, term) => bytes != null && html`<i class=${`mini ${term} c0`} style=${{ width: `${(100 * bytes) / most}%` }}></i>`;
  return html`<div class="wide" tabindex="0" role="region" aria-label=${share.name || t("term")}><table><caption>${[share.name, share.capacity_bytes && gib(share.capacity_bytes)].filter(Boolean).join(" · ")}</caption>
    <thead><tr><th class="l" scope="col">${t("term")}</th><th scope="col">${t("measured")}</th><th scope="col">${t("predicted")}</th><th class="l" scope="col"><span class="unseen">${t("toScale")}</span></th></tr></thead>
    <tbody>${rows.map(([name, pair]) => {
      const term = name.replace(/_bytes$/, "");
      return html`<tr key=${name}><th class="l" scope="row">${t(term)}</th><td>${pair.printed == null ? "–" : gib(pair.printed, 2)}</td><td>${pair.predicted == null ? "–" : gib(pair.predicted, 2)}</td>
        <td class="l barcell">${bar(pair.printed, term)}${bar(pair.predicted, term)}</td></tr>`;
    })}</tbody></table></div>`;
}

const rank = (name) => {
  const at = ORDER.indexOf(name.replace(/_bytes$/, ""));
  return at < 0 ? 9 : at;
};
