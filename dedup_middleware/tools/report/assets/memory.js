// What a browser keeps for the reader. For a file from disk it may keep nothing; then it lasts as
// long as the page.
const MEMORY = "near-duplicates";

function remember(name, value) {
  try {
    localStorage.setItem(`${MEMORY}/${name}`, JSON.stringify(value));
  } catch { /* it stays in memory */ }
}

function recall(name) {
  try {
    return JSON.parse(localStorage.getItem(`${MEMORY}/${name}`));
  } catch {
    return null;
  }
}
