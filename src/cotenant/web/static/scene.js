/** Pure: the page's state as the cards that are drawn. Sizes in bytes. */
import { priceOf, shareOf } from "./units.js";

export const TERMS = ["weights", "kv_cache", "activations", "runtime"];

/** What a fleet says of a setting, or means where it leaves it out. */
export const settingOf = ({ fleet, catalogue }, name) => fleet[name] ?? catalogue.defaults[name];

/** The row of the catalogue for a replica's engine, which is NAME or NAME@VERSION. */
export const engineOf = (catalogue, replica) => catalogue?.engines.find((one) => one.id === replica.engine.split("@")[0]);

export const cardKey = (card) => `${card.type} ${card.node}.${card.index}`;

/** Cards in order, each {key, type, node, index, capacity, used, price, spare, parts: [{id, model, colour, terms}],
 *  taken, free, reserve, ghost}. `ghost` cards are offered, nothing is placed on them yet. */
export function scene(state) {
  const { plan, fleet, catalogue } = state;
  const models = fleet.models.map((one) => one.name);
  const headroom = shareOf(settingOf(state, "headroom"));
  const cards = (state.checked?.gpus ?? plan?.gpus ?? []).map((gpu) => {
    const parts = [...(gpu.replicas ?? []).map((share) => part(share, state, models)), ...(gpu.sleepers ?? []).map((share) => sleeper(share, state, models))];
    const capacity = gpu.capacity_bytes;
    const used = gpu.used_bytes ?? 0;
    const taken = parts.reduce((sum, one) => sum + one.bytes, 0) + used;
    return { key: cardKey(gpu), type: gpu.type, node: gpu.node, index: gpu.index, capacity, used, parts, taken, spare: gpu.spare,
      free: capacity - taken, reserve: Math.round(headroom * capacity), price: gpu.price_per_hour };
  });
  return [...cards, ...offered(fleet, cards, catalogue, headroom)];
}

function part(share, { plan, answers }, models) {
  const replica = plan?.replicas.find((one) => one.id === share.id);
  const model = replica?.model ?? share.model ?? share.id;
  const answer = answers[share.id];
  const found = answer?.document ? termsOf(answer.document, share.rank ?? 0, answer.fills) : null;
  const terms = found?.terms ?? Object.fromEntries(TERMS.map((term) => [term, share[`${term}_bytes`] ?? 0]));
  return { id: share.id, model, rank: share.rank, colour: models.indexOf(model), terms, changed: Boolean(found),
    verdict: answer?.document?.verdict, reason: answer?.document?.reason, why: found ? { ...answer.document.per_gpu[0].why, ...(answer.fills ? {} : { kv_cache: answer.said }) } : null, intervals: found?.intervals,
    bytes: TERMS.reduce((sum, term) => sum + terms[term], 0), moved: share.moved };
}

/** One that sleeps beside the others: drawn with what it keeps of the card. */
function sleeper(share, { plan }, models) {
  const model = plan?.replicas.find((one) => one.id === share.id)?.model ?? share.id;
  return { id: share.id, model, rank: share.rank, colour: models.indexOf(model), asleep: true, bytes: share.bytes, terms: { weights: 0, kv_cache: 0, activations: 0, runtime: share.bytes } };
}

/** The four terms of an estimate. Beside others only the KV cache that the traffic needs is taken, unless a
 *  utilisation was asked for: then the engine fills its budget. */
export function termsOf(document, rank, fills) {
  const gpu = document.per_gpu[Math.min(rank, document.per_gpu.length - 1)];
  const terms = Object.fromEntries(TERMS.map((term) => [term, gpu[`${term}_bytes`]]));
  const { kv_needed_bytes: needed, minimum_bytes: least } = document.kv_cache;
  if (!fills && needed !== null && needed !== undefined) {
    const ranks = Math.max(1, document.per_gpu.length);
    terms.kv_cache = Math.max(needed, least ?? 0) / (document.kv_cache.per_rank ? 1 : ranks);
  }
  return { terms, intervals: gpu.intervals };
}

/** Cards that the fleet has or may hire beyond those of the plan: one a type is enough to drop something on. */
function offered(fleet, cards, catalogue, headroom) {
  const ghosts = [];
  for (const pool of fleet.gpus) {
    const known = cards.filter((card) => sameType(card.type, pool.type, catalogue));
    const most = fleet.gpus.filter((one) => sameType(one.type, pool.type, catalogue)).reduce((sum, one) => sum + (one.count ?? one.max ?? Infinity), 0);
    if (known.length >= most || ghosts.some((one) => sameType(one.type, pool.type, catalogue))) continue;
    const entry = catalogue?.gpus.find((one) => sameType(one.name, pool.type, catalogue));
    if (!entry) continue;
    const spot = nextSpot(known, cards, pool);
    const capacity = entry.cuda_bytes;
    ghosts.push({ key: `${entry.name} ${spot.node}.${spot.index}`, type: entry.name, ...spot, capacity, used: 0, parts: [], taken: 0, free: capacity,
      reserve: Math.round(headroom * capacity), price: priceOf(pool.price), ghost: true });
  }
  return ghosts;
}

export function sameType(a, b, catalogue) {
  if (a === b) return true;
  const named = (name) => catalogue?.gpus.find((one) => one.name === name || one.aliases?.includes(name))?.name;
  const [left, right] = [named(a), named(b)];
  return left !== undefined && left === right;
}

function nextSpot(known, cards, pool) {
  const size = pool.node?.size ?? 8;
  const node = known.length ? Math.max(...known.map((card) => card.node)) : cards.length ? Math.max(...cards.map((card) => card.node)) + 1 : 0;
  const taken = known.filter((card) => card.node === node).map((card) => card.index);
  const index = taken.length ? Math.max(...taken) + 1 : 0;
  return index < size ? { node, index } : { node: node + 1, index: 0 };
}
