/** A replica moved by hand: the server says at once what breaks. */
import { guarded, say } from "./actions.js";
import { newest } from "./api.js";
import { get, set } from "./store.js";
import { t } from "./words.js";

const checks = newest("check");

/** Put a replica on a card (`{type, node, index}`) and ask at once what breaks. */
export const move = guarded(async (id, card) => {
  const { plan, fleet, checked } = get();
  set({ carried: null, over: null, picked: id });
  const found = await checks({ plan: checked?.plan ?? plan, fleet, move: { replica: id, gpu: { node: card.node, index: card.index, type: card.type } } });
  if (!found) return;
  set({ checked: found, replay: null });
  if (get().fleet !== fleet) recheckSoon();
  say(found.ok ? t("moveOk") : `${t("moveBad")} ${found.breaks.join("; ")}`);
});

let rechecking = 0;
/** The moves that stand, held to the fleet as it is by now. */
export function recheckSoon() {
  clearTimeout(rechecking);
  rechecking = setTimeout(guarded(async () => {
    const { checked, fleet } = get();
    if (!checked?.plan) return;
    const found = await checks({ plan: checked.plan, fleet });
    if (found) set({ checked: found });
  }), 60);
}

export const undoMoves = () => set({ checked: null, replay: null });
