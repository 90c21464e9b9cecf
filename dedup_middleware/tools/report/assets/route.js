// The address of a view: its name, and the filters as a query, so that each state can be linked.
// Filters go from view to view; the order of a list does not.
const FILTERS = ["q", "texts", "site", "original", "spider", "crawl", "reason", "outcome", "since", "until", "min", "max"];

function route() {
  const [path, query = ""] = location.hash.slice(1).split("?");
  const [view, argument] = path.split("/");
  return { view, argument, query: new URLSearchParams(query) };
}

function link(view, values = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined && value !== null && value !== "") query.set(name, value);
  }
  const text = query.toString();
  return `#${view}${text ? `?${text}` : ""}`;
}

function kept(query) {
  return Object.fromEntries(FILTERS.filter((name) => query.get(name)).map((name) => [name, query.get(name)]));
}

// Change the address without a new entry in the history, as for each letter of a search.
function setQuery(query) {
  const { view } = route();
  history.replaceState(null, "", link(view, Object.fromEntries(query)));
  linkViews(view, query);
}
