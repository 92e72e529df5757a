/** What a plan says of its promises: whose target may not hold, or does not beside busy neighbours. Never folded away. */
import { html, t } from "./view.js";

const PROMISE = /\b(target|SLO)\b|: steps take /; // as the terminal tells them apart (report/plan_text.py)

/** Warnings of a plan: [of promises, of the rest]. */
export const sorted = (warnings) => [warnings.filter((one) => PROMISE.test(one)), warnings.filter((one) => !PROMISE.test(one))];

export function Promises({ plan, old }) {
  const strained = (plan.strained ?? []).filter((one) => one.targets.length);
  const [told] = sorted(plan.warnings);
  const lines = strained.map((one) => ({ said: t("strained", { name: one.model, targets: one.targets.join(", "), neighbours: one.neighbours.join(", ") }), more: told.find((text) => text.startsWith(`${one.model} beside `) && text.includes(" at their peak")) }));
  const others = told.filter((text) => !lines.some((one) => one.more === text));
  if (!lines.length && !others.length) return null;
  return html`<div class=${old ? "promises old" : "promises"}><strong>${t("promises")}</strong><ul>
    ${lines.map((one, at) => html`<li key=${`strained ${at}`}>${one.said}${one.more && html` <span class="quiet" lang="en">${one.more}</span>`}</li>`)}
    ${others.map((one, at) => html`<li key=${at} lang="en">${one}</li>`)}</ul></div>`;
}
