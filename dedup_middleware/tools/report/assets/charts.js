const WIDE = 900;
const HIGH = 240;
const BARS = 120;

// A column of a chart that links to its decisions; its whole height can be clicked.
function column(href, title, x, width, ...bars) {
  return draw("a", { href, "aria-label": title }, draw("title", {}, title),
    draw("rect", { x, width, y: 0, height: HIGH, class: "hit" }), ...bars);
}

// Stacked bars of what was stored and dropped, by the hour or by the day.
function timeChart(hours) {
  const first = hours[0][0];
  const last = hours[hours.length - 1][0];
  let step = 3600;
  while ((last - first) / step + 1 > BARS) step = step < 86400 ? 86400 : step * 7;
  const count = Math.floor((last - first) / step) + 1;
  const stored = new Array(count).fill(0);
  const dropped = new Array(count).fill(0);
  for (const [hour, kept, many] of hours) {
    const i = Math.floor((hour - first) / step);
    stored[i] += kept;
    dropped[i] += many;
  }
  const most = Math.max(1, ...stored.map((value, i) => value + dropped[i]));
  const wide = Math.min(60, WIDE / count);
  const bars = stored.flatMap((value, i) => {
    if (!(value + dropped[i])) return [];
    const low = (value / most) * HIGH;
    const high = (dropped[i] / most) * HIGH;
    const title = `${moment(first + i * step)}: ${number(value)} ${word("stored")}, ${number(dropped[i])} ${word("dropped")}`;
    const place = { x: i * wide, width: Math.max(1, wide - 1) };
    const from = first + i * step;
    return [column(link("decisions", { since: from, until: from + step }), title, place.x, place.width,
      draw("rect", { ...place, y: HIGH - low, height: low, class: "stored" }),
      draw("rect", { ...place, y: HIGH - low - high, height: high, class: "dropped" }))];
  });
  // Room for the labels in the size that they have on a phone.
  const left = 15 * number(most).length + 12;
  const unit = step < 86400 ? word("perHour") : word("perDay");
  return make("div", {},
    roving(draw("svg", { viewBox: `${-left} -24 ${WIDE + left + 10} ${HIGH + 60}`, role: "group", "aria-label": `${word("overTime")}, ${unit}. ${word("bars")}` },
      draw("line", { x1: 0, x2: WIDE, y1: HIGH, y2: HIGH, class: "axis" }), ...bars,
      draw("text", { x: -6, y: 4, "text-anchor": "end" }, number(most)),
      draw("text", { x: -6, y: HIGH, "text-anchor": "end" }, "0"),
      draw("text", { x: 0, y: HIGH + 26 }, moment(first)),
      count > 1 ? draw("text", { x: WIDE, y: HIGH + 26, "text-anchor": "end" }, moment(last)) : ""), "a"),
    make("ul", { class: "legend" }, make("li", { class: "stored" }, word("stored")), make("li", { class: "dropped" }, word("dropped"))));
}

const BINS = 50;

// Decisions by similarity, dropped ones stacked on kept ones, and the threshold as a line.
function histogram(data, matched, threshold, query) {
  const held = new Array(BINS).fill(0);
  const dropped = new Array(BINS).fill(0);
  for (const i of matched) {
    const bin = Math.min(BINS - 1, Math.floor(data.pages.similarity[i] * BINS));
    (data.wouldDrop(i, threshold) ? dropped : held)[bin]++;
  }
  // Exact copies would flatten all else, so heights grow with the logarithm.
  const height = (value) => Math.log1p(value);
  const most = Math.max(1, ...held.map((value, i) => height(value + dropped[i])));
  const wide = WIDE / BINS;
  const bars = held.flatMap((value, i) => {
    if (!(value + dropped[i])) return [];
    const whole = (height(value + dropped[i]) / most) * HIGH;
    const low = value + dropped[i] ? (whole * value) / (value + dropped[i]) : 0;
    const title = `${(i / BINS).toFixed(2)}–${((i + 1) / BINS).toFixed(2)}: ${number(dropped[i])} ${word("dropped")}, ${number(value)} ${word("stored")}`;
    const place = { x: i * wide, width: wide - 2 };
    // A similarity has four digits; the last bin holds 1 as well.
    const range = { min: (i / BINS).toFixed(2), max: i === BINS - 1 ? "1" : ((i + 1) / BINS - 0.0001).toFixed(4) };
    return [column(link("decisions", { ...kept(query), ...range }), title, place.x, place.width,
      draw("rect", { ...place, y: HIGH - low, height: low, class: "kept" }),
      draw("rect", { ...place, y: HIGH - whole, height: Math.max(0, whole - low), class: "dropped" }))];
  });
  const x = threshold * WIDE;
  const ticks = [0, 0.2, 0.4, 0.6, 0.8, 1].map((value) =>
    draw("text", { x: value * WIDE, y: HIGH + 26, "text-anchor": "middle" }, value.toFixed(1)));
  return roving(draw("svg", { viewBox: `-24 -34 ${WIDE + 48} ${HIGH + 70}`, role: "group", "aria-label": `${word("histogram")}. ${word("bars")}` },
    draw("line", { x1: 0, x2: WIDE, y1: HIGH, y2: HIGH, class: "axis" }), ...bars, ...ticks,
    draw("line", { x1: x, x2: x, y1: -6, y2: HIGH, class: "cut" }),
    draw("text", { x: Math.min(Math.max(x, 50), WIDE - 50), y: -10, "text-anchor": "middle" }, word("line", threshold.toFixed(3)))), "a");
}
