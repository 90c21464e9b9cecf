// Lists that are sorted, and that grow on demand.
const LIST_ROWS = 100;

// The first ``many`` by a number, in order, without sorting the rest.
function smallest(list, many, of) {
  const best = [];
  for (const one of list) {
    const value = of(one);
    if (best.length === many && value >= best[many - 1][0]) continue;
    let at = best.length;
    while (at > 0 && best[at - 1][0] > value) at--;
    best.splice(at, 0, [value, one]);
    if (best.length > many) best.pop();
  }
  return best.map(([, one]) => one);
}

// Sorted by a column; a minus before its name reverses the order. Entries without a value are last.
function sorted(list, order, columns) {
  const down = order.startsWith("-");
  const { of } = columns[down ? order.slice(1) : order];
  const turn = down ? -1 : 1;
  const keyed = list.map((one) => [of(one), one]);
  keyed.sort(([a], [b]) => {
    if (a === b) return 0;
    if (a === null || a === undefined) return 1;
    if (b === null || b === undefined) return -1;
    return a < b ? -turn : turn;
  });
  return keyed.map(([, one]) => one);
}

// A field for the order of a list, for screens where its head is not shown, and its head.
function sorting(query, columns, first, onchange) {
  const order = () => {
    const chosen = query.get("sort") ?? first;
    return columns[chosen.replace(/^-/, "")] ? chosen : first;
  };
  const set = (chosen) => {
    query.set("sort", chosen);
    setQuery(query);
    select.value = chosen;
    onchange();
  };
  const names = Object.entries(columns).filter(([, column]) => column.of);
  const select = make("select", { id: "sort", onchange: () => set(select.value) }, ...names.flatMap(([name, column]) =>
    [`-${name}`, name].map((value) => make("option", { value, selected: value === order() },
      word(value === name ? "ascending" : "descending", word(column.label))))));
  const head = () => make("tr", {}, ...Object.entries(columns).map(([name, column]) => {
    if (!column.of) return make("th", { scope: "col" }, column.label ? word(column.label) : make("span", { class: "unseen" }, word("compare")));
    const now = order().replace(/^-/, "") === name ? (order().startsWith("-") ? "descending" : "ascending") : null;
    return make("th", { scope: "col", "aria-sort": now, class: column.number && !column.left ? "number" : null }, make("button", {
      type: "button", class: "sort", "data-sort": name, onclick: (event) => {
        const inHead = event.currentTarget.closest("thead") !== null;
        set(now === (column.number ? "descending" : "ascending") ? (column.number ? name : `-${name}`) : (column.number ? `-${name}` : name));
        if (inHead) document.querySelector(`[data-sort="${name}"]`)?.focus();
      },
    }, word(column.label), make("span", { "aria-hidden": "true" }, now === "descending" ? " ▾" : now ? " ▴" : "")));
  }));
  const field = make("label", { class: "order", for: "sort" }, word("sort"), select);
  return { order, head, field };
}

// A table of entries in the chosen order.
function listTable(caption, order, entries, show, kind) {
  if (!entries.length) return make("p", { class: "faint" }, word("none"));
  const body = make("tbody");
  const list = growing(entries, LIST_ROWS, show, body);
  list.prepend(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    make("table", { class: kind }, make("caption", { class: "unseen" }, caption), make("thead", {}, order.head()), body)));
  return list;
}
