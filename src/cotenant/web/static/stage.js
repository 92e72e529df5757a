/** The heart: every card as a bar, all to one scale, each replica's bytes by term. */
import { standing } from "./actions.js";
import { undoMoves } from "./moves.js";
import { drags, onCardKey } from "./carry.js";
import { reasonsOf } from "./reasons.js";
import { TERMS } from "./scene.js";
import { set } from "./store.js";
import { dollars, gib, percent } from "./units.js";
import { html, t, useEffect, useRef, useState } from "./view.js";

export function Stage({ state, cards }) {
  const [tip, setTip] = useState(null);
  const widest = Math.max(1, ...cards.map((card) => Math.max(card.capacity, card.taken)));
  const placed = cards.some((card) => card.parts.length);
  return html`<div class=${state.carried ? "stage carrying" : "stage"} onPointerLeave=${() => setTip(null)}>
    ${!placed && !state.work && html`<div class="empty"><strong>${t("nothing")}</strong> <span>${t("nothingHint")}</span></div>`}
    <${Checked} state=${state} />
    <${Unplaced} state=${state} />
    <ol class="bars">${cards.map((card) => html`<${Card} key=${card.key} card=${card} widest=${widest} state=${state} tip=${setTip} />`)}</ol>
    <div class="legend" role="list" aria-label=${t("legend")}>
      ${[...TERMS, "reserve"].map((term) => html`<span role="listitem" key=${term}><i class=${`swatch ${term}`}></i>${t(term)}</span>`)}
      <span class="quiet" role="listitem">${t("toScale")}</span>
    </div>
    <p class="quiet small hint">${t("dragHint")}</p>
    <${Tip} tip=${state.carried ? null : tip} />
  </div>`;
}

function Card({ card, widest, state, tip }) {
  const whole = Math.max(card.capacity, card.taken);
  const wide = (bytes) => `${(100 * bytes) / whole}%`;
  const over = card.free < 0;
  const tight = !over && !card.ghost && card.parts.length > 0 && card.free < card.reserve;
  const target = state.over === card.key;
  const name = `${card.type} #${card.node}.${card.index}`;
  return html`<li class=${`card ${card.ghost ? "ghost" : ""} ${target ? "target" : ""}`} data-card=${card.key}>
    <div class="cardline"><strong>${card.type}</strong><span class="quiet"> #${card.node}.${card.index}</span>
      ${card.price != null && html`<span class="quiet">${dollars(card.price)}</span>`}
      ${card.spare && html`<span class="badge">${t("spareCard")}</span>`}
      <span class="grow"></span>
      <span class=${over ? "bad" : tight ? "warn" : "quiet"}>${over ? t("overBy", { size: gib(-card.free) }) : card.ghost ? t("notUsed", { capacity: gib(card.capacity) }) : t("freeOf", { free: gib(card.free), capacity: gib(card.capacity) })}
        ${tight && ` · ${t("belowHeadroom", { share: percent(card.reserve / card.capacity, 0) })}`}</span></div>
    <div class=${over ? "bar over" : "bar"} style=${{ width: `${(100 * whole) / widest}%` }} role="group" aria-label=${name}>
      ${card.used > 0 && html`<span class="seg used" style=${{ width: wide(card.used) }} onPointerMove=${(event) => tip(used(event, card))}></span>`}
      ${card.parts.map((part) => html`<${Part} key=${part.id} part=${part} card=${card} state=${state} wide=${wide} tip=${tip} />`)}
      ${card.free > 0 && html`<span class="seg free" style=${{ width: wide(card.free) }} onPointerMove=${(event) => tip(free(event, card))}>
        <span class="seg reserve" style=${{ width: `${Math.min(100, (100 * card.reserve) / card.free)}%` }}></span></span>`}
      ${over && html`<span class="edge" style=${{ left: wide(card.capacity) }}></span>`}
    </div>
    <div class="names">${card.parts.map((part) => html`<${Label} key=${part.id} part=${part} card=${card} state=${state} tip=${tip} />`)}
      </div>
  </li>`;
}

function Part({ part, card, state, wide, tip }) {
  const classes = `part c${Math.max(0, part.colour) % 8} ${state.picked === part.id ? "picked" : ""} ${state.carried === part.id ? "carried" : ""} ${part.asleep ? "asleep" : ""}`;
  return html`<span class=${classes} style=${{ width: wide(part.bytes) }} data-replica=${part.id} ...${drags(part.id)}>
    ${TERMS.map((term) => html`<span key=${term} class=${`seg ${term}`} style=${{ width: `${(100 * part.terms[term]) / part.bytes}%` }}
      onPointerMove=${(event) => tip(term_(event, part, term, card))}></span>`)}
  </span>`;
}

/** The name under a bar: chooses the replica, says its bytes, is what the keyboard carries. */
function Label({ part, card, state, tip }) {
  const picked = state.picked === part.id;
  const show = (event) => tip(whole(event, part, card));
  return html`<button class=${`label c${Math.max(0, part.colour) % 8} ${picked ? "picked" : ""} ${state.carried === part.id ? "carried" : ""}`} aria-pressed=${picked}
      data-replica=${part.id} title="" onClick=${() => set({ picked: part.id })} onFocus=${show} onBlur=${() => tip(null)}
      onKeyDown=${(event) => onCardKey(event, part.id, card.key)} ...${drags(part.id)}>
    <i class="swatch weights"></i><span class="name">${part.id}</span><span class="size">${gib(part.bytes)}${part.asleep && ` ${t("asleep")}`}</span>
    ${part.changed && part.verdict !== "fits" && html`<span class="badge">${t(part.verdict)}</span>`}</button>`;
}

/* ---- where each byte comes from ---- */

const place = (event) => {
  const box = event.currentTarget.getBoundingClientRect();
  return event.type === "focus" ? { x: box.left, y: box.bottom } : { x: event.clientX, y: box.bottom };
};
const term_ = (event, part, term, card) => ({ ...place(event), part, term, card, key: `${part.id} ${term}` });
const whole = (event, part, card) => ({ ...place(event), part, card, key: part.id });
const used = (event, card) => ({ ...place(event), card, title: t("used"), bytes: card.used, key: `${card.key} used` });
const free = (event, card) => ({ ...place(event), card, title: t("free"), bytes: card.free, key: `${card.key} free` });

function Tip({ tip }) {
  const [found, setFound] = useState(null);
  const box = useRef(null);
  const key = tip?.key ?? null;
  useEffect(() => {
    setFound(null);
    if (!tip?.part) return undefined;
    const { part } = tip;
    if (part.why) {
      setFound({ key, why: part.why, intervals: part.changed ? null : part.intervals });
      return undefined;
    }
    let gone = false;
    const replica = standing()?.replicas.find((one) => one.id === part.id);
    const wait = setTimeout(async () => {
      const document = replica && (await reasonsOf(replica));
      if (!gone && document) setFound({ key, why: document.per_gpu[0].why, intervals: document.per_gpu[0].intervals });
    }, 60);
    return () => {
      gone = true;
      clearTimeout(wait);
    };
  }, [key, tip?.part?.bytes]);
  if (!tip) return null;
  const { part, card, term } = tip;
  const known = found?.key === key ? found : null;
  const left = Math.max(8, Math.min(tip.x + 12, innerWidth - 336));
  const rows = term ? [term] : TERMS;
  const span = term && term !== "kv_cache" && known?.intervals?.[`${term}_bytes`];
  return html`<div class="tip" role="tooltip" ref=${box} style=${{ left: `${left}px`, top: `${tip.y + 10}px` }}>
    ${part
      ? html`<strong>${part.id}</strong>${term ? html` <span>· ${t(term)}</span>` : ""}
        ${rows.map((one) => html`<div key=${one} class="row"><span><i class=${`swatch ${one} c${Math.max(0, part.colour) % 8}`}></i>${t(one)}</span>
          <span class="num">${gib(part.terms[one], 2)}</span></div>${known?.why?.[one] && html`<p class="quiet" lang="en">${known.why[one]}</p>`}`)}
        ${span && html`<p class="quiet">${t("interval", { low: gib(span[0], 2), high: gib(span[1], 2) })}</p>`}
        <p class="quiet">${t("ofCard", { share: percent((term ? part.terms[term] : part.bytes) / card.capacity) })}</p>
        ${part.changed && part.reason && html`<p lang="en">${part.reason}</p>`}`
      : html`<div class="row"><strong>${tip.title}</strong><span class="num">${gib(tip.bytes, 2)}</span></div>
        <p class="quiet">${t("ofCard", { share: percent(tip.bytes / card.capacity) })} · ${card.type}</p>`}
  </div>`;
}

/* ---- what breaks ---- */

function Checked({ state }) {
  const { checked } = state;
  if (!checked) return null;
  const breaks = checked.breaks ?? [];
  return html`<div class=${breaks.length ? "note bad-note" : "note good-note"} role="status">
    <strong>${breaks.length ? t("moveBad") : t("moveOk")}</strong>
    ${breaks.length > 0 && html`<ul lang="en">${breaks.map((one, at) => html`<li key=${at}>${one}</li>`)}</ul>`}
    <span class="quiet">${t("notProven")}</span> <button class="plain" onClick=${undoMoves}>${t("undoMove")}</button></div>`;
}

function Unplaced({ state }) {
  const short = state.plan?.shortfalls ?? [];
  if (!short.length || state.checked) return null;
  return html`<div class="note bad-note"><strong>${t("unplaced")}</strong><ul>${short.map((one) => html`<li key=${one.model}>
    <b>${one.model}</b>: <span lang="en">${one.reason ?? ""}</span>
    ${one.remedies?.length > 0 && html`<div class="quiet">${t("remedies")}<ul lang="en">${one.remedies.map((each) => html`<li key=${each}>${each}</li>`)}</ul></div>`}</li>`)}</ul></div>`;
}
