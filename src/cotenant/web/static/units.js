/** Figures as text. Bytes are shown in GiB (2^30), seconds in s or ms: the words of the command line. */
const GIB = 2 ** 30;

/** 43469034752 -> "40.5 GiB"; small sizes keep two digits. */
export function gib(bytes, digits) {
  const size = bytes / GIB;
  return `${size.toFixed(digits ?? (Math.abs(size) < 10 ? 2 : 1))} GiB`;
}

export function percent(share, digits = 1) {
  return `${(100 * share).toFixed(digits)}\u202f%`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 0.0995) return `${(1000 * value).toFixed(value < 0.00995 ? 1 : 0)} ms`;
  return `${value.toFixed(value < 9.95 ? 2 : value < 99.5 ? 1 : 0)} s`;
}

export function count(number) {
  return Math.round(number).toLocaleString("en-US");
}

/** Parameters of a model: 8190735360 -> "8.2B". */
export function parameters(number) {
  if (!number) return "";
  const [size, unit] = number >= 1e12 ? [number / 1e12, "T"] : number >= 1e9 ? [number / 1e9, "B"] : [number / 1e6, "M"];
  return `${size < 10 ? size.toFixed(1) : size.toFixed(0)}${unit}`;
}

export function dollars(perHour) {
  return perHour === null || perHour === undefined ? null : `$${perHour.toFixed(2)}/h`;
}

/** "$1.29/h" or 1.29 -> 1.29; null where there is no price. */
export function priceOf(text) {
  if (typeof text === "number") return text;
  const found = /^\s*\$?\s*([0-9]+(?:\.[0-9]+)?)\s*(?:\/\s*h(?:r|our)?)?\s*$/.exec(text ?? "");
  return found ? Number(found[1]) : null;
}

/** "12%" -> 0.12; 0 where it is none. */
export const shareOf = (text) => Number.parseFloat(text) / 100 || 0;
