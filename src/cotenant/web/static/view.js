/** What every component imports: templates, hooks, words. Text goes in as text nodes only, never as markup. */
import { h, Fragment, render } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export { Fragment, render };
export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
export { t } from "./words.js";
export const html = htm.bind(h);
