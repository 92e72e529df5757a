/** Sliders: what one replica would take if its traffic, precision or settings were others. Answers come as they move. */
import { standing } from "./actions.js";
import { move } from "./moves.js";
import { contextOf, turn, turnHeadroom, turnHeld } from "./sliders.js";
import { engineOf, scene, settingOf } from "./scene.js";
import { get } from "./store.js";
import { count, percent, shareOf } from "./units.js";
import { html, t } from "./view.js";

const KV = ["auto", "fp8"];

export function Knobs({ state }) {
  const { fleet, picked, tune, catalogue } = state;
  const plan = standing(state);
  const replica = plan?.replicas.find((one) => one.id === picked);
  const model = replica && fleet.models.find((one) => one.name === replica.model);
  const held = 100 * (1 - shareOf(settingOf(state, "kv_overflow")));
  const headroom = 100 * shareOf(settingOf(state, "headroom"));
  const answer = state.answers[picked]?.document;
  return html`<section class="knobs" aria-labelledby="knobs-head">
    <div class="knobs-head"><h2 id="knobs-head">${replica ? t("knobsOf", { name: replica.id }) : t("knobs")}</h2>
      ${answer && html`<span class=${answer.verdict === "fits" ? "good" : "bad"}>${t(answer.verdict)}</span>`}
      <span class="grow"></span>
      ${replica && html`<${MoveTo} state=${state} replica=${replica} />`}</div>
    <div class="grid">
      ${model && html`<${OfModel} key=${model.name} model=${model} replica=${replica} tuned=${tune[model.name] ?? {}} formats=${catalogue.quantizations} />`}
      <${Slider} id="held" label=${t("contextHeld")} min=${0} max=${40} step=${1} value=${stepOfHeld(held)} text=${`${held.toFixed(held > 99 ? 2 : 1)} %`} onTurn=${(step, at) => turnHeld(heldOf(step), at)} />
      <${Slider} id="headroom" label=${t("headroomKnob")} min=${0} max=${40} step=${1} value=${headroom} text=${percent(headroom / 100, 0)} onTurn=${(value) => turnHeadroom(value)} />
    </div>
    ${answer?.reason && html`<p class="reason" lang="en">${answer.reason}</p>`}
  </section>`;
}

/* Overflow from 10 % down to 0.1 %, even steps of its logarithm. */
const heldOf = (step) => 100 - 10 * 10 ** (-step / 20);
const stepOfHeld = (held) => Math.round(Math.max(0, Math.min(40, -20 * Math.log10((100 - held) / 10))));

function OfModel({ model, replica, tuned, formats }) {
  const { traffic } = model;
  const context = contextOf(traffic);
  const turned = (knob, value, at) => turn(model.name, knob, value, at);
  const wished = model.quantization?.length === 1 ? model.quantization[0] : null;
  const format = wished === null ? "" : typeof wished === "string" ? wished : Object.keys(wished)[0];
  const share = engineOf(get().catalogue, replica)?.utilisation; // what the engine calls it; null where it has none
  return html`
    <${Slider} id="context" label=${t("context")} min=${7} max=${17} step=${0.05} value=${Math.log2(Math.max(128, context))} text=${t("tokens", { n: count(context) })}
      onTurn=${(value, at) => turned("context", Math.round(2 ** value), at)} />
    ${traffic.concurrent !== undefined
      ? html`<${Slider} id="concurrent" label=${t("concurrency")} min=${0} max=${8} step=${0.1} value=${Math.log2(traffic.concurrent)} text=${count(traffic.concurrent)} onTurn=${(value, at) => turned("concurrent", Math.round(2 ** value), at)} />`
      : html`<${Slider} id="rate" label=${t("rate")} min=${-2} max=${2} step=${0.02} value=${Math.log10(traffic.requests_per_second ?? 1)} text=${`${traffic.requests_per_second}/s`} onTurn=${(value, at) => turned("rate", Number((10 ** value).toPrecision(2)), at)} />`}
    <${Choice} id="precision" label=${t("precision")} value=${format} onTurn=${(value, at) => turned("precision", value, at)}
      options=${[["", t("planned", { format: replica.quantization })], ...formats.map((one) => [one.name, one.name])]} />
    <${Choice} id="kv-dtype" label=${t("kvDtype")} value=${model.kv_cache_dtype?.[0] ?? ""} onTurn=${(value, at) => turned("kvDtype", value, at)}
      options=${[["", t("planner")], ...KV.map((one) => [one, one === "auto" ? t("auto") : one])]} />
    ${share && html`<${Slider} id="utilisation" label=${t("utilisation")} title=${share} min=${4} max=${98} step=${1} value=${Math.round(100 * (tuned.utilisation ?? replica.gpu_memory_utilization ?? 0.9))}
      text=${tuned.utilisation === undefined ? t("byTraffic") : tuned.utilisation.toFixed(2)} onTurn=${(value, at) => turned("utilisation", value / 100, at)}
      reset=${tuned.utilisation === undefined ? null : () => turned("utilisation", undefined)} />`}`;
}

function Slider({ id, label, title, min, max, step, value, text, onTurn, reset }) {
  return html`<div class="knob" title=${title}><label for=${`knob-${id}`}>${label}</label><output for=${`knob-${id}`}>${text}${reset && html` <button class="plain x" onClick=${reset} aria-label=${t("undoMove")}>×</button>`}</output>
    <input id=${`knob-${id}`} type="range" min=${min} max=${max} step=${step} value=${value} aria-valuetext=${text}
      onInput=${(event) => onTurn(Number(event.target.value), event.timeStamp || performance.now())} /></div>`;
}

function Choice({ id, label, value, options, onTurn }) {
  return html`<div class="knob"><label for=${`knob-${id}`}>${label}</label>
    <select id=${`knob-${id}`} value=${value} onChange=${(event) => onTurn(event.target.value, event.timeStamp)}>
      ${options.map(([key, title]) => html`<option key=${key} value=${key}>${title}</option>`)}</select></div>`;
}

/** For those who do not drag: the same move from a list. */
function MoveTo({ state, replica }) {
  const cards = scene(state);
  const home = cards.find((card) => card.parts.some((part) => part.id === replica.id))?.key ?? "";
  if (cards.length < 2) return null;
  const choose = (event) => move(replica.id, cards.find((card) => card.key === event.target.value));
  return html`<label class="compact">${t("moveTo")} <select value=${home} onChange=${choose} id="move-to">
    ${cards.map((card) => html`<option key=${card.key} value=${card.key}>${card.key === home ? t("stays", { card: card.key }) : card.key}</option>`)}</select></label>`;
}
