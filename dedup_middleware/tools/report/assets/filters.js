// Which decisions are shown: those that fit every filter of the address.
const LISTED_SITES = 300;

// Sites by name, or by a part of a name.
function sitesLike(data, text) {
  const wanted = text.trim().toLowerCase();
  const exact = data.hosts.indexOf(wanted);
  if (exact >= 0) return new Set([exact]);
  return new Set(data.hosts.flatMap((host, at) => (host.includes(wanted) ? [at] : [])));
}

// The row numbers in a source (columns of decisions, changes or compared pages) that fit.
function choose(data, source, query) {
  const tests = [];
  const value = (name) => query.get(name) ?? "";
  if (value("site")) {
    const sites = sitesLike(data, value("site"));
    tests.push((i) => sites.has(source.host[i]));
  }
  if (value("original") && source.original) {
    const sites = sitesLike(data, value("original"));
    tests.push((i) => sites.has(source.original(i)));
  }
  for (const [name, names] of [["spider", data.spiders], ["crawl", data.crawls], ["reason", data.reasons]]) {
    if (!value(name) || !source[name]) continue;
    const at = names.indexOf(value(name));
    tests.push((i) => source[name][i] === at);
  }
  if (value("outcome") && source.outcome) {
    const dropped = value("outcome") === "dropped";
    tests.push((i) => (source.outcome[i] !== source.kept) === dropped);
  }
  if (value("since")) tests.push((i) => source.time[i] >= Number(value("since")));
  if (value("until")) tests.push((i) => source.time[i] < Number(value("until")));
  if (value("min")) tests.push((i) => source.similarity[i] !== null && source.similarity[i] >= Number(value("min")));
  if (value("max")) tests.push((i) => source.similarity[i] !== null && source.similarity[i] <= Number(value("max")));
  if (value("q").trim()) tests.push(search(data, source, value("q").trim().toLowerCase(), value("texts") === "1"));
  const found = [];
  for (let i = 0; i < source.count; i++) {
    if (tests.every((fits) => fits(i))) found.push(i);
  }
  return found;
}

function search(data, source, wanted, inTexts) {
  const has = (text) => text.toLowerCase().includes(wanted);
  const bodies = new Set();
  if (inTexts && source.bodies && data.details !== null) {
    data.details.texts.forEach((text, at) => { if (has(text)) bodies.add(at); });
  }
  return (i) => source.words(i).some(has) || (bodies.size > 0 && source.bodies(i).some((at) => bodies.has(at)));
}

// From seconds since 1970 to the value of a date and time field, in local time, and back.
function toField(seconds) {
  if (!seconds) return "";
  const date = new Date(Number(seconds) * 1000);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}

function fromField(text) {
  const time = new Date(text).getTime();
  return Number.isNaN(time) ? "" : String(time / 1000);
}

// The fields; ``onchange`` is called after the address has changed.
// ``without`` names the filters that the view has no use for.
function filterBar(data, query, onchange, without = []) {
  let waiting = 0;
  const set = (name, value) => {
    if (value) query.set(name, value);
    else query.delete(name);
    setQuery(query);
    told.textContent = filtersTold(query, without);
    if (query.get("q") && query.get("texts") === "1" && data.details === null) {
      say(word("loadingTexts"));
      data.load().then(() => bar.isConnected && onchange());
    } else onchange();
  };
  const later = (name, value) => { clearTimeout(waiting); waiting = setTimeout(() => set(name, value), 200); };
  const field = (name, label, input) => (without.includes(name) ? null
    : make("div", { class: "field" }, make("label", { for: `filter-${name}` }, label), input));
  const typed = (name, attributes) => make("input", {
    id: `filter-${name}`, value: query.get(name) ?? "", autocomplete: "off", ...attributes, oninput: (event) => later(name, event.target.value.trim()),
  });
  const picked = (name, names, shown = (one) => one) => {
    const known = [...new Set(names.filter((one) => one !== ""))].sort((a, b) => shown(a).localeCompare(shown(b)));
    if (!known.length) return null;
    return make("select", { id: `filter-${name}`, onchange: (event) => set(name, event.target.value) },
      make("option", { value: "" }, word("any")),
      ...known.map((one) => make("option", { value: one, selected: query.get(name) === one }, shown(one))));
  };
  const time = (name) => make("input", {
    id: `filter-${name}`, type: "datetime-local", value: toField(query.get(name)), onchange: (event) => set(name, fromField(event.target.value)),
  });
  const choice = (name, label, input) => (input === null ? null : field(name, label, input));
  const share = (name) => typed(name, { type: "number", min: "0", max: "1", step: "0.001", inputmode: "decimal" });
  const told = make("span", { class: "count-of-filters" }, filtersTold(query, without));
  const bar = make("div", { class: "filters", role: "search", "aria-label": word("filters") },
    make("div", { class: "row" },
      make("label", { for: "filter-q" }, word("search")), typed("q", { type: "search", id: "filter-q" }),
      without.includes("texts") ? null : make("label", {}, make("input", {
        type: "checkbox", id: "filter-texts", checked: query.get("texts") === "1", onchange: (event) => set("texts", event.target.checked ? "1" : ""),
      }), word("inTexts"))),
    make("details", { open: FILTERS.some((name) => !["q", "texts", ...without].includes(name) && query.get(name)) },
      make("summary", {}, word("filters"), " ", told),
      make("div", { class: "fields" },
        field("site", word("site"), typed("site", { list: "known-sites" })),
        field("original", word("original"), typed("original", { list: "known-sites" })),
        choice("spider", word("spider"), picked("spider", data.spiders)),
        choice("crawl", word("crawl"), picked("crawl", data.crawls)),
        choice("reason", word("reason"), picked("reason", data.reasons, reasonWords)),
        choice("outcome", word("outcome"), picked("outcome", ["dropped", "kept"], (one) => word(one === "kept" ? "stored" : "dropped"))),
        field("since", word("since"), time("since")), field("until", word("until"), time("until")),
        field("min", word("least"), share("min")), field("max", word("most"), share("max"))),
      make("div", { class: "row" }, make("button", {
        type: "button", id: "clear", onclick: () => { location.hash = link(route().view); },
      }, word("clear")))),
    make("datalist", { id: "known-sites" }, ...data.hosts.filter((host) => host).slice(0, LISTED_SITES).map((host) => make("option", { value: host }))));
  if (query.get("q") && query.get("texts") === "1" && data.details === null) data.load().then(() => bar.isConnected && onchange());
  return bar;
}

function filtersTold(query, without) {
  const many = FILTERS.filter((name) => name !== "texts" && !without.includes(name) && query.get(name)).length;
  return many ? word("active", number(many)) : "";
}
