/** A search box with a list under it, by the ARIA pattern: arrows choose, Enter takes, Escape closes. */
import { html, useRef, useState } from "./view.js";

/** `find(text)` gives rows {key, title, note, off}; `take(row)` is called with the chosen one. */
export function Combobox({ id, label, hint, find, take, none }) {
  const [text, setText] = useState("");
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(0);
  const box = useRef(null);
  const rows = open ? find(text) : [];
  const chosen = Math.min(at, Math.max(0, rows.length - 1));
  const choose = (row) => {
    if (!row || row.off) return;
    take(row);
    setText("");
    setOpen(false);
  };
  const onKey = (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!open) setOpen(true);
      else setAt((chosen + (event.key === "ArrowDown" ? 1 : -1) + rows.length) % Math.max(1, rows.length));
      requestAnimationFrame(() => document.getElementById(`${id}-list`)?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }));
    } else if (event.key === "Enter") {
      event.preventDefault();
      choose(rows[chosen]);
    } else if (event.key === "Escape") setOpen(false);
  };
  return html`<div class="combo" ref=${box} onFocusOut=${(event) => box.current.contains(event.relatedTarget) || setOpen(false)}>
    <input id=${id} type="text" role="combobox" aria-label=${label} aria-expanded=${open && rows.length > 0} aria-controls=${`${id}-list`} aria-autocomplete="list"
      aria-activedescendant=${open && rows.length ? `${id}-${chosen}` : undefined} autocomplete="off" spellcheck=${false} placeholder=${hint} value=${text}
      onInput=${(event) => { setText(event.target.value); setOpen(true); setAt(0); }} onFocus=${() => setOpen(true)} onClick=${() => setOpen(true)} onKeyDown=${onKey} />
    <ul id=${`${id}-list`} role="listbox" aria-label=${label} hidden=${!open || !rows.length} tabindex="-1">
      ${rows.map((row, number) => html`<li key=${row.key} id=${`${id}-${number}`} role="option" aria-selected=${number === chosen} aria-disabled=${Boolean(row.off)}
        onPointerDown=${(event) => event.preventDefault()} onClick=${() => choose(row)}><span>${row.title}</span><small>${row.note}</small></li>`)}</ul>
    ${text.trim() && !find(text).length && html`<p class="warn small" role="alert">${typeof none === "function" ? none(text.trim()) : none}</p>`}
  </div>`;
}

/** Rows whose name, or one of its other names, holds every word of `text`; the shortest first. */
export function search(rows, text, most = 40) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (row) => words.every((word) => [row.name, ...(row.aliases ?? [])].some((name) => name.toLowerCase().includes(word)));
  return rows.filter(fits).slice(0, most);
}

/** The name of `rows` that is written most like `text` (or one of its other names is); "" where none is near. */
export function nearest(rows, text) {
  const word = text.toLowerCase();
  let [best, least] = ["", Math.max(2, Math.ceil(0.4 * word.length)) + 1];
  for (const row of rows)
    for (const name of [row.name, ...(row.aliases ?? [])]) {
      const far = distance(word, name.toLowerCase().slice(0, 60));
      if (far < least) [best, least] = [row.name, far];
    }
  return best;
}

/** Letters to change, add or leave out. */
function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) next[j] = Math.min(next[j - 1] + 1, row[j] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
    row = next;
  }
  return row[b.length];
}
