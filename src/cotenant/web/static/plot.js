/** One chart by uPlot, which is loaded when the first one is drawn. Lines differ in colour and in their dashes. */
import { html, t, useEffect, useRef } from "./view.js";

const DASHES = [[], [7, 3], [2, 3], [10, 3, 2, 3], [4, 4], [1, 2], [12, 4], [6, 2, 1, 2]];
let library = null;

function loaded() {
  if (!library) {
    const style = document.createElement("link");
    style.rel = "stylesheet";
    style.href = "/static/vendor/uplot.css";
    document.head.append(style);
    library = import("./vendor/uplot.js").then((module) => module.default);
  }
  return library;
}

/** `series`: [{name, colour 0..7, values}], null where there is nothing to draw. */
export function Plot({ title, x, series, unit, xUnit }) {
  const holder = useRef(null);
  useEffect(() => {
    let plot = null;
    let gone = false;
    const observer = new ResizeObserver(([entry]) => plot?.setSize({ width: Math.max(200, entry.contentRect.width), height: HEIGHT }));
    loaded().then((UPlot) => {
      if (gone || !holder.current) return;
      plot = new UPlot(options(holder.current, series, unit, xUnit), [x, ...series.map((one) => one.values)], holder.current);
      observer.observe(holder.current);
    });
    return () => {
      gone = true;
      observer.disconnect();
      plot?.destroy();
    };
  }, [x, series.map((one) => one.values.join()).join("|"), document.documentElement.dataset.theme, document.documentElement.lang]);
  return html`<figure class="plot"><figcaption>${title}${unit && html` <small class="quiet">${unit}</small>`}</figcaption>
    <div ref=${holder} role="img" aria-label=${spoken(title, series, unit)}></div></figure>`;
}

const HEIGHT = 222;

function options(holder, series, unit, xUnit) {
  const style = getComputedStyle(holder);
  const ink = style.getPropertyValue("--dim").trim();
  const rule = style.getPropertyValue("--rule").trim();
  const axis = { stroke: resolved(holder, ink), grid: { stroke: resolved(holder, rule), width: 1 }, ticks: { stroke: resolved(holder, rule), width: 1 }, font: "12px system-ui, sans-serif" };
  const text = (value) => (value === null || value === undefined ? "–" : `${Number(value.toPrecision(3))}${unit ? ` ${unit}` : ""}`);
  return {
    width: Math.max(200, holder.clientWidth), height: HEIGHT, cursor: { y: false, points: { size: 6 } }, scales: { x: { time: false }, y: { range: (_, __, high) => [0, high > 0 ? high * 1.08 : 1] } },
    legend: { live: true }, axes: [{ ...axis, size: 30, label: xUnit, labelSize: 18, labelGap: 0, labelFont: axis.font }, { ...axis, size: 48 }],
    series: [{ label: xUnit, value: (_, value, __, at) => (at === null || at === undefined ? "" : Number(value.toPrecision(4)).toString()) },
      ...series.map((one) => ({ label: one.name, stroke: resolved(holder, `var(--c${one.colour})`), dash: DASHES[one.colour], width: 2, spanGaps: true, points: { show: false }, value: (_, value, __, at) => (at === null || at === undefined ? atRest(one.values, text) : text(value)) }))],
  };
}

/** What the legend says while nobody points at the plot: the highest value. */
function atRest(values, text) {
  const known = values.filter((value) => value !== null && value !== undefined);
  return known.length ? t("peak", { value: text(Math.max(...known)) }) : "–";
}

/** A CSS colour as the canvas knows it: variables and light-dark() are worked out by the browser. */
function resolved(holder, colour) {
  const probe = document.createElement("i");
  probe.style.color = colour;
  holder.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function spoken(title, series, unit) {
  const parts = series.map((one) => {
    const known = one.values.filter((value) => value !== null);
    return known.length ? `${one.name}: ${Number(Math.max(...known).toPrecision(3))} ${unit} max` : one.name;
  });
  return `${title}. ${parts.join("; ")}`;
}
