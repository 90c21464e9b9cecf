// Two journals: which pages each of them dropped.
const KINDS = ["only-here", "only-there", "other-match", "other-reason", "alike"];
const COMPARED_COLUMNS = ["key", "host", "title", "kind", "outcome", "reason", "stored", "similarity", "other_outcome", "other_reason", "other_stored", "other_similarity"];

// One row a page, with its newest decision in each journal, or -1.
function comparedPages(data) {
  if (data.compared) return data.compared;
  const { pages, matches } = data.other;
  const here = new Map();
  for (const i of data.all) here.set(data.key(i), i);
  const rows = [];
  pages.key.forEach((key, there) => {
    const name = typeof key === "number" ? data.key(key) : key;
    rows.push({ name, here: here.get(name) ?? -1, there });
    here.delete(name);
  });
  for (const [name, i] of here) rows.push({ name, here: i, there: -1 });
  const dropped = (at) => at >= 0 && pages.outcome[at] !== data.fresh;
  const storedThere = (at) => (at < 0 || pages.match[at] < 0 ? null : matches[pages.match[at]]);
  const kinds = rows.map(({ here: i, there }) => {
    const [one, two] = [i >= 0 && data.isDropped(i), dropped(there)];
    if (one !== two) return one ? "only-here" : "only-there";
    if (!one) return "";
    if (data.storedKey(i) !== storedThere(there)) return "other-match";
    return pages.reason[there] === data.pages.reason[i] ? "alike" : "other-reason";
  });
  const known = rows.map((_, at) => at).filter((at) => kinds[at]);
  const pick = (name) => known.map((at) => (rows[at].here >= 0 ? data.pages[name][rows[at].here] : pages[name][rows[at].there]));
  const columns = Object.fromEntries(["title", "time", "host", "spider", "crawl", "reason", "similarity"].map((name) => [name, pick(name)]));
  const shown = known.map((at) => rows[at]);
  data.compared = {
    ...columns, count: known.length, key: shown.map((row) => row.name), kind: known.map((at) => kinds[at]), rows: shown, storedThere,
    words: (i) => [shown[i].name, columns.title[i]],
  };
  return data.compared;
}

function comparison(data, query) {
  const { pages } = data.other;
  const source = comparedPages(data);
  const columns = {
    time: { label: "time", of: (i) => source.time[i], number: true, left: true },
    site: { label: "page", of: (i) => `${data.hosts[source.host[i]]} ${source.key[i]}` },
    here: { label: "thisJournal", of: (i) => (source.rows[i].here < 0 ? null : reasonWords(data.reason(source.rows[i].here))) },
    there: { label: "otherJournal", of: (i) => (source.rows[i].there < 0 ? null : reasonWords(data.reasons[pages.reason[source.rows[i].there]])) },
    compare: { label: "" },
  };
  const found = make("p", { role: "status", id: "found" });
  const summary = make("div");
  const list = make("div");
  let fitting = [];
  const order = sorting(query, columns, "-time", () => draw());
  const kind = () => (KINDS.includes(query.get("kind")) ? query.get("kind") : "");
  const chosen = () => (kind() ? fitting.filter((i) => source.kind[i] === kind()) : fitting);
  const inOrder = () => sorted(chosen(), order.order(), columns);

  function draw() {
    list.replaceChildren(listTable(word("comparison"), order, inOrder(), row, "list compared-list"));
  }

  function row(i) {
    const { here, there } = source.rows[i];
    return make("tr", { tabindex: "-1" },
      make("td", { class: "when" }, moment(source.time[i])), make("td", { class: "page" }, address(source.key[i], source.title[i])),
      side("thisJournal", here < 0 ? null : [data.outcome(here), data.reason(here), data.pages.similarity[here], data.storedKey(here)]),
      side("otherJournal", there < 0 ? null : [data.outcomes[pages.outcome[there]], data.reasons[pages.reason[there]], pages.similarity[there], source.storedThere(there)]),
      make("td", {}, here < 0 ? "" : make("a", { href: `#pair/${here}`, "aria-label": `${word("compare")}: ${source.title[i] || source.key[i]}` }, word("compare"))));
  }

  function side(name, state) {
    const head = make("span", { class: "phone faint" }, `${word(name)}: `);
    if (state === null) return make("td", { class: "side" }, head, make("span", { class: "faint" }, word("notThere")));
    const [outcome, reason, similarity, stored] = state;
    return make("td", { class: "side" }, head, `${outcomeWords(outcome)}, ${digits(similarity)}: ${reasonWords(reason)}`,
      make("br"), stored === null ? "" : make("span", { class: "small" }, address(stored)));
  }

  function update() {
    fitting = choose(data, source, query);
    const many = Object.fromEntries(KINDS.map((name) => [name, 0]));
    for (const i of fitting) many[source.kind[i]]++;
    summary.replaceChildren(table(word("kinds"), [word("kind"), word("pages")], KINDS.map((name) =>
      make("tr", {}, make("th", { scope: "row" }, make("a", {
        href: link("comparison", { ...kept(query), kind: kind() === name ? "" : name }), "aria-current": kind() === name ? "true" : null,
      }, word(name))), make("td", { class: "number" }, number(many[name])))), {}, true));
    found.textContent = word("foundCompared", number(chosen().length));
    draw();
  }

  const state = (i) => {
    const { here, there } = source.rows[i];
    return {
      key: source.key[i], host: data.hosts[source.host[i]], title: source.title[i], kind: source.kind[i],
      outcome: here < 0 ? null : data.outcome(here), reason: here < 0 ? null : data.reason(here), stored: here < 0 ? null : data.storedKey(here),
      similarity: here < 0 ? null : data.pages.similarity[here],
      other_outcome: there < 0 ? null : data.outcomes[pages.outcome[there]], other_reason: there < 0 ? null : data.reasons[pages.reason[there]],
      other_stored: source.storedThere(there), other_similarity: there < 0 ? null : pages.similarity[there],
    };
  };
  const bar = filterBar(data, query, update, ["texts", "original", "outcome"]);
  update();
  return make("div", {}, make("h2", {}, word("comparison")), make("p", { class: "faint" }, word("comparisonHelp")),
    totals(data), bar, make("h3", {}, word("kinds")), summary, found,
    make("div", { class: "row" }, order.field, ...exports("comparison", COMPARED_COLUMNS, () => inOrder().map(state))), list);
}

// What each journal counted, as a whole and by reason.
function totals(data) {
  const sums = [data.activity, data.other.activity].map(({ sites, reasons }) => ({
    seen: sites.reduce((sum, row) => sum + row[1], 0), stored: sites.reduce((sum, row) => sum + row[2], 0),
    dropped: sites.reduce((sum, row) => sum + row[3], 0), reasons: new Map(reasons),
  }));
  const numbers = (of) => sums.map((one) => make("td", { class: "number" }, number(of(one))));
  const names = [...new Set(sums.flatMap((one) => [...one.reasons.keys()]))];
  const rows = [
    ...["seen", "stored", "dropped"].map((name) => make("tr", {}, make("th", { scope: "row" }, word(name)), ...numbers((one) => one[name]))),
    ...names.map((at) => make("tr", {}, make("th", { scope: "row", class: "inner" }, reasonWords(data.reasons[at])), ...numbers((one) => one.reasons.get(at) ?? 0))),
  ];
  return make("div", {}, make("dl", { class: "names small" },
    ...[["thisJournal", data.about.DEDUP_JOURNAL ?? ""], ["otherJournal", data.other.name]].map(([name, value]) =>
      make("div", {}, make("dt", {}, word(name)), make("dd", {}, value)))),
  table(word("counted"), [word("pages"), word("thisJournal"), word("otherJournal")], rows, { class: "totals" }));
}
