// The list of scans beside the canvas.

const PARTS = {
  unlabelled: "Without a label",
  test: "Test cases, worst first",
  labelled: "With a label",
};
const MARKS = { accepted: "✓ accepted", corrected: "✎ corrected", rejected: "✕ rejected" };

/** Build the list anew; `open` is called with the number of a scan that is clicked. */
export function showList(box, scans, current, open) {
  box.replaceChildren();
  for (const [part, title] of Object.entries(PARTS)) {
    const members = scans.filter((scan) => scan.part === part);
    if (members.length === 0) continue;
    const heading = element("h3", `${title} (${members.length})`);
    const items = element("ol", "");
    for (const scan of members) {
      const item = element("li", "");
      item.append(entry(scan, scan.number === current, open));
      items.append(item);
    }
    box.append(heading, items);
  }
  box.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
}

function entry(scan, isCurrent, open) {
  const button = element("button", "");
  button.type = "button";
  button.dataset.number = scan.number;
  if (isCurrent) button.setAttribute("aria-current", "true");
  button.append(element("span", scan.name, "scan-name"));
  const mark = MARKS[scan.decision];
  if (mark) button.append(element("span", mark, `mark ${scan.decision}`));
  else if (scan.dice !== null) button.append(element("span", `Dice ${scan.dice.toFixed(2)}`, "mark"));
  else if (scan.rank !== null) button.append(element("span", `rank ${scan.rank}`, "mark"));
  if (scan.reason) button.append(element("span", scan.reason, "reason"));
  button.addEventListener("click", () => open(scan.number));
  return button;
}

function element(tag, text, className = "") {
  const node = document.createElement(tag);
  node.textContent = text;
  node.className = className;
  return node;
}

/** The next scan in the list that nobody has reviewed; null if there is none. */
export function nextToReview(scans, current) {
  const place = scans.findIndex((scan) => scan.number === current);
  const order = [...scans.slice(place + 1), ...scans.slice(0, Math.max(place, 0))];
  return order.find((scan) => scan.part === "unlabelled" && !scan.decision) ?? null;
}

/** The scan `step` places further down the list; null at its ends. */
export function neighbour(scans, current, step) {
  const place = scans.findIndex((scan) => scan.number === current);
  return scans[place + step] ?? null;
}
