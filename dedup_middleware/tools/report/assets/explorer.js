const EXAMPLES = 8;

// Move the threshold and see which pages it would drop.
function explorer(data, query) {
  const chart = make("div");
  const answer = make("p", { role: "status", id: "answer" });
  const sides = make("div", { class: "two" });
  const shown = make("output", { for: "threshold" });
  let waiting = 0;
  const slider = make("input", {
    type: "range", id: "threshold", min: "0", max: "1", step: "0.005", value: data.chosen ?? data.threshold, "aria-describedby": "slider-help",
    oninput: () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(update); },
  });
  let matched = [];
  let nowDropped = 0;

  function update() {
    const threshold = Number(slider.value);
    data.chosen = threshold;
    shown.textContent = `${threshold.toFixed(3)} (${word("now", data.threshold)})`;
    chart.replaceChildren(histogram(data, matched, threshold, query));
    const dropped = matched.filter((i) => data.wouldDrop(i, threshold));
    const kept = matched.filter((i) => !data.wouldDrop(i, threshold));
    slider.setAttribute("aria-valuetext", word("valueText", threshold.toFixed(3), number(dropped.length), number(kept.length)));
    const change = dropped.length - nowDropped;
    const told = change === 0 ? word("same") : change > 0 ? word("fewer", number(change)) : word("more", number(-change));
    answer.textContent = `${word("would", threshold.toFixed(3), number(dropped.length), number(kept.length), number(matched.length))} ${told}`;
    const near = (list) => smallest(list, EXAMPLES, (i) => data.gap(i, threshold));
    sides.replaceChildren(side("below", near(kept)), side("above", near(dropped)));
  }

  function side(name, list) {
    return make("section", { id: name }, make("h3", {}, word(name)),
      list.length ? decisionTable(data, list, word(name)) : make("p", { class: "faint" }, word("none")));
  }

  function select() {
    matched = choose(data, data.source, query).filter((i) => data.pages.similarity[i] !== null && data.pages.match[i] >= 0);
    nowDropped = matched.filter((i) => data.wouldDrop(i, data.threshold)).length;
    update();
  }

  const bar = filterBar(data, query, select);
  select();
  return make("div", {}, make("h2", {}, word("explorer")), bar, make("h3", {}, word("histogram")), chart,
    make("div", { class: "row" }, make("label", { for: "threshold" }, word("move")), shown), slider,
    make("p", { class: "faint small", id: "slider-help" }, word("sliderHelp", data.threshold)), answer,
    make("p", { class: "faint small" }, word("explorerHelp")), sides);
}
