// All decisions, filtered, sorted, and as files.
const DECISION_COLUMNS = ["key", "host", "title", "time", "outcome", "reason", "stored", "stored_host", "similarity", "spider", "crawl"];

function decisionColumns(data) {
  const { pages } = data;
  return {
    time: { label: "time", of: (i) => pages.time[i], number: true, left: true },
    similarity: { label: "similarity", of: (i) => pages.similarity[i], number: true },
    site: { label: "page", of: (i) => `${data.host(i)} ${data.key(i)}` },
    original: { label: "match", of: (i) => data.storedKey(i) },
    reason: { label: "reason", of: (i) => reasonWords(data.reason(i)) },
    compare: { label: "" },
  };
}

function decisionState(data, i) {
  return {
    key: data.key(i), host: data.host(i), title: data.title(i), time: isoTime(data.pages.time[i]), outcome: data.outcome(i),
    reason: data.reason(i), stored: data.storedKey(i), stored_host: data.pages.match[i] < 0 ? null : data.hosts[data.source.original(i)],
    similarity: data.pages.similarity[i], spider: data.spider(i), crawl: data.crawl(i),
  };
}

function decisions(data, query) {
  const columns = decisionColumns(data);
  const found = make("p", { role: "status", id: "found" });
  const list = make("div");
  let chosen = [];
  const order = sorting(query, columns, "-time", () => draw());
  const inOrder = () => sorted(chosen, order.order(), columns);
  const rows = () => inOrder().map((i) => decisionState(data, i));
  const restore = restorePanel(data, query, () => chosen);

  function draw() {
    list.replaceChildren(listTable(word("decisionsOf"), order, inOrder(), row, "list decisions-list"));
  }

  function row(i) {
    return make("tr", { tabindex: "-1" },
      make("td", { class: "when" }, moment(data.pages.time[i])), make("td", { class: "number" }, digits(data.pages.similarity[i])),
      make("td", { class: "page" }, address(data.key(i), data.title(i))),
      make("td", { class: "page match" }, data.storedKey(i) === null ? "–" : address(data.storedKey(i))),
      make("td", { class: "why" }, reasonWords(data.reason(i))), make("td", {}, compareLink(data, i)));
  }

  function update() {
    chosen = choose(data, data.source, query);
    const dropped = chosen.reduce((sum, i) => sum + (data.isDropped(i) ? 1 : 0), 0);
    found.textContent = word("foundDecisions", number(chosen.length), number(dropped), number(chosen.length - dropped));
    restore.update();
    draw();
  }

  const bar = filterBar(data, query, update);
  update();
  return make("div", {}, make("h2", {}, word("decisionsOf")), bar, found,
    make("div", { class: "row" }, order.field, ...exports("decisions", DECISION_COLUMNS, rows), restore.button), restore.panel, list);
}

function compareLink(data, i) {
  return make("a", { href: `#pair/${i}`, "aria-label": `${word("compare")}: ${data.title(i) || data.key(i)}` }, word("compare"));
}

// A short table of decisions, each with a link to the side-by-side view.
function decisionTable(data, list, caption) {
  return table(caption, [word("similarity"), word("page"), word("reason"), make("span", { class: "unseen" }, word("compare"))], list.map((i) => decision(data, i)), { class: "decisions" }, true);
}

function decision(data, i) {
  return make("tr", { tabindex: "-1" },
    make("td", { class: "number" }, digits(data.pages.similarity[i])),
    make("td", { class: "page" }, address(data.key(i), data.title(i))),
    make("td", {}, reasonWords(data.reason(i))),
    make("td", {}, compareLink(data, i)));
}
