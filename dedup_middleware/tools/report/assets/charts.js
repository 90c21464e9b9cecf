const WIDE = 900;
const HIGH = 240;
const BARS = 120;

// Stacked bars of what was stored and dropped, by the hour or by the day.
function timeChart(hours) {
  const first = Math.min(...hours.map((row) => row[0]));
  const last = Math.max(...hours.map((row) => row[0]));
  let step = 3600;
  while ((last - first) / step + 1 > BARS) step = step < 86400 ? 86400 : step * 7;
  const count = Math.floor((last - first) / step) + 1;
  const stored = new Array(count).fill(0);
  const dropped = new Array(count).fill(0);
  for (const [hour, , , kept, reasons] of hours) {
    const i = Math.floor((hour - first) / step);
    stored[i] += kept;
    for (const [, many] of reasons) dropped[i] += many;
  }
  const most = Math.max(1, ...stored.map((value, i) => value + dropped[i]));
  const wide = Math.min(60, WIDE / count);
  const bars = stored.flatMap((value, i) => {
    const low = (value / most) * HIGH;
    const high = (dropped[i] / most) * HIGH;
    const title = `${moment(first + i * step)}: ${number(value)} ${word("stored")}, ${number(dropped[i])} ${word("dropped")}`;
    const place = { x: i * wide, width: Math.max(1, wide - 1) };
    return [
      draw("rect", { ...place, y: HIGH - low, height: low, class: "stored" }, draw("title", {}, title)),
      draw("rect", { ...place, y: HIGH - low - high, height: high, class: "dropped" }, draw("title", {}, title)),
    ];
  });
  // Room for the letters at the size they have on a phone.
  const left = 15 * number(most).length + 12;
  const unit = step < 86400 ? word("perHour") : word("perDay");
  return make("div", {},
    draw("svg", { viewBox: `${-left} -24 ${WIDE + left + 10} ${HIGH + 60}`, role: "img", "aria-label": `${word("overTime")}, ${unit}` },
      draw("line", { x1: 0, x2: WIDE, y1: HIGH, y2: HIGH, class: "axis" }), ...bars,
      draw("text", { x: -6, y: 4, "text-anchor": "end" }, number(most)),
      draw("text", { x: -6, y: HIGH, "text-anchor": "end" }, "0"),
      draw("text", { x: 0, y: HIGH + 26 }, moment(first)),
      count > 1 ? draw("text", { x: WIDE, y: HIGH + 26, "text-anchor": "end" }, moment(last)) : ""),
    make("ul", { class: "legend" }, make("li", { class: "stored" }, word("stored")), make("li", { class: "dropped" }, word("dropped"))));
}

const BINS = 50;

// Decisions by similarity, those that are dropped above those that are kept, and the line.
function histogram(data, threshold) {
  const kept = new Array(BINS).fill(0);
  const dropped = new Array(BINS).fill(0);
  for (const i of data.matched) {
    const bin = Math.min(BINS - 1, Math.floor(data.pages.similarity[i] * BINS));
    (data.wouldDrop(i, threshold) ? dropped : kept)[bin]++;
  }
  // Exact copies would flatten all else, so heights grow with the logarithm.
  const height = (value) => Math.log1p(value);
  const most = Math.max(1, ...kept.map((value, i) => height(value + dropped[i])));
  const wide = WIDE / BINS;
  const bars = kept.flatMap((value, i) => {
    const whole = (height(value + dropped[i]) / most) * HIGH;
    const low = value + dropped[i] ? (whole * value) / (value + dropped[i]) : 0;
    const title = `${(i / BINS).toFixed(2)}–${((i + 1) / BINS).toFixed(2)}: ${number(dropped[i])} ${word("dropped")}, ${number(value)} ${word("stored")}`;
    const place = { x: i * wide, width: wide - 2 };
    return [
      draw("rect", { ...place, y: HIGH - low, height: low, class: "kept" }, draw("title", {}, title)),
      draw("rect", { ...place, y: HIGH - whole, height: Math.max(0, whole - low), class: "dropped" }, draw("title", {}, title)),
    ];
  });
  const x = threshold * WIDE;
  const ticks = [0, 0.2, 0.4, 0.6, 0.8, 1].map((value) =>
    draw("text", { x: value * WIDE, y: HIGH + 26, "text-anchor": "middle" }, value.toFixed(1)));
  return draw("svg", { viewBox: `-24 -34 ${WIDE + 48} ${HIGH + 70}`, role: "img", "aria-label": word("histogram") },
    draw("line", { x1: 0, x2: WIDE, y1: HIGH, y2: HIGH, class: "axis" }), ...bars, ...ticks,
    draw("line", { x1: x, x2: x, y1: -6, y2: HIGH, class: "cut" }),
    draw("text", { x: Math.min(Math.max(x, 50), WIDE - 50), y: -10, "text-anchor": "middle" }, word("line", threshold.toFixed(3))));
}
