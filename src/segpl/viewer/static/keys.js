// Keyboard shortcuts. Each is in the help panel with its description.

/** Handle `shortcuts`, a list of [keys, description, action], and list them in a table. */
export function installKeys(shortcuts, table) {
  const actions = new Map();
  for (const [keys, description, action] of shortcuts) {
    for (const key of keys) actions.set(key, action);
    const row = table.insertRow();
    row.insertCell().append(...keys.map(keyName));
    row.insertCell().textContent = description;
  }
  // Before NiiVue sees the key, which has shortcuts of its own on the canvas.
  document.addEventListener("keydown", (event) => handle(event, actions), { capture: true });
}

function handle(event, actions) {
  const isTyping = event.target.matches("select, input:not([type=checkbox])");
  const isControl = event.ctrlKey || event.metaKey;
  const isUndo = isControl && event.key === "z";
  if ((isControl && !isUndo) || event.altKey || document.querySelector("dialog[open]")) return;
  if (isTyping && (event.key.startsWith("Arrow") || event.key.startsWith("Page"))) return;
  const action = actions.get(event.key);
  if (!action) return;
  event.preventDefault();
  event.stopPropagation();
  action();
}

function keyName(key) {
  const names = { ArrowUp: "↑", ArrowDown: "↓", PageUp: "Page ↑", PageDown: "Page ↓", Escape: "Esc" };
  const node = document.createElement("kbd");
  node.textContent = names[key] ?? key;
  return node;
}
