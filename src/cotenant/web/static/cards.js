/** On the right: the cards that there are, and those for hire. */
import { addCards, changePool, removePool } from "./actions.js";
import { Combobox, search } from "./combobox.js";
import { sameType } from "./scene.js";
import { dollars, gib, priceOf } from "./units.js";
import { html, t } from "./view.js";

export function Cards({ state }) {
  const { catalogue, fleet } = state;
  const find = (text) => search(catalogue.gpus, text).map((one) => ({
    key: one.name, id: one.name, title: one.name, note: [gib(one.cuda_bytes, 0), dollars(one.price_per_hour)].filter(Boolean).join(" · "),
  }));
  return html`<section class="panel cards" aria-labelledby="cards-head">
    <h2 id="cards-head">${t("cards")}</h2>
    <ul class="list">${fleet.gpus.map((pool, at) => html`<${Pool} key=${at} pool=${pool} at=${at} entry=${catalogue.gpus.find((one) => sameType(one.name, pool.type, catalogue))} />`)}</ul>
    <${Combobox} id="add-card" label=${t("addCard")} hint=${t("addCardHint")} find=${find} none="" take=${(row) => addCards(row.id)} />
  </section>`;
}

function Pool({ pool, at, entry }) {
  const hire = pool.count === undefined || pool.count === null;
  const price = priceOf(pool.price);
  const number = (event) => {
    const found = Number.parseInt(event.target.value, 10);
    changePool(at, (one) => {
      if (hire && !(found > 0)) delete one.max;
      else one[hire ? "max" : "count"] = Math.max(1, Math.min(100000, found || 1));
      return one;
    });
  };
  const money = (event) => {
    const found = priceOf(event.target.value);
    changePool(at, (one) => {
      if (found > 0) one.price = `$${found}/h`;
      else if (!hire) delete one.price;
      return one;
    });
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
    </div></li>`;
}
