/** The answer in one line: cost, bound, gap, what stays free, beside the usual sizing; and the button that solves. */
import { standing } from "./actions.js";
import { solve, stopWork } from "./asking.js";
import { progressText } from "./progress.js";
import { Promises } from "./promises.js";
import { settingOf } from "./scene.js";
import { count, dollars, percent, shareOf } from "./units.js";
import { html, t } from "./view.js";

const cardsText = (n) => (n === 1 ? t("cardNumber") : t("cardsNumber", { n: count(n) }));

export function Figures({ state, cards }) {
  const { plan, work, stale, checked } = state;
  const busy = work?.kind === "solve";
  const old = stale && plan && !busy && !checked;
  return html`<div class="figures">
    <dl>${plan && !busy ? answers(state, cards, old) : busy ? progress(work) : html`<div><dt>${t("cost")}</dt><dd>–</dd></div>`}</dl>
    <div class="solve">
      ${busy
        ? html`<button class="main" onClick=${stopWork}>${t("cancel")}</button>`
        : html`<button class="main" onClick=${() => solve()} disabled=${!state.fleet?.models.length || !state.fleet?.gpus.length}>${t("solve")}</button>`}
      <span class=${stale && !busy ? "warn small" : "quiet small"}>${busy ? (work.lines.length ? progressText(work.lines.at(-1), state.lang) : t("solving")) : checked ? t("moved") : stale ? t("stale") : plan ? t("solved") : ""}</span>
    </div>
  </div>
  ${old && html`<p class="quiet small old-note">${t("staleHow")}</p>`}
  ${plan && !busy && !checked && html`<${Promises} plan=${plan} old=${old} />`}`;
}

function answers(state, cards, old) {
  const { checked } = state;
  const plan = standing(state);
  const own = cards.filter((card) => card.parts.length);
  const used = own.length;
  const cost = plan.cost_per_hour;
  const units = cost === null || cost === undefined;
  const say = (value) => (value === null || value === undefined ? "–" : units ? cardsText(Math.ceil(value - 1e-9)) : dollars(value));
  const gap = plan.gap;
  const least = used ? Math.min(...own.map((card) => card.free / card.capacity)) : null; // of the fullest card, as every report has it
  const asked = shareOf(settingOf(state, "headroom"));
  const was = old ? "old" : "";
  const naive = plan.naive;
  return html`
    <div class=${was} title=${units ? t("noCost") : ""}><dt>${t("cost")}</dt><dd>${units ? cardsText(used) : dollars(cost)}${!units && html` <small>${cardsText(used)}</small>`}</dd></div>
    <div class=${was}><dt>${t("bound")}</dt><dd>${checked || !plan.feasible ? "–" : say(plan.lower_bound)}</dd></div>
    <div class=${was}><dt>${t("gap")}</dt><dd>${checked || !plan.feasible ? "–" : gap === null || gap === undefined ? "–" : percent(gap)}${!checked && !old && gap === 0 && plan.feasible && html` <small class="good">${t("proven")}</small>`}</dd></div>
    <div title=${t("headroomHow")}><dt>${t("headroomFigure")}</dt><dd class=${least !== null && least < 0 ? "bad" : ""}>${least === null ? "–" : percent(least)} <small>${t("askedShare", { share: percent(asked, 0) })}</small></dd></div>
    ${naive && html`<div class=${was} title=${t("usualHow")}><dt>${t("usual")}</dt><dd>${cardsText(naive.cards)}${used > 0 && naive.cards > used && html` <small>${t("fewer", { n: (naive.cards / used).toFixed(naive.cards / used < 10 ? 1 : 0) })}</small>`}</dd></div>`}
    ${!plan.feasible && html`<div class=${was}><dt class="bad">${t("infeasible")}</dt><dd class="bad">${plan.shortfalls.length}</dd></div>`}`;
}

function progress(work) {
  const say = (value) => (value === null || value === undefined ? "…" : work.priced ? dollars(Number(value)) : work.priced === false ? cardsText(Math.ceil(value - 1e-9)) : Number(value).toFixed(2));
  return html`<div><dt>${t("cost")}</dt><dd>${say(work.cost)}</dd></div><div><dt>${t("bound")}</dt><dd>${say(work.bound)}</dd></div>
    <div><dt>${t("gap")}</dt><dd>${work.gap === null || work.gap === undefined ? "…" : percent(work.gap)}</dd></div>
    <div class="bar-wait"><progress aria-label=${t("solving")}></progress></div>`;
}
