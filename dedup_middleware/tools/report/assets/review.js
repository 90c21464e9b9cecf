// Pairs near the threshold, judged by a person; the labels are exported for the evaluation.
const LABELS = { d: 1, k: 0, u: null };

function review(data, query) {
  const inside = make("div");
  const update = () => {
    queueUp(data, query);
    data.keys = {};
    if (!data.queue.length) inside.replaceChildren(make("p", {}, word("noReview")));
    else if (data.details === null) {
      inside.replaceChildren(make("p", { role: "status" }, word("loadingTexts")));
      data.load().then(() => inside.isConnected && update());
    } else inside.replaceChildren(judging(data));
  };
  const bar = filterBar(data, query, update);
  update();
  return make("div", {}, make("h2", {}, word("review")), bar, make("p", { class: "faint" }, word("reviewHelp")), inside);
}

// Choose the pairs that fit the filters; the current pair stays until the filters change.
function queueUp(data, query) {
  data.labels ??= new Map(recall(storeName(data)) ?? []);
  const chosen = `${JSON.stringify(kept(query))} ${data.details === null}`;
  if (data.queueOf === chosen) return;
  data.queue = choose(data, data.source, query).filter((i) => data.pages.similarity[i] !== null && data.hasTexts(i))
    .map((i) => [data.gap(i, data.threshold), i]).sort((a, b) => a[0] - b[0]).map(([, i]) => i);
  data.queueOf = chosen;
  data.at = 0;
}

function judging(data) {
  const place = make("p", { role: "status", id: "position" });
  const view = make("div");
  const buttons = [["d", "duplicate"], ["k", "different"], ["u", "unsure"]].map(([key, name]) =>
    make("button", { type: "button", id: `judge-${key}`, "aria-keyshortcuts": key, onclick: () => judge(key) }, word(name), " ", make("kbd", {}, key)));
  const previous = make("button", { type: "button", "aria-keyshortcuts": "p", onclick: () => go(-1) }, word("previous"), " ", make("kbd", {}, "p"));
  const next = make("button", { type: "button", "aria-keyshortcuts": "n", onclick: () => go(1) }, word("next"), " ", make("kbd", {}, "n"));
  const download = make("button", { type: "button", id: "export", onclick: () => exportLabels(data) }, word("exportLabels"));

  function update() {
    const i = data.queue[data.at];
    const judged = data.labels.get(data.key(i));
    place.textContent = word("position", number(data.at + 1), number(data.queue.length), number(data.labels.size));
    ["d", "k", "u"].forEach((key, at) =>
      buttons[at].setAttribute("aria-pressed", String(judged !== undefined && LABELS[key] === judged)));
    previous.disabled = data.at === 0;
    next.disabled = data.at === data.queue.length - 1;
    download.disabled = !data.labels.size;
    view.replaceChildren(sheets(data, i), facts(data, i));
  }

  function go(step) {
    data.at = Math.min(Math.max(data.at + step, 0), data.queue.length - 1);
    update();
    if (view.getBoundingClientRect().top < 0) view.scrollIntoView();
  }

  function judge(key) {
    data.labels.set(data.key(data.queue[data.at]), LABELS[key]);
    remember(storeName(data), [...data.labels]);
    go(1);
  }

  data.keys = { d: () => judge("d"), k: () => judge("k"), u: () => judge("u"), n: () => go(1), p: () => go(-1) };
  update();
  // On a phone the buttons are below, within reach of a thumb.
  return make("div", {}, make("div", { class: "row" }, download, place),
    make("div", { class: "judge", role: "group", "aria-label": word("review") }, ...buttons, previous, next), view);
}

// All judged pairs, whatever the filters are, nearest to the threshold first.
function labelLines(data) {
  const judged = data.matched.filter((i) => data.hasTexts(i) && data.labels.has(data.key(i)));
  const newest = new Map(judged.map((i) => [data.key(i), i]));
  const lines = smallest([...newest.values()], newest.size, (i) => data.gap(i, data.threshold));
  return lines.map((i) => JSON.stringify({
    pair_id: data.key(i), set: "report", a_title: data.title(i), a_text: data.text(i),
    b_title: data.storedTitle(i), b_text: data.storedText(i), a_id: data.key(i), b_id: data.storedKey(i),
    label: data.labels.get(data.key(i)), type: data.reason(i), label_source: "report",
  }));
}

function exportLabels(data) {
  const lines = labelLines(data);
  save("pairs.jsonl", `${lines.join("\n")}\n`, "application/x-ndjson");
  say(word("exported", number(lines.length)));
}

function storeName(data) {
  return `${data.made}/${data.count}`;
}
