// Files that the reader saves.
function save(name, text, type) {
  const target = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  target.click();
  setTimeout(() => URL.revokeObjectURL(target.href), 10000);
}

// Rows with the same fields as CSV with a header (RFC 4180).
function toCsv(rows, columns) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns, ...rows.map((row) => columns.map((name) => row[name]))].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

// Two buttons that save the result of ``rows`` as CSV and that of ``state`` as JSON.
function exports(name, columns, rows, state = rows) {
  const told = (many) => say(word("saved", number(many)));
  return [
    make("button", { type: "button", id: "export-csv", onclick: () => {
      const made = rows();
      save(`${name}.csv`, toCsv(made, columns), "text/csv");
      told(made.length);
    } }, word("exportCsv")),
    make("button", { type: "button", id: "export-json", onclick: () => {
      const made = state();
      save(`${name}.json`, `${JSON.stringify(made, null, 1)}\n`, "application/json");
      told(made.length);
    } }, word("exportJson")),
  ];
}

const isoTime = (seconds) => new Date(seconds * 1000).toISOString().replace(".000Z", "Z");
