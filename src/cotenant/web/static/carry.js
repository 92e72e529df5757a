/** A replica from one card to another: by pointer (mouse, pen, finger) and by keyboard. */
import { say } from "./actions.js";
import { move } from "./moves.js";
import { scene } from "./scene.js";
import { get, set } from "./store.js";
import { t } from "./words.js";

const FAR = 6; // pixels before a press becomes a drag
const EDGE = 56; // pixels from the window's edge within which a drag scrolls the page

/** Handlers for something that can be dragged. */
export function drags(id) {
  return { onPointerDown: (event) => press(event, id) };
}

function press(event, id) {
  if (event.button !== 0) return;
  const start = { x: event.clientX, y: event.clientY };
  const scrolls = event.pointerType === "touch" && !event.currentTarget.classList.contains("label"); // a finger drags by the name
  let ghost = null;
  const cardAt = (x, y) => document.elementFromPoint(x, y)?.closest("[data-card]")?.dataset.card ?? null;
  const onMove = (now) => {
    const [dx, dy] = [now.clientX - start.x, now.clientY - start.y];
    if (!ghost) {
      if (scrolls || Math.hypot(dx, dy) < FAR) return;
      ghost = follower(id);
      set({ carried: id, picked: id });
    }
    now.preventDefault();
    if (now.clientY < EDGE) scrollBy(0, -12);
    else if (now.clientY > innerHeight - EDGE) scrollBy(0, 12);
    ghost.style.transform = `translate(${now.clientX + 10}px, ${now.clientY + 10}px)`;
    const over = cardAt(now.clientX, now.clientY);
    if (over !== get().over) set({ over });
  };
  const end = (now) => {
    removeEventListener("pointermove", onMove);
    removeEventListener("pointerup", end);
    removeEventListener("pointercancel", end);
    removeEventListener("keydown", onEscape);
    if (!ghost) {
      if (now?.type === "pointerup") set({ picked: id });
      return;
    }
    ghost.remove();
    const over = now?.type === "pointerup" ? cardAt(now.clientX, now.clientY) : null;
    set({ carried: null, over: null });
    drop(id, over);
  };
  const onEscape = (key) => key.key === "Escape" && end(null);
  addEventListener("pointermove", onMove, { passive: false });
  addEventListener("pointerup", end);
  addEventListener("pointercancel", end);
  addEventListener("keydown", onEscape);
}

function follower(id) {
  const ghost = document.createElement("div");
  ghost.className = "follower";
  ghost.textContent = id;
  document.body.append(ghost);
  return ghost;
}

const home = (cards, id) => cards.find((card) => card.parts.some((part) => part.id === id))?.key;

function drop(id, key) {
  const cards = scene(get());
  const card = cards.find((one) => one.key === key);
  if (!card || home(cards, id) === key) {
    say(t("putBack", { name: id }));
    return;
  }
  say(t("dropped", { name: id, card: key }));
  move(id, card);
}

/** Space picks up and drops, arrows choose the card, Escape puts back. */
export function onCardKey(event, id, at) {
  const { carried, over } = get();
  if (event.key === " ") {
    event.preventDefault();
    if (carried !== id) {
      set({ carried: id, over: at, picked: id });
      say(t("pickedUp", { name: id }));
    } else {
      set({ carried: null, over: null });
      drop(id, over);
    }
  } else if (carried === id && event.key === "Escape") {
    set({ carried: null, over: null });
    say(t("putBack", { name: id }));
  } else if (carried === id && event.key.startsWith("Arrow")) {
    event.preventDefault();
    const keys = scene(get()).map((card) => card.key);
    const step = event.key === "ArrowDown" || event.key === "ArrowRight" ? 1 : -1;
    const next = keys[(keys.indexOf(over) + step + keys.length) % keys.length];
    set({ over: next });
    say(t("overCard", { name: id, card: next }));
  }
}
