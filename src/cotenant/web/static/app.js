/** The whole screen: models, bars, cards, and what may be asked of the plan below them. */
import { copyLink } from "./actions.js";
import { open as openText, openFile } from "./files.js";
import { Cards } from "./cards.js";
import { Figures } from "./figures.js";
import { Knobs } from "./knobs.js";
import { Models } from "./models.js";
import { scene } from "./scene.js";
import { Stage } from "./stage.js";
import { get, set } from "./store.js";
import { Tabs } from "./tabs.js";
import { html, useRef, useState } from "./view.js";
import { speak, t } from "./words.js";

export function App({ state }) {
  const ready = state.fleet && state.catalogue;
  const cards = ready ? scene(state) : [];
  return html`
    <a class="skip" href="#stage" onClick=${skip}>${t("skip")}</a>
    <${Top} state=${state} />
    <${Faults} faults=${state.faults} />
    <main class="board">
      ${ready ? html`<${Models} state=${state} />` : html`<section class="panel models"><h2>${t("models")}</h2><${Waiting} /></section>`}
      <section class="centre" id="stage" tabindex="-1" aria-label=${t("cards")}>
        <${Figures} state=${state} cards=${cards} />
        ${ready && (state.plan || cards.length) ? html`<${Stage} state=${state} cards=${cards} />` : html`<${Waiting} tall />`}
        ${ready && html`<${Knobs} state=${state} />`}
      </section>
      ${ready ? html`<${Cards} state=${state} />` : html`<section class="panel cards"><h2>${t("cards")}</h2><${Waiting} /></section>`}
      ${ready && html`<${Tabs} state=${state} cards=${cards} />`}
    </main>
    <p class="unseen" role="status" aria-live="polite">${state.notice}</p>`;
}

const skip = (event) => {
  event.preventDefault(); // the hash holds the state
  document.getElementById("stage").focus();
};

function Waiting({ tall }) {
  return html`<div class=${tall ? "skeleton tall" : "skeleton"} aria-hidden="true"><i></i><i></i><i></i></div>`;
}

const FILE = "a file"; // no example has a name with a blank

function Top({ state }) {
  const examples = state.catalogue?.examples ?? [];
  const input = useRef(null);
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await copyLink();
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  const open = async (event) => {
    const chosen = examples.find((one) => one.name === event.target.value);
    if (event.target.value === FILE) input.current.click();
    event.target.value = "";
    if (!chosen) return;
    await openText(chosen.fleet);
  };
  return html`<header class="top">
    <span class="brand"><img src="/static/icon.svg" alt="" width="22" height="22" /> <h1>Cotenant</h1></span>
    <span class="tagline">${t("tagline")}</span>
    <span class="grow"></span>
    <label class="compact"><span class="unseen">${t("example_")}</span>
      <select onChange=${open} value=""><option value="">${t("load")}</option><option value=${FILE}>${t("ownFile")}</option>
        ${examples.map((one) => html`<option key=${one.name} value=${one.name}>${one.name}</option>`)}</select></label>
    <input type="file" id="open-file" class="unseen" tabindex="-1" ref=${input} accept=".yaml,.yml,.json" aria-label=${t("ownFile")} onChange=${({ target }) => { if (target.files[0]) openFile(target.files[0]); target.value = ""; }} />
    <button class="plain" onClick=${copy} disabled=${!state.fleet}>${t(copied ? "copied" : "share_link")}</button>
    <button class="plain" onClick=${flipTheme} aria-label=${`${t("theme")}: ${t(isDark() ? "light" : "dark")}`} title=${t("theme")}>${isDark() ? "☀" : "☾"}</button>
    <button class="plain" onClick=${flipLanguage} aria-label=${t("language")} lang=${state.lang === "zh" ? "en" : "zh"}>${state.lang === "zh" ? "EN" : "中文"}</button>
  </header>`;
}

function isDark() {
  const { theme } = get();
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function keep(key, value) {
  try {
    localStorage.setItem(`cotenant.${key}`, value);
  } catch {
    // storage may be forbidden: the choice lasts as long as the page
  }
}

function flipTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  keep("theme", theme);
  set({ theme });
}

function flipLanguage() {
  const lang = speak(get().lang === "zh" ? "en" : "zh");
  keep("lang", lang);
  set({ lang });
}

function Faults({ faults }) {
  if (!faults.length) return null;
  return html`<div class="faults" role="alert"><strong>${t("problem")}</strong>
    <ul>${faults.slice(0, 8).map((one, at) => html`<li key=${at}>${one.offline ? t("offline") : one.error}
      ${one.path && html` <code>${one.path}</code>`}${one.hint && html`<span class="quiet"> – ${one.hint}</span>`}</li>`)}</ul>
    <button class="plain" onClick=${() => set({ faults: [] })}>${t("dismiss")}</button></div>`;
}
