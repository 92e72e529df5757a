/** The page's own words in two languages. What engines and the planner say stays as they say it. */
import { en } from "./words.en.js";
import { zh } from "./words.zh.js";

const LANGUAGES = { en, zh };
let current = en;

/** Choose the language: "en", "zh", or none for the browser's own. Returns what was chosen. */
export function speak(asked) {
  const wanted = asked || (navigator.languages ?? [navigator.language]).map((one) => one.slice(0, 2)).find((one) => one in LANGUAGES);
  const chosen = wanted in LANGUAGES ? wanted : "en";
  current = LANGUAGES[chosen];
  document.documentElement.lang = chosen === "zh" ? "zh-Hans" : "en";
  return chosen;
}

/** The sentence `key` with {names} filled in; English where a language lacks it. */
export function t(key, values = {}) {
  const sentence = current[key] ?? en[key] ?? key;
  return sentence.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}
