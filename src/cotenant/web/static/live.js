/** A running gateway as it is now, asked every two seconds while the tab is open; more seldom while it does not answer. */
import { Code } from "./answer.js";
import { ask } from "./api.js";
import { set } from "./store.js";
import { gib, percent, seconds } from "./units.js";
import { html, t, useEffect, useState } from "./view.js";

const EVERY_MS = 2000;
const SELDOM_MS = 30000;
let key = ""; // of the gateway: here alone, so that no link and no storage ever holds it

export function Live({ state }) {
  useEffect(() => {
    let timer = 0;
    let gone = false;
    let wait = EVERY_MS;
    const look = async () => {
      const options = key ? { headers: { "X-Gateway-Key": key } } : {};
      const found = await ask("live", undefined, options).catch((error) => ({ missing: error.faults?.[0]?.error || t("offline"), hint: error.faults?.[0]?.hint, locked: error.status === 401 }));
      if (gone) return;
      set({ live: found });
      if (found.gateway === null || found.locked) return; // none was named at the start: none will be; or until there is a key
      wait = found.missing ? Math.min(2 * wait, SELDOM_MS) : EVERY_MS;
      timer = setTimeout(look, wait);
    };
    look();
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [state.doors]);
  const { live } = state;
  if (!live) return html`<p class="quiet">${t("loading")}</p>`;
  if (live.gateway === null) return html`<${Nobody} />`;
  if (live.locked) return html`<${Door} live=${live} />`;
  if (live.missing) return html`<div class="empty"><strong>${t("notServing")}</strong> <span>${t("liveHint")}</span><p class="quiet" lang="en">${live.missing}${live.hint && ` – ${live.hint}`}</p></div>`;
  return html`<${Status} live=${live} fleet=${state.fleet} />`;
}

/** Where the server was started without a gateway. */
function Nobody() {
  return html`<div class="empty"><strong>${t("noGateway")}</strong> <span>${t("liveHint")}</span>
    <p>${t("noGatewayHint")}</p><${Code} text="cotenant ui --gateway http://127.0.0.1:8080" label=${t("command")} words /></div>`;
}

/** Where the gateway wants a key. */
function Door({ live }) {
  const [text, setText] = useState("");
  const open = (event) => {
    event.preventDefault();
    key = text.trim();
    set(({ doors }) => ({ live: null, doors: doors + 1 }));
  };
  return html`<form class="bar-form door" onSubmit=${open}><p class="quiet" lang="en">${live.missing}</p><label class="compact">${t("gatewayKey")}
    <input id="gateway-key" type="password" autocomplete="off" spellcheck="false" value=${text} onInput=${(event) => setText(event.target.value)} /></label>
    <button class="main" disabled=${!text.trim()}>${t("follow")}</button><span class="quiet small">${t("gatewayKeyHint")}</span></form>`;
}

/** The samples of the metrics whose name ends so, by the label `by`. */
function metric(live, ends, by) {
  const found = {};
  for (const one of live.metrics ?? []) if (one.name.endsWith(ends)) found[one.labels[by] ?? ""] = (found[one.labels[by] ?? ""] ?? 0) + one.value;
  return found;
}

/** "3s", "800ms" as a fleet file has them; null where there is no target. */
function secondsOf(text) {
  const found = /^\s*([0-9.]+)\s*(us|µs|ms|s|m|min)\s*$/.exec(text ?? "");
  return found ? Number(found[1]) * { us: 1e-6, "µs": 1e-6, ms: 1e-3, s: 1, m: 60, min: 60 }[found[2]] : null;
}

/** What a model's requests were against a target: the share of them within it, counted up to the bucket below it; the
 *  mean where there is none; a dash where nothing was measured. `kind`: the histogram, `name`: what it is called here. */
function within(live, kind, name, model, target) {
  const of = (part) => live.metrics.filter((one) => one.name === `cotenant_${kind}_seconds_${part}` && one.labels.model === model);
  const count = of("count")[0]?.value;
  if (!count) return `${name} –`;
  if (target === null || target === undefined) return `${name} Ø ${seconds(of("sum")[0].value / count)}`;
  const below = of("bucket").map((one) => ({ limit: Number(one.labels.le), value: one.value })).filter((one) => one.limit <= target * 1.000001).sort((a, b) => b.limit - a.limit)[0];
  return `${name} ${percent((below?.value ?? 0) / count, 0)} ≤ ${seconds(below?.limit ?? target)}`;
}

/** Who holds what of a device, as far as the gateway tells: replicas do not say where they lie, so with several devices
 *  it is one sum. */
function shares(status, device) {
  const known = status.devices.length > 1 ? [] : status.replicas.filter((one) => one.held_bytes > 0).map((one) => ({ model: one.model, bytes: one.held_bytes }));
  const rest = device.held_bytes - known.reduce((sum, one) => sum + one.bytes, 0);
  return rest < 0 ? [{ model: null, bytes: device.held_bytes }] : [...known, { model: null, bytes: rest }];
}

const heldOf = (device) => t("heldOf", { held: gib(device.held_bytes), capacity: gib(device.capacity_bytes) });

function Status({ live, fleet }) {
  const { status } = live;
  const order = [...new Set([...fleet.models, ...status.models].map((one) => one.name).concat(status.replicas.map((one) => one.model)))];
  const colour = (name) => order.indexOf(name) % 8; // the page's own fleet first: a gateway may serve another one
  const swaps = metric(live, "_evictions_total", "replica"); // each makes room for who wakes or starts
  const targets = Object.fromEntries(fleet.models.map((one) => [one.name, one.slo]));
  const slo = (name) => [within(live, "first_byte", "TTFT", name, secondsOf(targets[name]?.ttft)), within(live, "event", "TPOT", name, secondsOf(targets[name]?.tpot))].join(" · ");
  return html`<p class="quiet small">${live.gateway}</p><div class="lives">
    <section><h3>${t("queue")}</h3><ul class="plainlist">${status.models.map((one) => html`<li key=${one.name} class=${`c${colour(one.name)}`}><i class="swatch weights"></i>${one.name}<span class="num">${one.waiting}</span>
      <span class="quiet slo">${t("slo")} ${slo(one.name)}</span></li>`)}</ul></section>
    <section><h3>${t("residency")}</h3><div class="wide" tabindex="0" role="region" aria-label=${t("residency")}><table><thead><tr><th class="l" scope="col">${t("replica")}</th><th class="l" scope="col">${t("state")}</th><th scope="col">${t("requests")}</th><th scope="col">GiB</th><th scope="col">${t("swaps")}</th></tr></thead>
      <tbody>${status.replicas.map((one) => html`<tr key=${one.id}><th class=${`l c${colour(one.model)}`} scope="row"><i class="swatch weights"></i>${one.id}</th><td class="l">${one.state.replaceAll("_", " ")}${one.reason && html` <span class="bad" lang="en">${one.reason}</span>`}</td>
        <td>${one.running} / ${one.slots}</td><td>${one.held_bytes ? gib(one.held_bytes).replace(" GiB", "") : "–"}</td><td>${swaps[one.id] ?? "–"}</td></tr>`)}</tbody></table></div></section>
    <section><h3>${t("ledger")}</h3>${status.devices.map((device) => html`<div key=${device.name} class="ledger"><div class="cardline"><strong>${device.name}</strong><span class="grow"></span><span class="quiet">${heldOf(device)}</span></div>
      <div class="bar thin" role="img" aria-label=${heldOf(device)}>${shares(status, device).map(({ model, bytes }, at) => html`<span key=${at} class=${model === null ? "seg used" : `seg weights c${colour(model)}`} style=${{ width: `${(100 * bytes) / device.capacity_bytes}%` }}></span>`)}</div></div>`)}</section>
  </div>`;
}
