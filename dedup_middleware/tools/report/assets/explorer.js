const EXAMPLES = 8;

// Move the threshold and see what would become of the pages.
function explorer(data) {
  const chart = make("div");
  const answer = make("p", { role: "status", id: "answer" });
  const sides = make("div", { class: "two" });
  const shown = make("output", { for: "threshold" });
  const slider = make("input", {
    type: "range", id: "threshold", min: "0", max: "1", step: "0.005", value: data.chosen ?? data.threshold,
    oninput: () => update(),
  });
  const nowDropped = data.matched.filter((i) => data.wouldDrop(i, data.threshold)).length;

  function update() {
    const threshold = Number(slider.value);
    data.chosen = threshold;
    shown.textContent = `${threshold.toFixed(3)} (${word("now", data.threshold)})`;
    chart.replaceChildren(histogram(data, threshold));
    const dropped = data.matched.filter((i) => data.wouldDrop(i, threshold));
    const kept = data.matched.filter((i) => !data.wouldDrop(i, threshold));
    const change = dropped.length - nowDropped;
    const told = change === 0 ? word("same") : change > 0 ? word("fewer", number(change)) : word("more", number(-change));
    answer.textContent = `${word("would", threshold.toFixed(3), number(dropped.length), number(kept.length), number(data.matched.length))} ${told}`;
    const near = (list) => [...list].sort((a, b) => data.gap(a, threshold) - data.gap(b, threshold)).slice(0, EXAMPLES);
    sides.replaceChildren(side("below", near(kept)), side("above", near(dropped)));
  }

  function side(name, list) {
    return make("section", { id: name }, make("h3", {}, word(name)),
      list.length ? decisions(data, list, word(name)) : make("p", { class: "faint" }, word("none")));
  }

  update();
  return make("div", {}, make("h2", {}, word("explorer")), make("h3", {}, word("histogram")), chart,
    make("div", { class: "row" }, make("label", { for: "threshold" }, word("move")), shown), slider, answer,
    make("p", { class: "faint small" }, word("explorerHelp")), sides);
}

// A table of decisions, each with a way to the view side by side.
function decisions(data, list, caption) {
  return table(caption, [word("similarity"), word("page"), word("reason"), ""], list.map((i) => decision(data, i)), { class: "decisions" }, true);
}

function decision(data, i) {
  return make("tr", { tabindex: "-1" },
    make("td", { class: "number" }, digits(data.pages.similarity[i])),
    make("td", { class: "page" }, address(data.key(i), data.title(i))),
    make("td", {}, data.reason(i)),
    make("td", {}, make("a", { href: `#pair/${i}`, "aria-label": `${word("compare")}: ${data.title(i) || data.key(i)}` }, word("compare"))));
}
