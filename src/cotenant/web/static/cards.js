/** On the right: the cards that there are, and those for hire. */
import { addCards, changePool, removePool } from "./actions.js";
import { Combobox, nearest, search } from "./combobox.js";
import { sameType } from "./scene.js";
import { dollars, gib, priceOf } from "./units.js";
import { html, t, useState } from "./view.js";

export function Cards({ state }) {
  const { catalogue, fleet } = state;
  const find = (text) => search(catalogue.gpus, text).map((one) => ({
    key: one.name, id: one.name, title: one.name, note: [gib(one.cuda_bytes, 0), dollars(one.price_per_hour)].filter(Boolean).join(" · "),
  }));
  const unknown = (text) => {
    const near = nearest(catalogue.gpus, text.slice(0, 60));
    return near ? t("noCardNear", { text: text.slice(0, 60), near }) : t("noCard", { text: text.slice(0, 60) });
  };
  return html`<section class="panel cards" aria-labelledby="cards-head">
    <h2 id="cards-head">${t("cards")}</h2>
    <ul class="list">${fleet.gpus.map((pool, at) => html`<${Pool} key=${at} pool=${pool} at=${at} entry=${catalogue.gpus.find((one) => sameType(one.name, pool.type, catalogue))} />`)}</ul>
    <${Combobox} id="add-card" label=${t("addCard")} hint=${t("addCardHint")} find=${find} none=${unknown} take=${(row) => addCards(row.id)} />
  </section>`;
}

function Pool({ pool, at, entry }) {
  const hire = pool.count === undefined || pool.count === null;
  const price = priceOf(pool.price);
  const [wrong, setWrong] = useState("");
  /* What is no such figure is said, and the field shows again what holds. */
  const refused = (field, key, holds) => {
    setWrong(t(key, { text: field.value.slice(0, 40) || "–" }));
    field.value = holds;
  };
  const number = ({ target: field }) => {
    const key = hire ? "max" : "count";
    const [empty, found] = [!field.value.trim() && !field.validity.badInput, Number(field.value)];
    if (!(hire && empty) && !(Number.isInteger(found) && found >= 1 && found <= 100000)) {
      refused(field, "badCount", pool[key] ?? "");
      return;
    }
    setWrong("");
    changePool(at, ({ [key]: _, ...one }) => (empty ? one : { ...one, [key]: found }));
  };
  const money = ({ target: field }) => {
    const [empty, found] = [!field.value.trim(), priceOf(field.value)];
    if (!empty && !(found > 0)) {
      refused(field, "badPrice", price ?? "");
      return;
    }
    setWrong("");
    changePool(at, ({ price: _, ...one }) => (empty ? one : { ...one, price: `$${found}/h` }));
  };
  return html`<li class="pool">
    <div class="pool-head"><strong>${pool.type}</strong>
      <button class="plain x" aria-label=${t("remove", { name: pool.type })} onClick=${() => removePool(at)}>×</button></div>
    <p class="quiet small">${entry ? `${gib(entry.cuda_bytes)} · ${(entry.memory_bandwidth / 1e12).toFixed(2)} TB/s · ${entry.architecture}` : ""}</p>
    <div class="pool-row">
      <label><span class="quiet small">${hire ? t("hire") : t("owned")}${hire ? `, ${t("atMost")}` : ""}</span>
        <input type="number" min="1" max="100000" inputmode="numeric" aria-label=${t("count", { name: pool.type })} value=${hire ? (pool.max ?? "") : pool.count} placeholder="∞" onChange=${number} /></label>
      <label><span class="quiet small">${t("perHour")}</span>
        <input type="text" inputmode="decimal" aria-label=${t("price", { name: pool.type })} value=${price ?? ""} placeholder=${entry?.price_per_hour != null ? entry.price_per_hour.toFixed(2) : t("noPrice")} onChange=${money} /></label>
    </div>${wrong && html`<p class="bad small" role="alert">${wrong}</p>`}</li>`;
}
