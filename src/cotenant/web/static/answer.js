/** The plan in words: each replica, why it is so, what came second, and the command that starts it. */
import { standing } from "./actions.js";
import { sorted } from "./promises.js";
import { count, seconds } from "./units.js";
import { html, t, useState } from "./view.js";

export function Answer({ state }) {
  const plan = standing(state);
  if (!plan) return html`<p class="quiet">${t("nothing")} ${t("nothingHint")}</p>`;
  const order = state.fleet.models.map((one) => one.name);
  const [, remarks] = sorted(plan.warnings); // what is said of promises stands beside the figures
  return html`<ul class="answers">${plan.replicas.map((one) => html`<${Replica} key=${one.id} one=${one} percentile=${state.fleet.models.find((each) => each.name === one.model)?.slo?.percentile ?? 95} moved=${state.checked && homes(one) !== homes(state.plan.replicas.find((was) => was.id === one.id))} colour=${Math.max(0, order.indexOf(one.model)) % 8} />`)}</ul>
    ${(plan.turns ?? []).map((turn) => html`<p key=${turn.models.join()} class="turns">${t("turns", { names: turn.models.join(", "), swaps: Number(turn.swaps_per_day.toPrecision(2)), wait: seconds(Math.max(...Object.values(turn.first_wait_s))) })}</p>`)}
    ${remarks.length > 0 && html`<details class="remarks"><summary>${t("warnings")} (${remarks.length})</summary><ul lang="en">${remarks.map((one, at) => html`<li key=${at}>${one}</li>`)}</ul></details>`}`;
}

const homes = (one) => one?.devices.map((device) => `${device.type} #${device.node}.${device.index}`).join(", ");

/** "1.07 s (0.21 to 7.5 s)": an estimate with its 90 % interval. */
const estimated = (found) => (found ? `${seconds(found[1])} (${seconds(found[0])} – ${seconds(found[2])})` : "–");

function Replica({ one, colour, percentile, moved }) {
  return html`<li class=${`answer c${colour}`}>
    <h3><i class="swatch weights"></i>${one.id} <small class="quiet">${one.quantization} · ${one.engine}</small></h3>
    <p class="quiet small">${[t("onCard", { cards: homes(one) }), t("contextLimit", { n: count(one.max_model_len) }), t("slots", { n: count(one.max_num_seqs) }),
      !moved && one.ttft_s && t("latency", { ttft: estimated(one.ttft_s), tpot: estimated(one.tpot_s), percentile })].filter(Boolean).join(" · ")}</p>
    ${moved ? html`<p>${t("moved")}</p>` : html`<p lang="en">${one.why}</p>`}
    ${!moved && one.runner_up && html`<p class="quiet" lang="en">${one.runner_up}</p>`}
    <${Code} text=${one.command} words /></li>`;
}

const FLAGS = /(--\S+ +(?!-)\S+|\S+)/; // a flag with its value, or a word

/** Text to take away, with a button that copies it. Lines are as they are, and scroll; `words`: one long line, which
 *  breaks between words alone, never inside a flag. */
export function Code({ text, label, words }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text).catch(() => {});
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<div class=${words ? "code words" : "code"}><button class="plain" onClick=${copy} aria-label=${label ? `${t("copy")} ${label}` : t("copy")}>${done ? t("copied") : t("copy")}</button>
    <pre tabindex="0" aria-label=${label ?? t("command")}><code>${words ? text.split(FLAGS).map((one, at) => (at % 2 ? html`<span key=${at}>${one}</span>` : one)) : text}</code></pre></div>`;
}
