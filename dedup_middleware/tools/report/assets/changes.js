// Pages that had changed when they were seen again, compared with their last version.
const CHANGE_COLUMNS = ["key", "host", "title", "time", "similarity", "added", "removed", "figures", "old_figures", "new_figures", "spider", "crawl"];
const NO_CHANGES = ["texts", "original", "reason", "outcome"];

function changes(data, query) {
  const all = data.changes;
  const source = { ...all, count: all.key.length, words: (i) => [all.key[i], all.title[i], ...(all.old[i] ?? []), ...(all.new[i] ?? [])] };
  const columns = {
    time: { label: "time", of: (i) => all.time[i], number: true, left: true },
    similarity: { label: "similarity", of: (i) => all.similarity[i], number: true },
    site: { label: "page", of: (i) => `${data.hosts[all.host[i]]} ${all.key[i]}` },
    words: { label: "words", of: (i) => (all.added[i] === null ? null : all.added[i] + all.removed[i]), number: true, left: true },
    figures: { label: "numbers", of: (i) => (all.old[i] === null ? null : all.old[i].length + all.new[i].length), number: true, left: true },
  };
  const found = make("p", { role: "status", id: "found" });
  const list = make("div");
  let chosen = [];
  const order = sorting(query, columns, "-time", () => draw());
  const inOrder = () => sorted(chosen, order.order(), columns);
  const rows = () => inOrder().map((i) => ({
    key: all.key[i], host: data.hosts[all.host[i]], title: all.title[i], time: isoTime(all.time[i]), similarity: all.similarity[i],
    added: all.added[i], removed: all.removed[i], figures: all.figures[i], old_figures: all.old[i], new_figures: all.new[i],
    spider: data.spiders[all.spider[i]], crawl: data.crawls[all.crawl[i]],
  }));
  const flat = () => rows().map((row) => ({ ...row, old_figures: row.old_figures?.join(" ") ?? null, new_figures: row.new_figures?.join(" ") ?? null }));

  function draw() {
    list.replaceChildren(listTable(word("changes"), order, inOrder(), row, "list changes-list"));
  }

  function row(i) {
    const words = all.added[i] === null ? make("span", { class: "faint" }, word("noVersion"))
      : make("span", {}, make("ins", {}, word("wordsAdded", number(all.added[i]))), " ", make("del", {}, word("wordsRemoved", number(all.removed[i]))));
    return make("tr", { tabindex: "-1" },
      make("td", { class: "when" }, moment(all.time[i])), make("td", { class: "number" }, digits(all.similarity[i])),
      make("td", { class: "page" }, address(all.key[i], all.title[i])), make("td", { class: "words" }, told("words"), words),
      make("td", { class: "numbers" }, told("numbers"), numbers(i)));
  }

  // On a phone the head of the table is not shown.
  const told = (name) => make("span", { class: "phone faint" }, `${word(name)}: `);

  function numbers(i) {
    if (all.old[i] === null || !(all.old[i].length + all.new[i].length)) return "–";
    const of = (tag, list) => make(tag, {}, list.join(", ") || "–");
    return make("span", {}, of("del", all.old[i]), " → ", of("ins", all.new[i]));
  }

  function update() {
    chosen = choose(data, source, query);
    found.textContent = word("foundChanges", number(chosen.length), number(new Set(chosen.map((i) => all.key[i])).size));
    draw();
  }

  const bar = filterBar(data, query, update, NO_CHANGES);
  update();
  return make("div", {}, make("h2", {}, word("changes")), make("p", { class: "faint" }, word("changesHelp")), bar, found,
    make("div", { class: "row" }, order.field, ...exports("changes", CHANGE_COLUMNS, flat, rows)), list);
}
