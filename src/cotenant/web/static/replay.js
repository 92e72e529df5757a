/** The simulator's answer: who kept its targets, and how it went over time. */
import { replay, stopWork } from "./asking.js";
import { Plot } from "./plot.js";
import { progressText } from "./progress.js";
import { get, set } from "./store.js";
import { count, percent, seconds } from "./units.js";
import { html, t } from "./view.js";

const GIB = 2 ** 30;
const SHARES = Array.from({ length: 101 }, (_, at) => at);

export function Replay({ state }) {
  const { catalogue, policy, seed, work, replay: found } = state;
  const busy = work?.kind === "replay";
  return html`<form class="bar-form" onSubmit=${(event) => { event.preventDefault(); replay(); }}>
      <label class="compact">${t("policy")} <select id="policy" value=${policy} onChange=${(event) => set({ policy: event.target.value })}>${(catalogue.policies ?? ["static"]).map((one) => html`<option key=${one}>${one}</option>`)}</select></label>
      <label class="compact">${t("seed")} <input id="seed" type="number" min="0" value=${seed} onChange=${(event) => set({ seed: Math.max(0, Number.parseInt(event.target.value, 10) || 0) })} /></label>
      ${busy ? html`<button type="button" class="main" onClick=${stopWork}>${t("cancel")}</button><progress aria-label=${t("replaying")}></progress><span class="quiet small">${work.lines.length ? progressText(work.lines.at(-1), state.lang) : t("replaying")}</span>`
        : html`<button class="main" disabled=${!state.plan}>${t("replay")}</button><span class="quiet small">${t("replayHint")}</span>`}
      <${Conditions} state=${state} />
    </form>
    ${found && !busy && html`<${Found} found=${found} order=${state.fleet.models.map((one) => one.name)} />`}`;
}

const WRITTEN = { duration: "300s", arrivals: "poisson · gamma:2 · on-off:30s/90s", patience: "10s", residency: "5s", hold: "0s", timeout: "", fail: "chat-0@120s+60s · mtbf:2h+90s" };

/** What the traffic and the machines are like meanwhile, in the command line's own words. */
function Conditions({ state }) {
  const { catalogue, conditions } = state;
  const change = (key) => (event) => set({ conditions: { ...get().conditions, [key]: event.target.value } });
  const said = Object.values(conditions).filter((text) => String(text).trim()).length;
  const choose = (key, words) => html`<label class="knob"><span>${t(key)}</span><select id=${`when-${key}`} value=${conditions[key] ?? ""} onChange=${change(key)}>
    ${words.map((one, at) => html`<option key=${one} value=${at ? one : ""}>${one}</option>`)}</select></label>`;
  return html`<details class="conditions"><summary>${t("conditions")}${said ? ` (${said})` : ""}</summary><div class="grid">
    ${Object.entries(WRITTEN).map(([key, hint]) => html`<label key=${key} class="knob"><span>${t(key)}</span><input type="text" id=${`when-${key}`} value=${conditions[key] ?? ""} placeholder=${hint || t("never")} onInput=${change(key)} /></label>`)}
    ${choose("dispatch", catalogue.dispatches ?? [])}${choose("preempt", catalogue.preempts ?? [])}
  </div></details>`;
}

function Found({ found, order }) {
  const colour = (name) => Math.max(0, order.indexOf(name)) % 8;
  const line = found.timeline;
  const times = line ? line.models[0]?.arrivals.map((_, at) => (at + 0.5) * line.part_s) : null;
  const wakes = found.replicas.some((one) => one.wakes);
  const series = (pick, scale = 1) => line.models.map((one) => ({ name: one.model, colour: colour(one.model), values: pick(one)?.map((value) => (value === null ? null : value * scale)) ?? [] }));
  const latency = (field, title, unit, scale) => html`
    ${line && html`<${Plot} title=${`${title}, ${t("overTime")}`} x=${times} series=${series((one) => one[field], scale)} unit=${unit} xUnit=${t("second")} />`}`;
  const spread = (field, title, unit, scale) => html`<${Plot} title=${`${title}, ${t("byShare")}`} x=${SHARES} unit=${unit} xUnit=${t("share")}
    series=${found.models.filter((one) => one.curves[field]?.length).map((one) => ({ name: one.model, colour: colour(one.model), values: one.curves[field].map((value) => value * scale) }))} />`;
  return html`<${Verdict} found=${found} /><${Table} found=${found} colour=${colour} />
    <div class="plots">
      ${latency("ttft_s", t("ttft"), "s", 1)}${latency("tpot_s", t("tpot"), "ms", 1000)}
      ${line && html`<${Plot} title=${`${t("memory")}, ${t("overTime")}`} x=${times} unit="GiB" xUnit=${t("second")}
        series=${line.memory.map((one) => ({ name: one.replica, colour: colour(found.replicas.find((each) => each.id === one.replica)?.model ?? one.replica), values: one.fixed_bytes.map((bytes, at) => (bytes + one.kv_bytes[at]) / GIB) }))} />
        <${Plot} title=${`${t("waiting")}, ${t("overTime")}`} x=${times} unit="" xUnit=${t("second")} series=${series((one) => one.waiting)} />
        <${Plot} title=${`${t("running")}, ${t("overTime")}`} x=${times} unit="" xUnit=${t("second")} series=${series((one) => one.running)} />
        ${wakes ? html`<${Plot} title=${`${t("swaps")}, ${t("overTime")}`} x=${times} unit="" xUnit=${t("second")} series=${swaps(line, found, colour)} />`
          : html`<figure class="plot"><figcaption>${t("swaps")}</figcaption><p class="quiet">${t("noSwaps")}</p></figure>`}`}
      ${spread("ttft_s", t("ttft"), "s", 1)}${spread("tpot_s", t("tpot"), "ms", 1000)}
    </div>`;
}

/** Swaps so far, counted where what a replica holds apart from its cache grows: it was woken. */
function swaps(line, found, colour) {
  return line.memory.map((one) => {
    const most = Math.max(...one.fixed_bytes);
    let [sum, asleep] = [0, true];
    const values = one.fixed_bytes.map((bytes) => {
      const awake = bytes > 0.5 * most;
      if (awake && asleep) sum += 1;
      asleep = !awake;
      return sum;
    });
    return { name: one.replica, colour: colour(found.replicas.find((each) => each.id === one.replica)?.model), values };
  });
}

/** The first thing to know: who kept its promises. A model that nobody asked proves nothing. */
function Verdict({ found }) {
  const promised = found.models.filter((one) => one.slo_held !== null);
  const names = (models) => models.map((one) => one.model).join(", ");
  const [idle, broken] = [promised.filter((one) => !one.requests), promised.filter((one) => one.requests && !one.slo_held)];
  const said = !promised.length ? t("nothingPromised") : broken.length ? t("brokenBy", { names: names(broken) }) : idle.length === promised.length ? "" : t(idle.length ? "allAskedHeld" : "allHeld");
  return html`<p class=${`verdict ${broken.length ? "bad" : said && promised.length ? "good" : "quiet"}`}>${[said, idle.length && t("nobodyAsked", { names: names(idle) })].filter(Boolean).join(" · ")}</p>`;
}

function Table({ found, colour }) {
  return html`<div class="wide" tabindex="0" role="region" aria-label=${t("tabReplay")}><table><thead><tr><th class="l" scope="col">${t("model")}</th><th scope="col">SLO</th><th scope="col">${t("requests")}</th><th scope="col">TTFT p95</th><th scope="col">TPOT p95</th><th scope="col">${t("preemptions")}</th><th scope="col">${t("wakes")}</th></tr></thead>
    <tbody>${found.models.map((one) => {
      const wakes = found.replicas.filter((each) => each.model === one.model && each.wakes !== null);
      return html`<tr key=${one.model}><th class=${`l c${colour(one.model)}`} scope="row"><i class="swatch weights"></i>${one.model}</th>
        <td class=${one.slo_held === false ? "bad" : one.slo_held && one.requests ? "good" : "quiet"}>${one.slo_held === null ? t("noTarget") : !one.requests ? t("notAsked") : `${one.slo_held ? t("held") : t("broken")} · ${percent(one.attainment)}`}</td>
        <td>${count(one.finished)} / ${count(one.requests)}</td><td>${seconds(one.ttft_s?.p95)}</td><td>${seconds(one.tpot_s?.p95)}</td>
        <td>${count(one.preemptions)}</td><td>${wakes.length ? count(wakes.reduce((sum, each) => sum + each.wakes, 0)) : "–"}</td></tr>`;
    })}</tbody></table></div>
    ${found.warnings.length > 0 && html`<details class="remarks"><summary>${t("warnings")} (${found.warnings.length})</summary><ul lang="en">${found.warnings.map((one, at) => html`<li key=${at}>${one}</li>`)}</ul></details>`}`;
}
