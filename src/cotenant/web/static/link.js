/** The page's whole state as a link: JSON, deflated, base64url, after the hash, so that no server sees it. */
const KEPT = ["fleet", "plan", "stale", "checked", "tune", "tab", "policy", "seed", "conditions", "target", "picked"];
const MARK = "1.";
const LARGEST = 4e6; // characters of JSON that a link may unfold to

/** The part of `state` that travels, as the text behind "#". */
export async function encode(state) {
  const kept = Object.fromEntries(KEPT.filter((key) => state[key] != null).map((key) => [key, state[key]]));
  if (kept.checked) kept.checked = { ok: kept.checked.ok, breaks: kept.checked.breaks, plan: kept.checked.plan }; // its cards are the plan's
  kept.asked = Object.keys(state.answers ?? {}); // whose sliders were turned: what was said to that is asked anew
  const bytes = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(JSON.stringify(kept)));
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return MARK + btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The state in a link's hash, with the ids of the replicas whose sliders were turned (`asked`), or null where there is
 *  none. Throws where it cannot be read. */
export async function decode(hash) {
  const text = hash.replace(/^#/, "");
  if (!text.startsWith(MARK)) return null;
  const raw = atob(text.slice(MARK.length).replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(raw, (letter) => letter.charCodeAt(0));
  const plain = await through(new DecompressionStream("deflate-raw"), bytes);
  const found = JSON.parse(new TextDecoder().decode(plain));
  if (!Array.isArray(found?.fleet?.models) || !Array.isArray(found.fleet.gpus)) throw new Error("no fleet in this link");
  const kept = Object.fromEntries(KEPT.filter((key) => found[key] != null).map((key) => [key, found[key]]));
  if (kept.checked) kept.checked.gpus = kept.checked.plan.gpus;
  return { ...kept, asked: Array.isArray(found.asked) ? found.asked : [] };
}

async function through(stream, bytes) {
  const reader = new Blob([bytes]).stream().pipeThrough(stream).getReader();
  const parts = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > LARGEST) throw new Error("this link unfolds to too much");
    parts.push(value);
  }
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
