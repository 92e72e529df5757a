/** Below: the answer in words, and what may be asked of it. */
import { Answer } from "./answer.js";
import { Explain } from "./explain.js";
import { Export } from "./export.js";
import { Live } from "./live.js";
import { Replay } from "./replay.js";
import { set } from "./store.js";
import { html, t } from "./view.js";

const TABS = { plan: ["tabPlan", Answer], replay: ["tabReplay", Replay], explain: ["tabExplain", Explain], export: ["tabExport", Export], live: ["tabLive", Live] };
const NAMES = Object.keys(TABS);

const open = (tab) => set({ tab });

export function Tabs({ state, cards }) {
  const tab = TABS[state.tab] ? state.tab : "plan";
  const Body = TABS[tab][1];
  const onKey = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = NAMES[(NAMES.indexOf(tab) + step + NAMES.length) % NAMES.length];
    open(next);
    document.getElementById(`tab-${next}`)?.focus();
  };
  return html`<section class="below">
    <div class="tabs" role="tablist" onKeyDown=${onKey}>${NAMES.map((name) => html`<button key=${name} role="tab" id=${`tab-${name}`} aria-selected=${name === tab}
      aria-controls="tab-body" tabindex=${name === tab ? 0 : -1} onClick=${() => open(name)}>${t(TABS[name][0])}</button>`)}</div>
    <div id="tab-body" role="tabpanel" aria-labelledby=${`tab-${tab}`}><${Body} state=${state} cards=${cards} /></div>
  </section>`;
}
