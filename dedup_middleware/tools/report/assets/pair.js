// A page and the stored one side by side.
function pair(data, i) {
  if (!(i >= 0 && i < data.count)) return make("p", {}, word("none"));
  if (data.details === null) return unpacking(data);
  return make("div", {},
    make("div", { class: "row" }, make("button", { type: "button", onclick: () => history.back() }, word("back"))),
    make("h2", {}, data.title(i) || data.key(i)), facts(data, i), sheets(data, i));
}

// A view that needs the texts is drawn again when they are loaded.
function unpacking(data) {
  const waiting = make("p", { role: "status" }, word("loadingTexts"));
  data.load().then(() => waiting.isConnected && show(data).focus({ preventScroll: true }));
  return waiting;
}

function facts(data, i) {
  const pages = { ...data.pages, ...data.details };
  const rows = [
    ["outcome", outcomeWords(data.outcome(i))], ["reason", `${reasonWords(data.reason(i))} (${data.reason(i)})`], ["similarity", digits(pages.similarity[i])],
    ["jaccard", digits(pages.jaccard[i])],
    ["distance", pages.distance[i] === null ? "–" : word("bits", pages.distance[i])],
    ["shared", pages.shared[i] === null ? "–" : number(pages.shared[i])],
    ["figures", pages.figures[i] === null ? "–" : number(pages.figures[i])],
    ["tables", data.tables[pages.tables[i]] || "–"], ["time", moment(pages.time[i])],
    ["spider", data.spider(i)], ["crawl", data.crawl(i)],
  ].filter(([, value]) => value !== "");
  return make("dl", { class: "figures small" }, ...rows.map(([name, value]) =>
    make("div", {}, make("dt", {}, word(name)), make("dd", { class: "small" }, value))));
}

function sheets(data, i) {
  const stored = data.storedText(i);
  const fresh = data.text(i);
  const both = stored !== null && fresh !== null ? marked(stored, fresh) : null;
  const told = both === null ? "" : both.places === null ? word("coarse") : both.places ? word("differences", number(both.places)) : word("equal");
  const left = both ? both.left : make("div", { class: "text" }, stored ?? word("noStored"));
  const right = both ? both.right : make("div", { class: "text" }, fresh ?? word("noText"));
  const key = data.storedKey(i);
  return make("div", {}, make("p", { id: "places" }, told),
    make("ul", { class: "legend" }, make("li", { class: "old" }, word("onlyHere")), make("li", { class: "new" }, word("onlyNew"))),
    make("div", { class: "two" },
      make("section", { class: "sheet", "aria-label": word("storedPage") }, make("h3", {}, word("storedPage")),
        make("p", { class: "small" }, key === null ? word("noMatch") : address(key, data.storedTitle(i))), left),
      make("section", { class: "sheet", "aria-label": word("page") }, make("h3", {}, word(data.isDropped(i) ? "droppedPage" : "keptPage")),
        make("p", { class: "small" }, address(data.key(i), data.title(i))), right)));
}
