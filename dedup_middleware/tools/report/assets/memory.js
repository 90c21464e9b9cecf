// The reader's choices in the browser's local storage. For a file from disk there may be none; then
// they last as long as the page.
const MEMORY = "near-duplicates";

function remember(name, value) {
  try {
    localStorage.setItem(`${MEMORY}/${name}`, JSON.stringify(value));
  } catch { /* the choice lasts as long as the page */ }
}

function recall(name) {
  try {
    return JSON.parse(localStorage.getItem(`${MEMORY}/${name}`));
  } catch {
    return null;
  }
}
