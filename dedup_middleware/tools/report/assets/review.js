// Pairs near the line, judged by a person; the labels are pairs as the evaluation reads them.
const LABELS = { d: 1, k: 0, u: null };

function review(data) {
  data.labels ??= remembered(data);
  data.queue ??= data.matched.filter((i) => data.text(i) !== null && data.storedText(i) !== null)
    .sort((a, b) => data.gap(a, data.threshold) - data.gap(b, data.threshold));
  if (!data.queue.length) return make("div", {}, make("h2", {}, word("review")), make("p", {}, word("noReview")));
  data.at ??= 0;
  const place = make("p", { role: "status", id: "position" });
  const view = make("div");
  const buttons = [["d", "duplicate"], ["k", "different"], ["u", "unsure"]].map(([key, name]) =>
    make("button", { type: "button", id: `judge-${key}`, "aria-keyshortcuts": key, onclick: () => judge(key) }, word(name), " ", make("kbd", {}, key)));
  const previous = make("button", { type: "button", "aria-keyshortcuts": "p", onclick: () => go(-1) }, word("previous"), " ", make("kbd", {}, "p"));
  const next = make("button", { type: "button", "aria-keyshortcuts": "n", onclick: () => go(1) }, word("next"), " ", make("kbd", {}, "n"));
  const save = make("button", { type: "button", id: "export", onclick: () => exportLabels(data) }, word("exportLabels"));

  function update() {
    const i = data.queue[data.at];
    const judged = data.labels.get(data.key(i));
    place.textContent = word("position", number(data.at + 1), number(data.queue.length), number(data.labels.size));
    ["d", "k", "u"].forEach((key, at) =>
      buttons[at].setAttribute("aria-pressed", String(judged !== undefined && LABELS[key] === judged)));
    previous.disabled = data.at === 0;
    next.disabled = data.at === data.queue.length - 1;
    save.disabled = !data.labels.size;
    view.replaceChildren(facts(data, i), sheets(data, i));
  }

  function go(step) {
    data.at = Math.min(Math.max(data.at + step, 0), data.queue.length - 1);
    update();
  }

  function judge(key) {
    data.labels.set(data.key(data.queue[data.at]), LABELS[key]);
    remember(data);
    go(1);
  }

  data.keys = { d: () => judge("d"), k: () => judge("k"), u: () => judge("u"), n: () => go(1), p: () => go(-1) };
  update();
  return make("div", {}, make("h2", {}, word("review")), make("p", { class: "faint" }, word("reviewHelp")),
    make("div", { class: "row judge" }, ...buttons), make("div", { class: "row" }, previous, next, save, place), view);
}

function labelLines(data) {
  return data.queue.filter((i) => data.labels.has(data.key(i))).map((i) => JSON.stringify({
    pair_id: data.key(i), set: "report", a_title: data.title(i), a_text: data.text(i),
    b_title: data.storedTitle(i), b_text: data.storedText(i), a_id: data.key(i), b_id: data.storedKey(i),
    label: data.labels.get(data.key(i)), type: data.reason(i), label_source: "report",
  }));
}

function exportLabels(data) {
  const lines = labelLines(data);
  const link = make("a", {
    href: URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "application/x-ndjson" })), download: "pairs.jsonl",
  });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  say(word("exported", number(lines.length)));
}

// A browser may keep nothing for a file from disk; the labels then live as long as the page.
function storeName(data) {
  return `near-duplicates/${data.made}/${data.count}`;
}

function remember(data) {
  try {
    localStorage.setItem(storeName(data), JSON.stringify([...data.labels]));
  } catch { /* labels stay in memory */ }
}

function remembered(data) {
  try {
    return new Map(JSON.parse(localStorage.getItem(storeName(data)) ?? "[]"));
  } catch {
    return new Map();
  }
}
